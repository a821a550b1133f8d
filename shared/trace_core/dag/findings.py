"""Reports a broken rule by the path of the value; the tree knows where in the file that is."""

from __future__ import annotations

from trace_core.dag.problems import Path, Problems
from trace_core.dag.tree import Node, locate


class Findings:
    def __init__(self, root: Node, problems: Problems) -> None:
        self._root = root
        self._problems = problems

    def value(self, path: Path, code: str, reason: str, suggestion: str | None = None) -> None:
        """Point at the value, or at what surrounds it when it is missing."""
        self._problems.add(locate(self._root, path), path, code, reason, suggestion)

    def key(self, path: Path, code: str, reason: str, suggestion: str | None = None) -> None:
        """Point at the key: the value is fine, but should not be there."""
        self._problems.add(locate(self._root, path, key=True), path, code, reason, suggestion)
