"""Hex values of JSON-RPC, read strictly: what is not in the format raises `ValueError`."""

from __future__ import annotations

INT64_END = 2**63
UINT256_END = 2**256


def data(text: str, size: int | None = None) -> bytes:
    """Bytes; of that size, if one is given."""
    found = bytes.fromhex(text[2:])
    # fromhex overlooks blanks; the length tells.
    if text[:2] != "0x" or len(found) * 2 + 2 != len(text) or size not in (None, len(found)):
        raise ValueError(f"no hex bytes of the right length: {text[:80]!r}")
    return found


def number(text: str, end: int = INT64_END) -> int:
    """A whole number below `end`."""
    if text[:2] != "0x" or "_" in text or "+" in text or "-" in text:
        raise ValueError(f"no hex number: {text[:80]!r}")
    found = int(text, 16)
    if found >= end:
        raise ValueError(f"a number that does not fit its column: {text[:80]}")
    return found


def uint256(text: str) -> int:
    return number(text, UINT256_END)


def text_of(value: bytes) -> str:
    return "0x" + value.hex()
