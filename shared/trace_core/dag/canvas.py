"""A grid of characters on which boxes and connected lines are drawn."""

from __future__ import annotations

from trace_core.dag.layers import Box

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_GLYPHS = {
    _UP: "│",
    _DOWN: "│",
    _UP | _DOWN: "│",
    _LEFT: "─",
    _RIGHT: "─",
    _LEFT | _RIGHT: "─",
    _DOWN | _RIGHT: "┌",
    _DOWN | _LEFT: "┐",
    _UP | _RIGHT: "└",
    _UP | _LEFT: "┘",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}


class Canvas:
    def __init__(self) -> None:
        self._text: dict[tuple[int, int], str] = {}
        self._lines: dict[tuple[int, int], dict[int, int]] = {}

    def box(self, row: int, box: Box) -> None:
        corners = "╭╮╰╯" if box.rounded else "┌┐└┘"
        inner = box.width - 2
        rows = [
            f"{corners[0]}{'─' * inner}{corners[1]}",
            *(f"│ {line:<{inner - 2}} │" for line in box.lines),
            f"{corners[2]}{'─' * inner}{corners[3]}",
        ]
        for down, line in enumerate(rows):
            for right, character in enumerate(line):
                self._text[row + down, box.left + right] = character

    def port(self, row: int, column: int, label: str) -> None:
        for right, character in enumerate(label):
            self._text[row, column + right] = character

    def arrow(self, row: int, column: int, glyph: str) -> None:
        self._text[row, column] = glyph

    def vertical(
        self, line: int, column: int, top: int, bottom: int, *, open_top: bool = False
    ) -> None:
        """From the row `top` to the row `bottom`, both ends shared with what they meet.

        `open_top`: the line comes from the row above, which is not part of this stretch.
        """
        if open_top:
            self._mark(line, top + 1, column, _UP)
            top += 1
        for row in range(top, bottom):
            self._mark(line, row, column, _DOWN)
            self._mark(line, row + 1, column, _UP)

    def horizontal(self, line: int, row: int, left: int, right: int) -> None:
        for column in range(left, right):
            self._mark(line, row, column, _RIGHT)
            self._mark(line, row, column + 1, _LEFT)

    def _mark(self, line: int, row: int, column: int, direction: int) -> None:
        cell = self._lines.setdefault((row, column), {})
        cell[line] = cell.get(line, 0) | direction

    def _glyph(self, row: int, column: int) -> str:
        if (row, column) in self._text:
            return self._text[row, column]
        cell = self._lines.get((row, column))
        if not cell:
            return " "
        if len(cell) == 1:
            return _GLYPHS[next(iter(cell.values()))]
        # Two lines cross here without touching: the upright one passes in front.
        return "│"

    def text(self) -> str:
        cells = [*self._text, *self._lines]
        height = 1 + max(row for row, _ in cells)
        width = 1 + max(column for _, column in cells)
        rows = ["".join(self._glyph(row, c) for c in range(width)) for row in range(height)]
        return "\n".join(row.rstrip() for row in rows).rstrip("\n")
