"""Issuers for tests: real keys, real signatures, and nothing checked on the way out."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from trace_core.kernel.errors import Unavailable

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(number: int = 0, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> Any:
    return ec.generate_private_key(curve())


def encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(key: Private, kid: str, **more: Any) -> dict[str, Any]:
    kind: Any = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else None
    kind = kind or jwt.algorithms.ECAlgorithm
    public = json.loads(kind.to_jwk(key.public_key()))
    public.pop("key_ops", None)
    return {**public, "kid": kid, **more}


def sign(key: Private, signed: str) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    size = (key.curve.key_size + 7) // 8
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def raw(key: Private, header: bytes, claims: bytes) -> str:
    signed = f"{encode(header)}.{encode(claims)}"
    return f"{signed}.{encode(sign(key, signed))}"


def token(key: Private, header: object, claims: object) -> str:
    return raw(key, json.dumps(header).encode(), json.dumps(claims).encode())


class Keys:
    """A `KeySource` that counts how often it is asked, and can go away."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.document: dict[str, Any] = {"keys": list(keys)}
        self.asked = 0
        self.away = False

    def fetch(self) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise Unavailable
        return self.document
