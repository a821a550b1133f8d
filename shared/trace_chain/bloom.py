"""The logs bloom of a block: 2048 bits in which each log's address and topics leave three each.

It proves that a log is missing when its bits are; a log whose bits are there for another's sake can
be left out unseen. Receipts are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from trace_chain.encoding import keccak

BITS = 2048


@lru_cache(maxsize=1 << 16)
def _bits(value: bytes) -> int:
    digest = keccak(value)
    found = 0
    for at in (0, 2, 4):
        found |= 1 << (((digest[at] << 8) | digest[at + 1]) & (BITS - 1))
    return found


def bloom_of(values: Iterable[bytes]) -> int:
    """Of all addresses and topics of a block's logs, as the number that its bytes are."""
    found = 0
    for value in values:
        found |= _bits(value)
    return found
