"""Which events a job decodes: of its settings, checked when it is deployed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from emr_jobs.abi.events import STANDARDS, Argument, Event, events_of_json, parse_event
from emr_jobs.abi.types import AbiType

NAME_MAX = 63


def chosen_events(events: Sequence[str], abi: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Raises `ValueError` for what cannot be told apart in the logs."""
    own = events_of_json(abi)
    found: list[Event] = []
    for each in events:
        found += _meant(each, own)
    if not events:
        found += own
    if not found:
        raise ValueError("no event is named; write for instance `events: [erc20]`")
    return _told_apart(found)


def argument_names(event: Event) -> tuple[str, ...]:
    return tuple(each.name or f"arg{at}" for at, each in enumerate(event.arguments))


def column_names(event: Event, prefix: str, taken: Iterable[str]) -> tuple[str, ...]:
    """A column for each argument: `amount0In` is `amount0_in`, `_from` is `from`."""
    names, known = [], set(taken)
    for given in argument_names(event):
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", given)
        name = re.sub(r"[^a-z0-9]+", "_", f"{prefix}{name}".lower()).strip("_")
        if not re.match(r"[a-z]", name):
            name = f"arg_{name}"
        if name in known:
            raise ValueError(
                f"two columns would be called `{name}` (argument `{given}` of {event.signature}); "
                "set `prefix`, or leave the other out of `keep`"
            )
        if len(name) > NAME_MAX:
            raise ValueError(f"the column `{name}` has more than {NAME_MAX} characters")
        known.add(name)
        names.append(name)
    return tuple(names)


def column_type(argument: Argument) -> str:
    """Of the column that holds it."""
    kind = argument.type
    match kind.kind:
        case _ if argument.is_hash:
            return "text"
        case "uint" | "int":
            return "bigint" if is_small(kind) else "numeric(78,0)"
        case "bool":
            return "boolean"
        case "array" | "tuple":
            return "jsonb"
        case _:
            return "text"


def is_small(kind: AbiType) -> bool:
    """A number that 64 bits with a sign hold."""
    return (kind.kind == "uint" and kind.size < 64) or (kind.kind == "int" and kind.size <= 64)


def _meant(text: str, own: Sequence[Event]) -> list[Event]:
    if "(" in text:
        return [parse_event(text)]
    known = {f"{each.standard}.{each.name}": each for of in STANDARDS.values() for each in of}
    if text in STANDARDS:
        return [*STANDARDS[text]]
    if text in known:
        return [known[text]]
    named = [each for each in own if each.name == text]
    if not named:
        names = [*STANDARDS, *known, *dict.fromkeys(each.name for each in own)]
        raise ValueError(
            f"there is no event `{text[:100]}`; write one of {', '.join(names)}, or all of it, as "
            "in `event Sent(address indexed to, uint256 value)`"
        )
    return named


def _told_apart(events: Sequence[Event]) -> tuple[Event, ...]:
    """One for each pair of signature and number of topics; that is all that a log tells."""
    found: dict[tuple[str, int], Event] = {}
    for each in events:
        names = argument_names(each)
        if len(set(names)) != len(names):
            raise ValueError(f"two arguments of {each.signature} have the same name")
        key = (each.signature, len(each.indexed))
        other = found.setdefault(key, each)
        if [one.indexed for one in other.arguments] != [one.indexed for one in each.arguments]:
            raise ValueError(
                f"{each.signature} is there twice with {key[1]} indexed arguments, and not the "
                "same ones; a log does not tell which it is: leave one out"
            )
        if other.standard != each.standard and each.standard not in (other.standard or "").split(
            "|"
        ):
            both = [one for one in (other.standard, each.standard) if one]
            found[key] = replace(other, standard="|".join(both))
    return tuple(found.values())
