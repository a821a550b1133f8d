"""Events as people write them, in Solidity's words or as JSON, and those of standard tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from emr_jobs.abi.keccak import keccak256
from emr_jobs.abi.types import AbiType, array_of, plain_type

TEXT_MAX = 4000
DEPTH_MAX = 8
INDEXED_MAX = 3
_WORDS = re.compile(r"\s*([A-Za-z_$][A-Za-z0-9_$]*|[0-9]+|[(),\[\]])")
_ATTRIBUTES = ("indexed", "payable")


@dataclass(frozen=True)
class Argument:
    name: str
    type: AbiType
    indexed: bool = False

    @property
    def is_hash(self) -> bool:
        """A topic has no room for it: what is logged is the Keccak hash of the value."""
        return self.indexed and not self.type.is_word


@dataclass(frozen=True)
class Event:
    name: str
    arguments: tuple[Argument, ...]
    standard: str | None = None
    """`erc20`, `erc721`, `erc1155`; nothing for those of users."""

    @property
    def signature(self) -> str:
        return f"{self.name}({','.join(each.type.text for each in self.arguments)})"

    @cached_property
    def topic0(self) -> str:
        return f"0x{keccak256(self.signature.encode()).hex()}"

    @property
    def indexed(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if each.indexed)

    @property
    def in_data(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if not each.indexed)

    @property
    def is_static(self) -> bool:
        """Each argument is one word, so that nothing points anywhere."""
        return all(each.type.is_word for each in self.in_data)


def parse_event(text: str) -> Event:
    """`event Swap(address indexed sender, uint256 amount0In)`; raises `ValueError`."""
    if len(text) > TEXT_MAX:
        raise ValueError(f"an event has at most {TEXT_MAX} characters")
    reader = _Reader(text)
    try:
        return reader.event()
    except ValueError as error:
        raise ValueError(f"in `{text[:200]}`: {error}") from None


def events_of_json(entries: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    """The events among the entries of a JSON ABI; functions and errors are passed over."""
    found = []
    for each in entries:
        if each.get("type") != "event":
            continue
        name = str(each.get("name", ""))
        try:
            if each.get("anonymous"):
                raise ValueError("anonymous events have no signature in their logs")
            if not re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", name):
                raise ValueError("it has no name")
            arguments = tuple(_json_argument(one) for one in each.get("inputs", ()))
            found.append(_checked(Event(name, arguments)))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"in the ABI's event `{name}`: {error}") from None
    return tuple(found)


def _json_argument(given: Mapping[str, Any]) -> Argument:
    return Argument(str(given.get("name", "")), _json_type(given, 0), bool(given.get("indexed")))


def _json_type(given: Mapping[str, Any], depth: int) -> AbiType:
    _check_depth(depth)
    match = re.fullmatch(r"([a-z0-9]+)((?:\[[0-9]*\])*)", str(given["type"]))
    if match is None:
        raise ValueError(f"`{given['type']}` is no type of the ABI")
    if match[1] == "tuple":
        fields = tuple(
            (str(each.get("name", "")), _json_type(each, depth + 1)) for each in given["components"]
        )
        found = _tuple(fields)
    else:
        found = plain_type(match[1])
    for length in re.findall(r"\[([0-9]*)\]", match[2]):
        depth += 1
        _check_depth(depth)
        found = array_of(found, int(length) if length else None)
    return found


class _Reader:
    """One pass from left to right; a tuple is the only thing with something inside."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = []
        at, text = 0, text.strip().removesuffix(";").rstrip()
        while at < len(text):
            match = _WORDS.match(text, at)
            if match is None:
                raise ValueError(f"in `{text[:200]}`: `{text[at]}` does not belong there")
            self._words.append(match[1])
            at = match.end()
        self._at = 0

    def event(self) -> Event:
        if self._peek() == "event":
            self._take()
        name = self._name("the name of the event")
        self._expect("(")
        arguments = tuple(self._list(0))
        if self._peek() == "anonymous":
            raise ValueError("anonymous events have no signature in their logs")
        if self._peek():
            raise ValueError(f"`{self._peek()}` comes after the end")
        found = tuple(Argument(name, kind, indexed) for name, kind, indexed in arguments)
        return _checked(Event(name, found))

    def _list(self, depth: int) -> list[tuple[str, AbiType, bool]]:
        """What stands between brackets, the closing one included."""
        _check_depth(depth)
        found: list[tuple[str, AbiType, bool]] = []
        if self._peek() == ")":
            self._take()
            return found
        while True:
            kind, name, indexed = self._type(depth), "", False
            while self._peek() in _ATTRIBUTES:
                indexed = self._take() == "indexed" or indexed
            if self._peek() not in (",", ")", ""):
                name = self._name("the name of an argument")
            found.append((name, kind, indexed))
            if self._peek() == ")":
                self._take()
                return found
            self._expect(",")

    def _type(self, depth: int) -> AbiType:
        if self._peek() == "tuple" or self._peek() == "(":
            if self._peek() == "tuple":
                self._take()
            self._expect("(")
            inside = self._list(depth + 1)
            if any(indexed for _, _, indexed in inside):
                raise ValueError("only whole arguments are indexed")
            found = _tuple(tuple((name, kind) for name, kind, _ in inside))
        else:
            found = plain_type(self._name("a type"))
        while self._peek() == "[":
            depth += 1
            _check_depth(depth)
            self._take()
            length = self._take() if self._peek().isdigit() else None
            self._expect("]")
            found = array_of(found, None if length is None else int(length))
        return found

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        self._at += 1
        return self._words[self._at - 1]

    def _expect(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise ValueError(f"`{wanted}` is missing before {self._shown()}")
        self._take()

    def _name(self, what: str) -> str:
        if not re.match(r"[A-Za-z_$]", self._peek()):
            raise ValueError(f"{what} is missing before {self._shown()}")
        return self._take()

    def _shown(self) -> str:
        return f"`{self._peek()}`" if self._peek() else "the end"


def _tuple(fields: tuple[tuple[str, AbiType], ...]) -> AbiType:
    if not fields:
        raise ValueError("a tuple has at least one field")
    return AbiType("tuple", fields=fields)


def _check_depth(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"types are nested in one another more than {DEPTH_MAX} times")


def _checked(event: Event) -> Event:
    if len(event.indexed) > INDEXED_MAX:
        raise ValueError(f"at most {INDEXED_MAX} arguments are indexed")
    return event


def _standard(name: str, *texts: str) -> tuple[Event, ...]:
    return tuple(replace(parse_event(each), standard=name) for each in texts)


STANDARDS: dict[str, tuple[Event, ...]] = {
    "erc20": _standard(
        "erc20",
        "Transfer(address indexed from, address indexed to, uint256 value)",
        "Approval(address indexed owner, address indexed spender, uint256 value)",
    ),
    "erc721": _standard(
        "erc721",
        "Transfer(address indexed from, address indexed to, uint256 indexed tokenId)",
        "Approval(address indexed owner, address indexed approved, uint256 indexed tokenId)",
        "ApprovalForAll(address indexed owner, address indexed operator, bool approved)",
    ),
    "erc1155": _standard(
        "erc1155",
        "TransferSingle(address indexed operator, address indexed from, address indexed to,"
        " uint256 id, uint256 value)",
        "TransferBatch(address indexed operator, address indexed from, address indexed to,"
        " uint256[] ids, uint256[] values)",
        "ApprovalForAll(address indexed account, address indexed operator, bool approved)",
        "URI(string value, uint256 indexed id)",
    ),
}
