"""Values out of a log's data."""

from __future__ import annotations

import random
import time

import pytest

from emr_jobs.abi.decode import DataDecoder, Malformed, decoded
from emr_jobs.abi.events import parse_event
from emr_jobs.abi.types import AbiType
from tests.abi_values import encoded, random_type, random_value, read_as


def types_of(text: str) -> list[AbiType]:
    return [each.type for each in parse_event(f"A({text})").arguments]


def words(*values: int) -> bytes:
    return b"".join(each.to_bytes(32, "big") for each in values)


def test_any_values_are_read_as_they_were_encoded() -> None:
    chance = random.Random(5)  # noqa: S311
    for _ in range(1500):
        types = [random_type(chance, depth=3) for _ in range(chance.randint(0, 4))]
        values = [random_value(chance, each) for each in types]
        wanted = [read_as(kind, value) for kind, value in zip(types, values, strict=True)]
        data = encoded(types, values)
        assert decoded(types, data) == wanted
        assert decoded(types, data + b"\x01" * chance.randint(0, 40)) == wanted


def test_broken_data_is_told_and_breaks_nothing() -> None:
    chance = random.Random(6)  # noqa: S311
    told = 0
    for _ in range(3000):
        types = [random_type(chance, depth=3) for _ in range(chance.randint(1, 4))]
        data = bytearray(encoded(types, [random_value(chance, each) for each in types]))
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.3:
                del data[chance.randint(0, len(data)) :]
            elif data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            decoded(types, bytes(data))
        except Malformed:
            told += 1
    assert 500 < told < 3000


@pytest.mark.parametrize(
    ("types", "data", "reason"),
    [
        ("uint256 a", words(1)[:31], "31 bytes of data, and 32 are needed"),
        ("uint8 a", words(256), "a word is no uint8"),
        ("int8 a", words(128), "a word is no int8"),
        ("address a", words(1 << 160), "a word is no address"),
        ("bool a", words(2), "a word is no bool"),
        ("bytes4 a", words(1), "a word is no bytes4"),
        ("bytes a", words(64, 1), "64 bytes of data, and 96 are needed"),
        ("bytes a", words(1 << 255), "an offset of more than"),
        ("bytes a", words(32, 33) + bytes(32), "97 are needed"),
        ("bytes a", words(32, 1 << 200), "bytes do not fit into the data"),
        ("uint256[] a", words(32, 1 << 64), "items does not fit into the data"),
        ("string a", words(32, 1) + b"\xff", "a string is no UTF-8"),
        ("string a", words(32, 1) + b"\x00", "a NUL character"),
    ],
)
def test_reasons(types: str, data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decoded(types_of(types), data)


def test_data_that_points_at_itself_ends_soon() -> None:
    # Each of 300 items is the whole of the array: 300^6 values, if all were read.
    data = words(32, 300, *[0] * 300)
    started = time.monotonic()
    with pytest.raises(Malformed):
        decoded(types_of("uint256[][][][][][] a"), data)
    assert time.monotonic() - started < 1


def test_texts_for_spark() -> None:
    types = types_of("string a, uint256[] b, bool c, tuple(bool y, bool x) d")
    values = ['a"b', [1, 2**256 - 1], True, [True, False]]
    data = f"0x{encoded(types, values).hex()}"
    big = str(2**256 - 1)
    assert DataDecoder([types], json=True)(0, data) == (
        None,
        ['"a\\"b"', f'["1","{big}"]', "true", '{"x":false,"y":true}'],
    )
    assert DataDecoder([types], json=False)(0, data) == (
        None,
        ['a"b', f'["1","{big}"]', "true", '{"x":false,"y":true}'],
    )


@pytest.mark.parametrize("data", ["", "0x0", "0xzz", "00", "0x 00", "0x\u0660\u0660", None])
def test_what_is_no_hex_text_is_told(data: str | None) -> None:
    reason, values = DataDecoder([types_of("string a")], json=True)(0, data)
    assert reason is not None
    assert values is None
