"""The forms a single value of the DAG file can take: each reads a node and describes itself.

One declaration made of these shapes (grammar.py) serves the reader, the JSON Schema and the
reference page, so that they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from trace_core.dag.problems import Path, Problems, did_you_mean, one_of, shown
from trace_core.dag.tree import BrokenNode, ListNode, MapNode, Node, ScalarNode

JsonSchema = dict[str, Any]


class Wrong:
    """The value of something that was already reported."""

    def __repr__(self) -> str:
        return "WRONG"


WRONG: Final = Wrong()


class Refusal(NamedTuple):
    """A key or word that is refused by name, because people will try it."""

    reason: str
    suggestion: str
    instead: str | None = None
    """The key that was meant; it then does not count as missing."""


class Shape:
    """What a value must look like."""

    expected: ClassVar[str] = "a value"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        raise NotImplementedError

    def json_schema(self) -> JsonSchema:
        raise NotImplementedError

    def wanted(self) -> str:
        """The kind of value, in a sentence."""
        return self.expected

    def describe(self) -> str:
        """The whole rule, for messages and the reference page."""
        return self.wanted()

    def suggest(self) -> str:
        """What to write, by example where one says more than the rule."""
        return self.describe()

    def _mistyped(self, node: Node, path: Path, problems: Problems) -> Wrong:
        if not isinstance(node, BrokenNode):
            if isinstance(node, ScalarNode) and node.value is None:
                reason, code = "has no value", "no_value"
            else:
                reason, code = f"must be {self.wanted()}, not {kind_of(node)}", "wrong_type"
            problems.add(node.at, path, code, reason, self._retyped(node))
        return WRONG

    def _retyped(self, node: Node) -> str | None:
        return f"write {self.wanted()} here"


def kind_of(node: Node) -> str:
    match node:
        case ListNode():
            return "a list"
        case MapNode():
            return "a map"
        case ScalarNode(value=bool()):
            return f"true/false ({shown(node.text)})"
        case ScalarNode(value=int() | float()):
            return f"the number {shown(node.text)}"
        case ScalarNode(value=None):
            return "nothing"
    return f"the text {shown(node.text)}" if isinstance(node, ScalarNode) else "that"


@dataclass(frozen=True)
class Text(Shape):
    """Text; `pattern` is matched against all of it."""

    pattern: re.Pattern[str] | None = None
    rule: str = ""
    longest: int = 200
    fix: Callable[[str], str | None] | None = None
    private: bool = False
    """The value may be a secret by mistake: never repeat it in a message."""
    expected: ClassVar[str] = "text"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return self._mistyped(node, path, problems)
        return self.check(node.value, node, path, problems)

    def check(self, text: str, node: Node, path: Path, problems: Problems) -> Any:
        named = "this text" if self.private else shown(text)
        if len(text) > self.longest:
            reason = f"has {len(text):,} characters; at most {self.longest} are allowed"
            problems.add(node.at, path, "too_long", reason, "shorten it")
            return WRONG
        if not text.strip():
            problems.add(node.at, path, "empty_text", "is empty", f"write {self.describe()}")
            return WRONG
        if self.pattern and not self.pattern.fullmatch(text):
            fixed = self.fix(text) if self.fix else None
            better = f"write `{fixed}`" if fixed else f"write {self.rule}"
            problems.add(
                node.at, path, "bad_text", f"{named} is not allowed: {self.rule} is needed", better
            )
            return WRONG
        return text

    def _retyped(self, node: Node) -> str | None:
        if (
            isinstance(node, ScalarNode)
            and node.value is not None
            and (self.pattern is None or self.pattern.fullmatch(node.text))
        ):
            return f'write "{node.text[:60]}" in quotes if it is meant as text'
        return f"write {self.describe()}"

    def json_schema(self) -> JsonSchema:
        schema: JsonSchema = {"type": "string", "minLength": 1, "maxLength": self.longest}
        if self.pattern:
            schema["pattern"] = f"^(?:{self.pattern.pattern})$"
        return schema

    def describe(self) -> str:
        return self.rule or f"text of at most {self.longest} characters"


@dataclass(frozen=True)
class Integer(Shape):
    low: int
    high: int
    expected: ClassVar[str] = "a whole number"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        # bool is a subclass of int in Python; `true` is not 1 in a DAG file.
        if (
            not isinstance(node, ScalarNode)
            or isinstance(node.value, bool)
            or not isinstance(node.value, int)
        ):
            return self._mistyped(node, path, problems)
        if not self.low <= node.value <= self.high:
            better = f"`{self.low}` or more" if node.value < self.low else f"`{self.high}` or less"
            reason = f"{node.value} is out of bounds: {self.low} to {self.high} is allowed"
            problems.add(node.at, path, "out_of_bounds", reason, f"write {better}")
            return WRONG
        return node.value

    def _retyped(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode):
            if isinstance(node.value, float) and node.value.is_integer():
                return f"write `{int(node.value)}`"
            digits = re.fullmatch(r"\s*([0-9][0-9_,]{0,20})\s*[a-z]*\s*", node.text)
            if isinstance(node.value, str) and digits:
                return f"write `{re.sub('[_,]', '', digits[1])}`, without quotes or unit"
        return f"write {self.describe()}"

    def json_schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def describe(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class Boolean(Shape):
    expected: ClassVar[str] = "`true` or `false`"

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, bool):
            return self._mistyped(node, path, problems)
        if node.text.lower() not in ("true", "false"):
            # YAML 1.2 reads `yes` as text: an editor would disagree with us about this file.
            reason = f"{shown(node.text)} is not the same to all YAML readers"
            word = "true" if node.value else "false"
            problems.add(node.at, path, "wrong_type", reason, f"write `{word}`")
            return WRONG
        return node.value

    def json_schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Choice(Shape):
    """One of a few words."""

    words: tuple[str, ...]
    refused: tuple[tuple[re.Pattern[str], Refusal], ...] = ()

    def read(self, node: Node, path: Path, problems: Problems) -> Any:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return self._mistyped(node, path, problems)
        if node.value in self.words:
            return node.value
        for pattern, refusal in self.refused:
            if pattern.fullmatch(node.value):
                reason = f"{shown(node.value)} {refusal.reason}"
                problems.add(node.at, path, "refused_value", reason, refusal.suggestion)
                return WRONG
        reason = f"{shown(node.value)} is not one of {one_of(self.words)}"
        better = did_you_mean(node.value, self.words, f"write {one_of(self.words)}")
        problems.add(node.at, path, "unknown_word", reason, better)
        return WRONG

    def wanted(self) -> str:
        return one_of(self.words)

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self.words)}
