"""Values out of a log's data: strictly, and in time that its size bounds.

Runs in Spark's Python workers for what expressions cannot do: types of no fixed size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from emr_jobs.abi.types import WORD, AbiType


class Malformed(Exception):
    """The data is not what the event's signature says."""


def decoded(types: Sequence[AbiType], data: bytes) -> list[Any]:
    """Whole numbers become decimal text, bytes and addresses hex, arrays lists, tuples maps.

    Bytes behind the last value are passed over, as every reader of logs does.
    """
    return _Data(data).sequence(types, 0)


def as_json(value: Any) -> str:
    """In the spelling in which the platform stores JSON."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def as_text(value: Any) -> str:
    """For a column of its own."""
    return value if isinstance(value, str) else as_json(value)


def named(names: Sequence[str], values: Sequence[Any]) -> Any:
    """A map; a list where the names do not tell the values apart."""
    if all(names) and len(set(names)) == len(names):
        return dict(zip(names, values, strict=True))
    return list(values)


class _Data:
    def __init__(self, data: bytes) -> None:
        self._data = data
        # Where nothing points at the same place twice, no byte is read twice. Data that does is
        # made to blow up, or broken.
        self._left = len(data)

    def sequence(self, types: Sequence[AbiType], base: int) -> list[Any]:
        """Heads one after the other; what has no fixed size lies at an offset from `base`."""
        values, at = [], base
        for each in types:
            values.append(self._value(each, at, base))
            at += each.head_bytes
        return values

    def _value(self, kind: AbiType, at: int, base: int) -> Any:
        if not kind.is_dynamic:
            return self._at(kind, at)
        offset = self._number(at)
        if offset > len(self._data):
            raise Malformed(f"an offset of {_short(offset)} leads out of the data")
        return self._at(kind, base + offset)

    def _at(self, kind: AbiType, at: int) -> Any:
        match kind.kind:
            case "bytes":
                return f"0x{self._bytes(at).hex()}"
            case "string":
                return _text(self._bytes(at))
            case "array":
                return self._array(kind, at)
            case "tuple":
                values = self.sequence([each for _, each in kind.fields], at)
                return named([name for name, _ in kind.fields], values)
            case _:
                return word(kind, self._take(at, WORD))

    def _array(self, kind: AbiType, at: int) -> list[Any]:
        length = kind.length
        if length is None:
            length, at = self._number(at), at + WORD
            if length * kind.of.head_bytes > len(self._data) - at:
                raise Malformed(f"an array of {_short(length)} items does not fit into the data")
        return self.sequence([kind.of] * length, at)

    def _bytes(self, at: int) -> bytes:
        length = self._number(at)
        if length > len(self._data):
            raise Malformed(f"{_short(length)} bytes do not fit into the data")
        return self._take(at + WORD, length)

    def _number(self, at: int) -> int:
        return int.from_bytes(self._take(at, WORD), "big")

    def _take(self, at: int, length: int) -> bytes:
        if at + length > len(self._data):
            raise Malformed(f"{len(self._data)} bytes of data, and {at + length} are needed")
        self._left -= length
        if self._left < 0:
            raise Malformed("several values lie at the same place")
        return self._data[at : at + length]


def word(kind: AbiType, data: bytes) -> Any:
    """One word as a value; what pads it must be what the ABI says."""
    number = int.from_bytes(data, "big")
    match kind.kind:
        case "uint":
            if number >> kind.size:
                raise Malformed(f"a word is no {kind.text}")
            return str(number)
        case "int":
            signed = int.from_bytes(data, "big", signed=True)
            if not -(1 << kind.size - 1) <= signed < 1 << kind.size - 1:
                raise Malformed(f"a word is no {kind.text}")
            return str(signed)
        case "address":
            if number >> 160:
                raise Malformed("a word is no address")
            return f"0x{data[12:].hex()}"
        case "bool":
            if number > 1:
                raise Malformed("a word is no bool")
            return bool(number)
        case "fixed_bytes":
            if any(data[kind.size :]):
                raise Malformed(f"a word is no {kind.text}")
            return f"0x{data[: kind.size].hex()}"
    raise TypeError(f"{kind.text} is more than a word")


def _text(data: bytes) -> str:
    try:
        found = data.decode()
    except UnicodeDecodeError:
        raise Malformed("a string is no UTF-8") from None
    if "\0" in found:
        raise Malformed("a string has a NUL character, which no column can hold")
    return found


def _short(number: int) -> str:
    return str(number) if number < 10**12 else "more than 10^12"


class DataDecoder:
    """What a Spark UDF calls: hex text in, the reason or one text for each value out."""

    def __init__(self, types: Sequence[Sequence[AbiType]], *, json: bool) -> None:
        self._types = [tuple(each) for each in types]
        self._spell = as_json if json else as_text

    def __call__(self, event: int | None, data: str | None) -> tuple[str | None, list[str] | None]:
        if event is None:
            return None, None
        try:
            return None, list(self._values(self._types[event], data or "0x"))
        except Malformed as error:
            return str(error), None

    def _values(self, types: Sequence[AbiType], data: str) -> Iterator[str]:
        digits = data.removeprefix("0x")
        try:
            # Spaces are digits to `fromhex`.
            raw = bytes.fromhex(digits) if data.startswith("0x") and digits.isalnum() else None
        except ValueError:
            raw = None
        if raw is None and digits:
            raise Malformed("the data is no hex text")
        for each in decoded(types, raw or b""):
            yield self._spell(each)
