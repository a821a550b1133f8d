"""On which line of its file a value of a checked DAG stands."""

from __future__ import annotations

from trace_core.dag.positions import decode, parse
from trace_core.dag.problems import Path, Problems
from trace_core.dag.tree import ListNode, MapNode, Node, locate


class Places:
    def __init__(self, file: str, root: Node) -> None:
        self.file = file
        self._root = root

    @classmethod
    def of(cls, text: str | bytes, filename: str) -> Places | None:
        """Nothing for text that is no YAML; a file that was checked always has places."""
        problems = Problems(filename)
        decoded = decode(text, problems)
        root = parse(decoded, problems) if decoded is not None else None
        return cls(filename, root) if root is not None else None

    def line(self, path: Path) -> int:
        """Of the value, or of what surrounds it when it is not written out."""
        if not self._written(path) and path[:1] == ("jobs",):
            inherited: Path = ("defaults", *path[2:])
            path = inherited if self._written(inherited) else path
        return locate(self._root, path, key=True).line

    def _written(self, path: Path) -> bool:
        node: Node | None = self._root
        for step in path:
            if isinstance(node, MapNode) and step in node.entries:
                node = node.entries[str(step)].node
            elif isinstance(node, ListNode) and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
            else:
                return False
        return True
