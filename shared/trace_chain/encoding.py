"""RLP, Keccak and the trie over a block's list: what its header's roots are made with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from Crypto.Hash import keccak as _keccak

EMPTY_ROOT = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
"""Of a list without any item."""
_EMPTY = b"\x80"
_NIBBLES = [(byte >> 4, byte & 15) for byte in range(256)]


def keccak(data: bytes) -> bytes:
    return _keccak.new(digest_bits=256, data=data).digest()


def rlp_bytes(data: bytes) -> bytes:
    size = len(data)
    if size == 1 and data[0] < 0x80:
        return data
    if size < 56:
        return bytes((0x80 + size,)) + data
    return _long(0xB7, size) + data


def rlp_number(value: int) -> bytes:
    return rlp_bytes(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rlp_list(encoded: Sequence[bytes]) -> bytes:
    """Of items that are encoded already."""
    data = b"".join(encoded)
    if len(data) < 56:
        return bytes((0xC0 + len(data),)) + data
    return _long(0xF7, len(data)) + data


def _long(first: int, size: int) -> bytes:
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((first + len(length),)) + length


def list_root(items: Sequence[bytes]) -> bytes:
    """The root of the trie from each item's place in the list to the item."""
    if not items:
        return EMPTY_ROOT
    placed = sorted((_path(rlp_number(at)), item) for at, item in enumerate(items))
    return keccak(_node(placed, 0))


def _path(key: bytes) -> tuple[int, ...]:
    return tuple(nibble for byte in key for nibble in _NIBBLES[byte])


def _node(placed: Sequence[tuple[tuple[int, ...], bytes]], depth: int) -> bytes:
    """The node above these items, whose paths are the same up to `depth`; sorted by path.

    No place's path is the beginning of another's, so that branches hold no values.
    """
    first, item = placed[0]
    if len(placed) == 1:
        return rlp_list((rlp_bytes(_compact(first[depth:], leaf=True)), rlp_bytes(item)))
    last = placed[-1][0]
    common = depth
    while first[common] == last[common]:
        common += 1
    bounds = [0, *(at for at, (one, other) in enumerate(pairwise(placed), 1)
                   if one[0][common] != other[0][common]), len(placed)]  # fmt: skip
    children = [_EMPTY] * 17
    for start, end in pairwise(bounds):
        children[placed[start][0][common]] = _reference(_node(placed[start:end], common + 1))
    branch = rlp_list(children)
    if common == depth:
        return branch
    return rlp_list((rlp_bytes(_compact(first[depth:common], leaf=False)), _reference(branch)))


def _reference(node: bytes) -> bytes:
    """How a node is named in the one above: short ones as they are."""
    return node if len(node) < 32 else b"\xa0" + keccak(node)


def _compact(path: Sequence[int], *, leaf: bool) -> bytes:
    flag = 2 if leaf else 0
    nibbles = (flag + 1, *path) if len(path) % 2 else (flag, 0, *path)
    return bytes(16 * one + other for one, other in zip(nibbles[::2], nibbles[1::2], strict=True))
