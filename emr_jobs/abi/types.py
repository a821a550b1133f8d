"""The types of the ABI: what they are called, and how many bytes of a head they take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

WORD = 32
LENGTH_MAX = 1024
"""Of arrays with a fixed length; their whole head is in every log."""

Kind = Literal["uint", "int", "address", "bool", "fixed_bytes", "bytes", "string", "array", "tuple"]

_SIZED = re.compile(r"(uint|int|bytes)([1-9][0-9]{0,2})")
_OTHERWISE = {"uint": "uint256", "int": "int256", "byte": "bytes1"}


@dataclass(frozen=True)
class AbiType:
    kind: Kind
    size: int = 0
    """Bits of numbers, bytes of `bytesN`."""
    item: AbiType | None = None
    length: int | None = None
    """Of an array; None: as many as there are."""
    fields: tuple[tuple[str, AbiType], ...] = ()
    """Of a tuple; names may be empty."""
    called: str = ""
    """In a signature, where that is not what it is encoded as."""

    @property
    def text(self) -> str:
        """As it stands in a signature."""
        match self.kind:
            case "uint" | "int":
                return f"{self.kind}{self.size}"
            case "fixed_bytes":
                return self.called or f"bytes{self.size}"
            case "array":
                return f"{self.of.text}[{'' if self.length is None else self.length}]"
            case "tuple":
                return f"({','.join(each.text for _, each in self.fields)})"
            case _:
                return self.kind

    @property
    def of(self) -> AbiType:
        if self.item is None:
            raise TypeError(f"{self.kind} has no items")
        return self.item

    @property
    def is_dynamic(self) -> bool:
        match self.kind:
            case "bytes" | "string":
                return True
            case "array":
                return self.length is None or self.of.is_dynamic
            case "tuple":
                return any(each.is_dynamic for _, each in self.fields)
            case _:
                return False

    @property
    def is_word(self) -> bool:
        """It is one word, in a topic as well as in the data."""
        return self.kind not in ("bytes", "string", "array", "tuple")

    @property
    def head_bytes(self) -> int:
        if self.is_dynamic:
            return WORD
        match self.kind:
            case "array":
                return (self.length or 0) * self.of.head_bytes
            case "tuple":
                return sum(each.head_bytes for _, each in self.fields)
            case _:
                return WORD


def plain_type(text: str) -> AbiType:
    """A type without brackets; raises `ValueError` with what could be written instead."""
    text = _OTHERWISE.get(text, text)
    match text:
        case "address":
            return AbiType("address")
        case "bool":
            return AbiType("bool")
        case "function":
            # An address and a selector.
            return AbiType("fixed_bytes", 24, called=text)
        case "bytes":
            return AbiType("bytes")
        case "string":
            return AbiType("string")
    sized = _SIZED.fullmatch(text)
    if sized is not None:
        size = int(sized[2])
        if sized[1] == "bytes" and size <= WORD:
            return AbiType("fixed_bytes", size)
        if sized[1] == "uint" and size <= 256 and size % 8 == 0:
            return AbiType("uint", size)
        if sized[1] == "int" and size <= 256 and size % 8 == 0:
            return AbiType("int", size)
    raise ValueError(
        f"`{text}` is no type of the ABI; write what it is encoded as: `address` for a contract, "
        "`uint8` for an enum, `tuple(…)` for a struct"
    )


def array_of(item: AbiType, length: int | None) -> AbiType:
    if length is not None and not 1 <= length <= LENGTH_MAX:
        raise ValueError(f"an array has a length from 1 to {LENGTH_MAX}")
    return AbiType("array", item=item, length=length)
