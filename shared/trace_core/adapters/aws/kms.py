"""Signs capability tokens with keys that never leave KMS."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from trace_core.adapters.aws.calls import calling
from trace_core.adapters.public_keys import base64url, public_jwk
from trace_core.kernel.errors import Denied

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

_SERVICE = "The key service"


class KmsSigner:
    """`TokenSigner` on ECC_NIST_P256 keys: the first signs, all of them verify.

    KMS does not rotate asymmetric keys. A rotation puts a new key in front of the list, and takes
    an old one off it once the last token that it signed is over, a day later.
    """

    def __init__(self, client: KMSClient, key_ids: Sequence[str]) -> None:
        self._client = client
        self._key_ids = key_ids
        self._lock = threading.Lock()
        self._public: dict[str, dict[str, str]] = {}

    @property
    def kid(self) -> str:
        return self._jwk(self._key_ids[0])["kid"]

    def sign(self, claims: Mapping[str, Any]) -> str:
        key_id = self._key_ids[0]
        header = {"alg": "ES256", "kid": self._jwk(key_id)["kid"], "typ": "JWT"}
        signed = ".".join(
            base64url(json.dumps(part, separators=(",", ":")).encode())
            for part in (header, dict(claims))
        )
        with calling(_SERVICE):
            answer = self._client.sign(
                KeyId=key_id,
                Message=hashlib.sha256(signed.encode()).digest(),
                MessageType="DIGEST",
                SigningAlgorithm="ECDSA_SHA_256",
            )
        # KMS answers ASN.1, a token carries the two numbers side by side.
        r, s = decode_dss_signature(answer["Signature"])
        return f"{signed}.{base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def jwks(self) -> dict[str, Any]:
        return {"keys": [dict(self._jwk(key_id)) for key_id in self._key_ids]}

    def _jwk(self, key_id: str) -> dict[str, str]:
        """Public keys do not change, so each is asked for once."""
        with self._lock:
            if key_id not in self._public:
                with calling(_SERVICE):
                    answer = self._client.get_public_key(KeyId=key_id)
                key = serialization.load_der_public_key(answer["PublicKey"])
                if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
                    raise Denied("The signing key is not an ECC_NIST_P256 key.")
                self._public[key_id] = public_jwk(key)
            return self._public[key_id]
