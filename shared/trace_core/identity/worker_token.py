"""Worker tokens: opaque secrets of which the platform keeps the hash only."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode

from trace_core.kernel.ids import RandomBits

_PREFIX = "trw_"
_BYTES = 32


def new_worker_token(random_bits: RandomBits) -> str:
    """A new token of 256 random bits; its prefix lets scanners find a leaked one."""
    data = random_bits(_BYTES * 8).to_bytes(_BYTES, "big")
    return _PREFIX + urlsafe_b64encode(data).rstrip(b"=").decode()


def hash_token(token: str) -> bytes:
    """What is stored and looked up. The token is random, so a plain hash cannot be reversed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
