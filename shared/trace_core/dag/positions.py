"""YAML text -> a tree of plain values that knows the line and column of every key and value.

Only the plain part of YAML is read: no anchors, aliases, merge keys, tags or second documents.
The parser's events are consumed one by one with an explicit stack, so time and depth are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from trace_core.dag.problems import Path, Position, Problems, shown
from trace_core.dag.scalars import Refused, resolve
from trace_core.dag.tree import BrokenNode, Entry, ListNode, MapNode, Node, ScalarNode
from trace_core.dag.yaml_errors import explain
from trace_core.kernel.limits import DAG_FILE_MAX

DEPTH_MAX = 32
VALUES_MAX = 100_000

_START = Position(1, 1)
# Control characters, line breaks that editors do not show, text-direction overrides (they make a
# file look different from what it says), byte order marks inside the text, lone surrogates.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ufeff\ufffe\uffff\ud800-\udfff]"
)


def decode(data: str | bytes, problems: Problems) -> str | None:
    """The text of the file, or nothing when it is not text that we read."""
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass"))
    if size > DAG_FILE_MAX:
        reason = f"the file has {size:,} bytes; at most {DAG_FILE_MAX:,} are read"
        problems.add(_START, (), "file_too_large", reason, "split it into several DAGs")
        return None
    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            at = _position(data[: error.start].decode("utf-8"))
            problems.add(at, (), "not_utf8", "the file is not UTF-8 text", "save it as UTF-8")
            return None
    else:
        text = data
    text = text.removeprefix("\ufeff")
    found = _FORBIDDEN.search(text)
    if found:
        reason = f"the character U+{ord(found[0]):04X} is not allowed in a DAG file"
        problems.add(
            _position(text[: found.start()]), (), "forbidden_character", reason, "remove it"
        )
        return None
    return text


def parse(text: str, problems: Problems) -> Node | None:
    """The tree of the first document; nothing when its structure could not be read."""
    builder = _Builder(problems)
    try:
        for event in _events(text):
            if not builder.take(event):
                return None
    except yaml.MarkedYAMLError as error:
        # Without a path: the key that was read last is often not the one that is wrong.
        at, reason, suggestion = explain(error, text)
        problems.add(at, (), "yaml_syntax", reason, suggestion)
        return None
    except yaml.YAMLError:
        problems.add(_START, (), "yaml_syntax", "this is not YAML", "check the file's encoding")
        return None
    if builder.root is None:
        better = "start with `version: 1` and `name:`"
        problems.add(_START, (), "empty_file", "the file has no content", better)
    return builder.root


def _events(text: str) -> Iterator[yaml.Event]:
    return yaml.parse(text, Loader=yaml.CSafeLoader)


def _position(before: str) -> Position:
    lines = re.split(r"\r\n|\r|\n", before)
    return Position(len(lines), len(lines[-1]) + 1)


@dataclass(slots=True)
class _Open:
    """A list or map whose end has not been seen."""

    node: ListNode | MapNode | BrokenNode
    is_map: bool
    as_key: bool = False
    key: str | None = None
    key_at: Position = _START
    expects_key: bool = True
    drop_value: bool = False


class _Builder:
    def __init__(self, problems: Problems) -> None:
        self.root: Node | None = None
        self._problems = problems
        self._open: list[_Open] = []
        self._values = 0
        self._documents = 0
        self._aliases: set[str] = set()

    def path(self) -> Path:
        steps: list[str | int] = []
        for opened in self._open:
            if isinstance(opened.node, ListNode):
                # An item that is still open is already in its list; the next one is not.
                steps.append(len(opened.node.items) - (opened is not self._open[-1]))
            elif opened.key is not None:
                steps.append(opened.key)
        return tuple(steps)

    def take(self, event: Any) -> bool:
        """Use one event; False ends the reading."""
        at = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.DocumentStartEvent):
            return self._start_document(event, at)
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            closed = self._open.pop()
            if closed.as_key:
                self._open[-1].expects_key = False
            return True
        if not isinstance(event, yaml.NodeEvent):
            return True
        self._values += 1
        if self._values > VALUES_MAX:
            reason = f"the file has more than {VALUES_MAX:,} values"
            self._refuse(at, "too_many_values", reason, "split it into several DAGs")
            return False
        if self._open and self._open[-1].is_map and self._open[-1].expects_key:
            return self._take_key(event, at)
        return self._take_value(event, at)

    def _start_document(self, event: Any, at: Position) -> bool:
        self._documents += 1
        if self._documents > 1:
            self._refuse(
                at,
                "second_document",
                "a second document starts here",
                "keep one DAG in each file and remove the `---`",
            )
            return False
        if event.version or event.tags:
            self._refuse(
                at, "yaml_directive", "`%` directives are not read", "remove the line with `%`"
            )
        return True

    def _take_key(self, event: Any, at: Position) -> bool:
        parent = self._open[-1]
        parent.key, parent.key_at, parent.drop_value = None, at, True
        if not isinstance(event, yaml.ScalarEvent):
            if isinstance(event, yaml.AliasEvent):
                self._refuse_alias(event, at)
                parent.expects_key = False
                return True
            self._refuse(
                at, "key_not_text", "a key must be text, not a list or a map", "write a plain key"
            )
            if self._too_deep(at):
                return False
            is_map = isinstance(event, yaml.MappingStartEvent)
            self._open.append(_Open(BrokenNode(at), is_map, as_key=True))
            return True
        parent.expects_key = False
        name = event.value
        if self._refuse_decoration(event, at):
            return True
        plain = event.implicit[0]
        if plain and name == "<<":
            self._refuse(
                at, "merge_key", "merge keys (`<<`) are not read", "write the keys out in full"
            )
        elif plain and not isinstance(resolve(name), str):
            reason = f"the key {shown(name)} is read as {_kind(resolve(name))}, not as text"
            self._refuse(at, "key_not_text", reason, f'write "{name[:60]}" in quotes')
        elif _FORBIDDEN.search(name):
            self._refuse_character(name, at)
        elif isinstance(parent.node, MapNode) and name in parent.node.entries:
            first = parent.node.entries[name].key_at.line
            self._problems.add(
                at,
                (*self.path(), name),
                "duplicate_key",
                f"the key {shown(name)} is already written in line {first}",
                "keep one of the two",
            )
        else:
            parent.key, parent.drop_value = name, False
        return True

    def _take_value(self, event: Any, at: Position) -> bool:
        if isinstance(event, yaml.AliasEvent):
            self._refuse_alias(event, at)
            self._attach(BrokenNode(at))
            return True
        refused = self._refuse_decoration(event, at)
        if isinstance(event, yaml.ScalarEvent):
            self._attach(BrokenNode(at) if refused else self._scalar(event, at))
            return True
        if refused:
            node: ListNode | MapNode | BrokenNode = BrokenNode(at)
        else:
            node = MapNode(at) if isinstance(event, yaml.MappingStartEvent) else ListNode(at)
        if self._too_deep(at):
            return False
        self._attach(node)
        self._open.append(_Open(node, isinstance(event, yaml.MappingStartEvent)))
        return True

    def _too_deep(self, at: Position) -> bool:
        if len(self._open) < DEPTH_MAX:
            return False
        reason = f"the file is nested more than {DEPTH_MAX} levels deep"
        self._refuse(at, "too_deep", reason, "flatten it")
        return True

    def _attach(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.expects_key = True
        if isinstance(parent.node, ListNode):
            parent.node.items.append(node)
        elif isinstance(parent.node, MapNode) and not parent.drop_value and parent.key is not None:
            parent.node.entries[parent.key] = Entry(parent.key_at, node)

    def _scalar(self, event: Any, at: Position) -> ScalarNode | BrokenNode:
        text, plain = event.value, bool(event.implicit[0])
        value = resolve(text) if plain else text
        if isinstance(value, Refused):
            self._refuse(at, value.code, value.reason, value.suggestion)
            return BrokenNode(at)
        if _FORBIDDEN.search(text):
            self._refuse_character(text, at)
            return BrokenNode(at)
        return ScalarNode(value, text, at, plain)

    def _refuse(self, at: Position, code: str, reason: str, suggestion: str) -> None:
        self._problems.add(at, self.path(), code, reason, suggestion)

    def _refuse_alias(self, event: Any, at: Position) -> None:
        """Each name once: a file that uses one alias often uses it everywhere."""
        if event.anchor not in self._aliases:
            self._aliases.add(event.anchor)
            reason = f"aliases (`*{event.anchor[:40]}`) are not read"
            self._refuse(at, "yaml_alias", reason, "write the value out wherever it is used")

    def _refuse_character(self, text: str, at: Position) -> None:
        found = _FORBIDDEN.search(text)
        code_point = f"U+{ord(found[0]):04X}" if found else "a control character"
        reason = f"the text contains the character {code_point}, which is not allowed"
        self._refuse(at, "forbidden_character", reason, "remove it")

    def _refuse_decoration(self, event: Any, at: Position) -> bool:
        """Anchors and tags, which both stand before a value."""
        if event.anchor is not None:
            reason = f"anchors (`&{event.anchor[:40]}`) are not read"
            self._refuse(at, "yaml_anchor", reason, "remove it and write the value where needed")
        if event.tag is not None:
            reason = f"tags ({shown(event.tag)}) are not read"
            self._refuse(at, "yaml_tag", reason, "remove the tag; write text in quotes")
        return event.tag is not None


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return "true/false" if isinstance(value, bool) else "a number"
