"""The forms that only a DAG file has: its version, durations, column types, filters, config."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from trace_core.dag import column_types, durations, filters
from trace_core.dag.filter_parser import TEXT_MAX, from_map, parse_text
from trace_core.dag.filters import FilterInvalid, Literal
from trace_core.dag.problems import Path, Problems, shown
from trace_core.dag.shapes import WRONG, JsonSchema, Shape, Wrong
from trace_core.dag.tree import BrokenNode, ListNode, MapNode, Node, ScalarNode


@dataclass(frozen=True)
class Version(Shape):
    """The version of the grammar."""

    number: int
    expected: ClassVar[str] = "the number of a grammar version"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if isinstance(node, BrokenNode):
            return WRONG
        if isinstance(node, ScalarNode) and type(node.value) is int and node.value == self.number:
            return self.number
        given = shown(node.text) if isinstance(node, ScalarNode) and node.text else "this"
        reason = f"{given} is not a version of the DAG file that is read here"
        problems.add(node.at, path, "unknown_version", reason, f"write `{self.number}`")
        return WRONG

    def json_schema(self) -> JsonSchema:
        return {"const": self.number}

    def describe(self) -> str:
        return f"`{self.number}`"


@dataclass(frozen=True)
class Duration(Shape):
    expected: ClassVar[str] = "a duration such as `60s`, `15m`, `12h` or `7d`"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return self._mistyped(node, path, problems)
        duration = durations.parse_duration(node.value)
        if duration is None:
            reason = f"{shown(node.value)} is not {self.expected}"
            better = "write a whole number and s, m, h or d; at most 3650d"
            problems.add(node.at, path, "bad_duration", reason, better)
            return WRONG
        return duration

    def _retyped(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode) and type(node.value) is int and node.value > 0:
            return f"add the unit: `{node.value}s`"
        return f"write {self.expected}"

    def json_schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^(?:{durations.DURATION.pattern})$"}


@dataclass(frozen=True)
class ColumnType(Shape):
    expected: ClassVar[str] = "a column type"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return self._mistyped(node, path, problems)
        if not column_types.is_column_type(node.value):
            reason = f"{shown(node.value)} is not a column type that a schema may use"
            better = column_types.suggest_column_type(node.value)
            problems.add(node.at, path, "unknown_type", reason, better)
            return WRONG
        return node.value

    def json_schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^(?:{column_types.TYPE_PATTERN.pattern})$"}

    def _retyped(self, node: Node) -> str | None:
        return f"write {self.describe()}"

    def describe(self) -> str:
        return f"one of {', '.join(column_types.PLAIN_TYPES)}, numeric(p), numeric(p, s)"


@dataclass(frozen=True)
class Config(Shape):
    """A map whose content the operator judges."""

    expected: ClassVar[str] = "a map"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, MapNode):
            return self._mistyped(node, path, problems)
        return plain(node)

    def json_schema(self) -> JsonSchema:
        return {"type": "object"}

    def _retyped(self, node: Node) -> str | None:
        return "write `{ key: value }`"

    def describe(self) -> str:
        return "a map with the operator's own keys"


def plain(node: Node) -> Any:
    """The values without their positions; WRONG if anything inside was refused."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        items = [plain(item) for item in node.items]
        return WRONG if any(item is WRONG for item in items) else items
    if isinstance(node, MapNode):
        entries = {name: plain(entry.node) for name, entry in node.entries.items()}
        return WRONG if any(value is WRONG for value in entries.values()) else entries
    return WRONG


@dataclass(frozen=True)
class Where(Shape):
    """A filter: a predicate string, or a map of fields to values."""

    expected: ClassVar[str] = "a map of fields to values, or a predicate as text"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if isinstance(node, MapNode):
            return self._read_map(node, path, problems)
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return self._mistyped(node, path, problems)
        try:
            return parse_text(node.value)
        except FilterInvalid as error:
            at, where = node.at, f" (character {error.offset + 1} of the filter)"
            # The offset is a column only if the file holds the text as it is: on one line,
            # without escapes. `verbatim` is that column.
            if "\n" not in node.value and (column := problems.verbatim(node.at, node.value)):
                at, where = node.at._replace(column=column + error.offset), ""
            problems.add(at, path, "bad_filter", f"{error.reason}{where}", error.suggestion)
            return WRONG

    def _read_map(self, node: MapNode, path: Path, problems: Problems) -> Any:
        conditions: dict[str, Literal | list[Literal] | None] = {}
        wrong = False
        for name, entry in node.entries.items():
            value = self._value(entry.node, (*path, name), problems)
            if isinstance(value, Wrong):
                wrong = True
                continue
            try:
                from_map({name: value})
            except FilterInvalid as error:
                named = _is_field_error(name)
                at = entry.key_at if named else entry.node.at
                problems.add(at, (*path, name), "bad_filter", error.reason, error.suggestion)
                wrong = True
            conditions[name] = value
        if wrong:
            return WRONG
        try:
            return from_map(conditions)
        except FilterInvalid as error:
            problems.add(node.at, path, "bad_filter", error.reason, error.suggestion)
            return WRONG

    def _value(
        self, node: Node, path: Path, problems: Problems
    ) -> Literal | list[Literal] | Wrong | None:
        match node:
            case ScalarNode(value=float()):
                return Decimal(node.text)
            case ScalarNode(value=str() | int() | None as value):
                return value
            case ListNode():
                return self._values(node, path, problems)
            case MapNode():
                reason = "must be a value or a list of values, not a map"
                better = "compare one field with one value or a list"
                problems.add(node.at, path, "bad_filter", reason, better)
        return WRONG

    def _values(self, node: ListNode, path: Path, problems: Problems) -> list[Literal] | Wrong:
        if len(node.items) > filters.LITERALS_MAX:
            reason = f"has {len(node.items)} values; at most {filters.LITERALS_MAX} are allowed"
            better = "join with a dataset that holds the values"
            problems.add(node.at, path, "bad_filter", reason, better)
            return WRONG
        values: list[Literal] = []
        wrong = False
        for index, item in enumerate(node.items):
            value = self._value(item, (*path, index), problems)
            if isinstance(value, Wrong):
                wrong = True
            elif value is None or isinstance(value, list):
                reason = f"a list of values cannot hold {'null' if value is None else 'a list'}"
                better = "write the filter as text, with IS NULL or IN"
                problems.add(item.at, (*path, index), "bad_filter", reason, better)
                wrong = True
            else:
                values.append(value)
        return WRONG if wrong else values

    def json_schema(self) -> JsonSchema:
        scalar: JsonSchema = {"type": ["string", "number", "boolean"]}
        listed = {"type": "array", "items": scalar, "minItems": 1}
        return {
            "oneOf": [
                {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
                {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": f"^{filters.FIELD.pattern}$"},
                    "additionalProperties": {
                        "oneOf": [{"type": ["string", "number", "boolean", "null"]}, listed]
                    },
                },
            ]
        }


def _is_field_error(name: str) -> bool:
    try:
        filters.check_field(name)
    except FilterInvalid:
        return True
    return False
