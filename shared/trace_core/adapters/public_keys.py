"""Public keys of ES256 as JSON Web Keys, whoever holds the private half."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives.asymmetric import ec


def public_jwk(key: ec.EllipticCurvePublicKey) -> dict[str, str]:
    numbers = key.public_numbers()
    required = {
        "crv": "P-256",
        "kty": "EC",
        "x": base64url(numbers.x.to_bytes(32, "big")),
        "y": base64url(numbers.y.to_bytes(32, "big")),
    }
    # RFC 7638: the required members only, in the order of their names, without blanks.
    text = json.dumps(required, sort_keys=True, separators=(",", ":"))
    thumbprint = base64url(hashlib.sha256(text.encode()).digest())
    return {**required, "alg": "ES256", "use": "sig", "kid": thumbprint}


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
