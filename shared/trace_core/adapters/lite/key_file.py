"""Signs capability tokens with a key in a file, where AWS has a key in KMS."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trace_core.adapters.lite.atomic_files import create_file, exclusive_lock, replace_file
from trace_core.adapters.public_keys import public_jwk
from trace_core.kernel.errors import Unavailable

_RETIRED_MAX = 8
"""A token lives for a day, so these many rotations a day are harmless."""
_END_OF_KEY = b"-----END "


@dataclass(frozen=True, repr=False)
class _Keys:
    private: ec.EllipticCurvePrivateKey
    kid: str
    jwks: tuple[dict[str, str], ...]
    retired: tuple[ec.EllipticCurvePublicKey, ...]


class KeyFileSigner:
    """`TokenSigner` on one PEM file: the private key, then the public keys it replaced.

    The file is looked at before each use, so that a rotation by one process holds for all.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser().resolve()
        self._lock = threading.Lock()
        self._loaded: tuple[tuple[int, int, int], _Keys] | None = None

    @property
    def kid(self) -> str:
        """The RFC 7638 thumbprint of the current key."""
        return self._keys().kid

    def sign(self, claims: Mapping[str, Any]) -> str:
        keys = self._keys()
        return jwt.encode(dict(claims), keys.private, algorithm="ES256", headers={"kid": keys.kid})

    def jwks(self) -> dict[str, Any]:
        return {"keys": [dict(key) for key in self._keys().jwks]}

    def rotate(self) -> None:
        """Sign with a new key from now on; tokens of the former ones stay valid."""
        self._keys()
        with exclusive_lock(self._path.with_name(f"{self._path.name}.lock")):
            old = self._keys()
            retired = (old.private.public_key(), *old.retired)[:_RETIRED_MAX]
            replace_file(self._path, _encode(ec.generate_private_key(ec.SECP256R1()), retired))

    def _keys(self) -> _Keys:
        try:
            version = self._version()
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Whoever is first wins; the others read the winner's key.
            create_file(self._path, _encode(ec.generate_private_key(ec.SECP256R1()), ()))
            version = self._version()
        with self._lock:
            if self._loaded is None or self._loaded[0] != version:
                self._loaded = (version, _decode(self._path.read_bytes()))
            return self._loaded[1]

    def _version(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size


def _encode(
    private: ec.EllipticCurvePrivateKey, retired: tuple[ec.EllipticCurvePublicKey, ...]
) -> bytes:
    parts = [
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    ]
    for key in retired:
        parts.append(
            key.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    return b"".join(parts)


def _decode(data: bytes) -> _Keys:
    try:
        first, *others = _split(data)
        private = serialization.load_pem_private_key(first, password=None)
        public = [serialization.load_pem_public_key(part) for part in others]
    except ValueError:
        raise Unavailable("The file of the signing key is damaged.") from None
    retired = tuple(key for key in public if isinstance(key, ec.EllipticCurvePublicKey))
    if (
        not isinstance(private, ec.EllipticCurvePrivateKey)
        or len(retired) != len(public)
        or {private.curve.name, *(key.curve.name for key in retired)} != {"secp256r1"}
    ):
        raise Unavailable("The file of the signing key holds a key of another kind.")
    jwks = tuple(public_jwk(key) for key in (private.public_key(), *retired))
    return _Keys(private=private, kid=jwks[0]["kid"], jwks=jwks, retired=retired)


def _split(data: bytes) -> list[bytes]:
    parts, lines = [], []
    for line in data.splitlines(keepends=True):
        lines.append(line)
        if line.startswith(_END_OF_KEY):
            parts.append(b"".join(lines))
            lines = []
    return parts
