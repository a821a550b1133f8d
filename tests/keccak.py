"""Keccak-256 by a library that is not ours."""

from __future__ import annotations

from Crypto.Hash import keccak as library


def keccak(data: bytes) -> bytes:
    return library.new(data=data, digest_bits=256).digest()
