"""Random values of ABI types, what they are encoded as, and what they are to be read as.

Written after the specification and apart from the decoder, so that one can judge the other.
"""

from __future__ import annotations

import random
from typing import Any

from emr_jobs.abi.events import Argument, Event
from emr_jobs.abi.types import AbiType
from tests.keccak import keccak

WORDS = ("uint", "int", "address", "bool", "fixed_bytes")


def random_type(chance: random.Random, depth: int = 2) -> AbiType:
    kind = chance.choice([*WORDS * 2, "bytes", "string", *["array", "tuple"] * (depth > 0)])
    match kind:
        case "uint" | "int":
            return AbiType(kind, 8 * chance.choice((1, 4, 7, 8, 16, 31, 32, 32)))
        case "fixed_bytes":
            return AbiType("fixed_bytes", chance.randint(1, 32))
        case "array":
            length = chance.choice((None, None, 1, 3))
            return AbiType("array", item=random_type(chance, depth - 1), length=length)
        case "tuple":
            size = chance.randint(1, 3)
            fields = ((f"f{at}", random_type(chance, depth - 1)) for at in range(size))
            return AbiType("tuple", fields=tuple(fields))
    return AbiType(kind)


def random_value(chance: random.Random, kind: AbiType) -> Any:
    match kind.kind:
        case "uint":
            top = (1 << kind.size) - 1
            return chance.choice((0, 1, top, top >> 1, chance.randint(0, top)))
        case "int":
            top = (1 << kind.size - 1) - 1
            return chance.choice((0, -1, top, -top - 1, chance.randint(-top - 1, top)))
        case "address":
            return chance.randbytes(20)
        case "bool":
            return chance.random() < 0.5
        case "fixed_bytes":
            return chance.randbytes(kind.size)
        case "bytes":
            return chance.randbytes(chance.choice((0, 1, 31, 32, 33, 100)))
        case "string":
            return "".join(chance.choices('abc "\\\n{}é漢🙂', k=chance.randint(0, 40)))
        case "array":
            length = chance.randint(0, 3) if kind.length is None else kind.length
            return [random_value(chance, kind.of) for _ in range(length)]
    return [random_value(chance, each) for _, each in kind.fields]


def encoded(types: list[AbiType], values: list[Any]) -> bytes:
    """Heads, and behind them what has no fixed size."""
    head_size = sum(each.head_bytes for each in types)
    heads, tails = b"", b""
    for kind, value in zip(types, values, strict=True):
        if kind.is_dynamic:
            heads += (head_size + len(tails)).to_bytes(32, "big")
            tails += _encoded(kind, value)
        else:
            heads += _encoded(kind, value)
    return heads + tails


def _encoded(kind: AbiType, value: Any) -> bytes:
    match kind.kind:
        case "uint" | "bool":
            return int(value).to_bytes(32, "big")
        case "int":
            return int(value).to_bytes(32, "big", signed=True)
        case "address":
            return bytes(12) + value
        case "fixed_bytes":
            return value + bytes(32 - len(value))
        case "bytes" | "string":
            raw = value.encode() if isinstance(value, str) else value
            return len(raw).to_bytes(32, "big") + raw + bytes(-len(raw) % 32)
        case "array":
            count = b"" if kind.length is not None else len(value).to_bytes(32, "big")
            return count + encoded([kind.of] * len(value), value)
    return encoded([each for _, each in kind.fields], value)


def read_as(kind: AbiType, value: Any) -> Any:
    """The value as JSON has it."""
    match kind.kind:
        case "uint" | "int":
            return str(value)
        case "bool" | "string":
            return value
        case "array":
            return [read_as(kind.of, each) for each in value]
        case "tuple":
            pairs = zip(kind.fields, value, strict=True)
            return {name: read_as(each, one) for (name, each), one in pairs}
    return f"0x{value.hex()}"


def random_event(chance: random.Random, name: str) -> Event:
    arguments = []
    for at in range(chance.randint(0, 5)):
        indexed = chance.random() < 0.4 and sum(each.indexed for each in arguments) < 3
        arguments.append(Argument(f"a{at}", random_type(chance), indexed))
    return Event(name, tuple(arguments))


def random_log(chance: random.Random, event: Event) -> tuple[dict[str, Any], dict[str, Any]]:
    """A log of the event, and its arguments as JSON has them."""
    topics, types, values, told = [event.topic0], [], [], {}
    for each in event.arguments:
        value = random_value(chance, each.type)
        if each.is_hash:
            topics.append(f"0x{keccak(repr(value).encode()).hex()}")
            told[each.name] = topics[-1]
            continue
        told[each.name] = read_as(each.type, value)
        if each.indexed:
            topics.append(f"0x{_encoded(each.type, value).hex()}")
        else:
            types.append(each.type)
            values.append(value)
    log = {f"topic{at}": topics[at] if at < len(topics) else None for at in range(4)}
    return {**log, "data": f"0x{encoded(types, values).hex()}"}, told
