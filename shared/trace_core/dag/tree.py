"""The values of a DAG file as a tree that knows the line and column of every key and value."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_core.dag.problems import Path, Position
from trace_core.dag.scalars import ScalarValue


@dataclass(slots=True)
class ScalarNode:
    value: ScalarValue
    text: str
    at: Position
    plain: bool


@dataclass(slots=True)
class ListNode:
    at: Position
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class MapNode:
    at: Position
    entries: dict[str, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class BrokenNode:
    """Stands where something was refused, so that nothing else complains about it."""

    at: Position


@dataclass(slots=True)
class Entry:
    key_at: Position
    node: Node


Node = ScalarNode | ListNode | MapNode | BrokenNode


def locate(root: Node, path: Path, *, key: bool = False) -> Position:
    """Where the value (or its key) at `path` starts; the nearest thing around it if absent."""
    node, at = root, root.at
    for index, step in enumerate(path):
        if isinstance(node, MapNode) and isinstance(step, str) and step in node.entries:
            entry = node.entries[step]
            node = entry.node
            at = entry.key_at if key and index == len(path) - 1 else node.at
        elif isinstance(node, ListNode) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            at = node.at
        else:
            break
    return at
