"""The forms a list or a map of the DAG file can take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from trace_core.dag.problems import Path, Problems, nearest, one_of, shown
from trace_core.dag.shapes import WRONG, JsonSchema, Refusal, Shape, Text
from trace_core.dag.tree import BrokenNode, ListNode, MapNode, Node, ScalarNode


@dataclass(frozen=True)
class ListOf(Shape):
    item: Shape
    least: int = 0
    most: int = 100
    distinct: bool = False
    example: str = ""
    single: bool = False
    """One item may stand without the list around it."""
    expected: ClassVar[str] = "a list"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if self.single and isinstance(node, MapNode):
            return [self.item.read(node, path, problems)]
        if not isinstance(node, ListNode):
            return self._mistyped(node, path, problems)
        if not self.least <= len(node.items) <= self.most:
            count = len(node.items)
            reason = f"has {count} items; {self.least} to {self.most} are allowed"
            better = self._retyped(node) if count < self.least else "shorten the list"
            problems.add(node.at, path, "bad_count", reason, better)
            return WRONG
        values = []
        for index, item in enumerate(node.items):
            value = self.item.read(item, (*path, index), problems)
            if self.distinct and value is not WRONG and value in values:
                reason = f"{shown(value)} is already in the list"
                problems.add(item.at, (*path, index), "duplicate", reason, "remove one of the two")
                value = WRONG
            values.append(value)
        return values

    def suggest(self) -> str:
        return self.example or self.describe()

    def _retyped(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode) and node.value is not None:
            return f"write `[{node.text[:60]}]`"
        return f"write {self.example or 'a list of ' + self.item.describe()}"

    def json_schema(self) -> JsonSchema:
        schema: JsonSchema = {
            "type": "array",
            "items": self.item.json_schema(),
            "minItems": self.least,
            "maxItems": self.most,
        }
        if self.distinct:
            schema["uniqueItems"] = True
        return {"oneOf": [self.item.json_schema(), schema]} if self.single else schema

    def describe(self) -> str:
        each = f"a list of: {self.item.describe()}"
        return f"{self.item.describe()}, or {each}" if self.single else each


@dataclass(frozen=True)
class MapOf(Shape):
    """A map whose keys the writer chooses."""

    key: Text
    item: Shape
    most: int = 1000
    least: int = 0
    example: str = ""
    expected: ClassVar[str] = "a map"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, MapNode):
            return self._mistyped(node, path, problems)
        if not self.least <= len(node.entries) <= self.most:
            reason = f"has {len(node.entries)} keys; {self.least} to {self.most} are allowed"
            problems.add(node.at, path, "bad_count", reason, self._retyped(node))
            return WRONG
        values: dict[str, Any] = {}
        for name, entry in node.entries.items():
            here = (*path, name)
            self.key.check(name, BrokenNode(entry.key_at), here, problems)
            values[name] = self.item.read(entry.node, here, problems)
        return values

    def suggest(self) -> str:
        return self.example or self.describe()

    def _retyped(self, node: Node) -> str | None:
        return f"write {self.example}" if self.example else "write `key: value` lines under it"

    def json_schema(self) -> JsonSchema:
        return {
            "type": "object",
            "propertyNames": self.key.json_schema(),
            "additionalProperties": self.item.json_schema(),
            "minProperties": self.least,
            "maxProperties": self.most,
        }

    def describe(self) -> str:
        return f"a map of {self.key.describe()} to: {self.item.describe()}"


@dataclass(frozen=True)
class Key:
    """One key of an object."""

    shape: Shape
    description: str
    required: bool = False
    default: str | None = None
    """As the reference page says it; the model applies it."""


@dataclass
class Record:
    """What was read of an object: wrong values are left out but count as given."""

    path: Path
    values: dict[str, Any]
    given: frozenset[str]

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def has(self, key: str) -> bool:
        return key in self.given

    def records(self, key: str) -> Iterator[tuple[int, Record]]:
        """The readable objects of a list, with their place in it."""
        for index, value in enumerate(self.values.get(key) or ()):
            if isinstance(value, Record):
                yield index, value

    def texts(self, key: str) -> Iterator[tuple[int, str]]:
        """The readable words of a list, with their place in it."""
        for index, value in enumerate(self.values.get(key) or ()):
            if isinstance(value, str):
                yield index, value


@dataclass(frozen=True)
class Object(Shape):
    """A map with known keys; anything else is refused."""

    keys: Mapping[str, Key]
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    refused_beside: Mapping[tuple[str, str], Refusal] = field(default_factory=dict)
    """(key, other key that is there) -> a reason that only holds then."""
    extra_schema: Mapping[str, Any] = field(default_factory=dict)
    """Rules between keys, said once more for editors."""
    example: str = ""
    expected: ClassVar[str] = "a map"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, MapNode):
            return self._mistyped(node, path, problems)
        values: dict[str, Any] = {}
        given = set(node.entries)
        for name, entry in node.entries.items():
            here = (*path, name)
            if name not in self.keys:
                meant = self._refuse_key(name, node, here, problems)
                # A misspelt key is one mistake: what it stands for is not missing as well.
                given |= {meant} if meant else set()
                continue
            value = self.keys[name].shape.read(entry.node, here, problems)
            if value is not WRONG:
                values[name] = value
        for name, key in self.keys.items():
            if key.required and name not in given:
                better = f"add `{name}:` with {key.shape.suggest()}"
                problems.add(node.at, (*path, name), "missing", "is missing", better)
        return Record(path, values, frozenset(given))

    def _refuse_key(self, name: str, node: MapNode, path: Path, problems: Problems) -> str | None:
        """Gives the key that was probably meant."""
        at = node.entries[name].key_at
        beside = (self.refused_beside.get((name, other)) for other in node.entries)
        refusal = next((each for each in beside if each), self.refused.get(name))
        if refusal:
            problems.add(at, path, "refused_key", f"`{name}` {refusal.reason}", refusal.suggestion)
            return refusal.instead
        home = next(
            (
                outer
                for outer, key in self.keys.items()
                if isinstance(key.shape, Object) and name in key.shape.keys
            ),
            None,
        )
        meant = None if home else nearest(name, self.keys)
        if home:
            better = f"write it under `{home}`"
        elif meant:
            better = f"did you mean `{meant}`?"
        else:
            better = f"known here: {', '.join(sorted(self.keys))}"
        problems.add(at, path, "unknown_key", f"{shown(name)} is not a key of version 1", better)
        return home or meant

    def suggest(self) -> str:
        return self.example or self.describe()

    def _retyped(self, node: Node) -> str | None:
        if self.example:
            return f"write {self.example}"
        return f"write a map with {one_of(self.keys)}"

    def json_schema(self) -> JsonSchema:
        return {
            "type": "object",
            "properties": {
                name: {"description": key.description, **key.shape.json_schema()}
                for name, key in self.keys.items()
            },
            "required": [name for name, key in self.keys.items() if key.required],
            "additionalProperties": False,
            **self.extra_schema,
        }

    def describe(self) -> str:
        return f"a map with {one_of(self.keys)}"
