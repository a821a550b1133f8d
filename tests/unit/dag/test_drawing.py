"""The drawn graph: every line leads from an output to the jobs that read it, and nowhere else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hypothesis import given, settings

from trace_core.dag.catalog import Catalog
from trace_core.dag.drawing import WIDTH, draw
from trace_core.dag.load import load_dag
from trace_core.dag.mermaid import to_json, to_mermaid

_path = Path(__file__).parent / "test_graph.py"
_spec = importlib.util.spec_from_file_location("graphs_made", _path)
assert _spec is not None
assert _spec.loader is not None
_graphs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_graphs)
make_dag = _graphs.make_dag

UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
OPEN = {
    "│": {UP, DOWN}, "─": {LEFT, RIGHT}, "┌": {DOWN, RIGHT}, "┐": {DOWN, LEFT},
    "└": {UP, RIGHT}, "┘": {UP, LEFT}, "├": {UP, DOWN, RIGHT}, "┤": {UP, DOWN, LEFT},
    "┬": {DOWN, LEFT, RIGHT}, "┴": {UP, LEFT, RIGHT}, "┼": {UP, DOWN, LEFT, RIGHT},
}  # fmt: skip


class Picture:
    """Reads a drawing back: boxes by name, and the boxes that the lines of each one reach."""

    def __init__(self, text: str) -> None:
        self.rows = text.split("\n")
        self.boxes: dict[str, tuple[int, int, int, int]] = {}
        for row, line in enumerate(self.rows):
            for column, character in enumerate(line):
                if character in "┌╭" and self.at(row + 1, column) == "│":
                    self._box(row, column)

    def at(self, row: int, column: int) -> str:
        if 0 <= row < len(self.rows) and 0 <= column < len(self.rows[row]):
            return self.rows[row][column]
        return " "

    def _box(self, row: int, column: int) -> None:
        if self.at(row + 1, column + 1) != " " or not self.at(row + 1, column + 2).isalnum():
            return
        right = next((c for c in range(column + 1, 200) if self.at(row, c) in "┐╮"), None)
        bottom = next((r for r in range(row + 1, row + 12) if self.at(r, column) in "└╰"), None)
        if right is None or bottom is None:
            return
        name = self.rows[row + 1][column + 1 : right].split()[0]
        self.boxes[name] = (row, column, bottom, right)

    def reached(self, name: str) -> set[str]:
        _, left, bottom, right = self.boxes[name]
        ends: set[str] = set()
        for column in range(left, right + 1):
            if self.at(bottom, column) not in "─└┘╰╯":
                ends |= self._follow(bottom + 1, column, DOWN)
        return ends

    def _follow(self, row: int, column: int, towards: tuple[int, int]) -> set[str]:
        ends: set[str] = set()
        ahead, seen = [(row, column, towards)], set()
        while ahead:
            row, column, towards = step = ahead.pop()
            if step in seen:
                continue
            seen.add(step)
            glyph = self.at(row, column)
            if glyph in "▼▽":
                ends.add(self._below(row + 1, column))
                continue
            back = (-towards[0], -towards[1])
            if glyph == "│" and towards in (LEFT, RIGHT):
                leaves = {towards}  # Another line passes in front.
            else:
                assert glyph in OPEN, f"a line ends in the air at {row}:{column} ({glyph!r})"
                assert back in OPEN[glyph], f"a line meets a wall at {row}:{column} ({glyph!r})"
                leaves = OPEN[glyph] - {back}
            ahead += [(row + down, column + over, (down, over)) for down, over in leaves]
        return ends

    def _below(self, row: int, column: int) -> str:
        for name, (top, left, _, right) in self.boxes.items():
            if top == row and left <= column <= right:
                return name
        raise AssertionError(f"an arrow at {row}:{column} points at nothing")


def check(reads: dict[str, list[str]]) -> str:
    text = draw(make_dag(reads))
    picture = Picture(text)
    feeds: dict[str, set[str]] = {name: set() for name in reads}
    for name, upstream in reads.items():
        for each in upstream:
            feeds[each].add(name)
    assert picture.boxes.keys() == reads.keys()
    assert {name: picture.reached(name) for name in reads} == feeds
    assert max(len(row) for row in picture.rows) <= WIDTH
    return text


def test_a_diamond_connects() -> None:
    check({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})


def test_a_fan_out_with_a_line_past_a_layer_connects() -> None:
    check({"a": [], "b": ["a"], "c": ["a"], "d": ["a"], "e": ["a"], "z": ["b", "a"]})


def test_two_components_are_drawn_below_each_other() -> None:
    text = check({"a": [], "b": ["a"], "c": [], "d": ["c"], "e": ["c"]})
    assert text.index("│ b ") < text.index("│ c ")


def test_crossing_lines_stay_apart() -> None:
    check({"a": [], "b": [], "c": [], "x": ["a", "b", "c"], "y": ["c", "a"], "z": ["b", "c", "a"]})


@settings(max_examples=150, deadline=None, database=None)
@given(_graphs.graphs(most=9))
def test_every_drawn_line_leads_where_the_data_goes(reads: dict[str, list[str]]) -> None:
    text = draw(make_dag(reads))
    if "┌" in text:
        check(reads)


def test_the_example_is_drawn_in_boxes_within_the_width(example: str, catalog: Catalog) -> None:
    dag = load_dag(example, filename="a", catalog=catalog)
    text = draw(dag)
    assert max(len(row) for row in text.split("\n")) <= WIDTH
    picture = Picture(text)
    assert {"follow", "alert_events", "address_labels", "compact"} <= picture.boxes.keys()
    assert picture.reached("follow") == {"ranges", "compact", "transfers", "large_transfers"}
    assert picture.reached("address_labels") == {"transfers"}
    assert "pool rpc: 2 slots, used by follow, backfill" in text
    assert "published blocks: follow.0, backfill.0, compact.0" in text


def test_a_graph_that_is_too_wide_becomes_a_tree_with_every_job() -> None:
    reads = {"a": []} | {f"b{i}": ["a"] for i in range(12)} | {"z": ["b3", "b4"]}
    text = draw(make_dag(reads))
    assert "┌" not in text
    assert all(name in text for name in reads)
    assert "z  (see above)" in text


def test_mermaid_and_json_hold_every_job_and_edge(example: str, catalog: Catalog) -> None:
    dag = load_dag(example, filename="a", catalog=catalog)
    text, data = to_mermaid(dag), to_json(dag)
    assert text.startswith("flowchart LR\n")
    assert "job_follow -->|0| job_ranges" in text
    assert "job_follow -.->|0| job_compact" in text
    assert "from_alert_events --> job_page_on_critical" in text
    assert "job_compact ==>|0| to_blocks" in text
    assert len(data["jobs"]) == 9
    assert len(data["edges"]) == 8
    assert data["datasets"][0] == {
        "dataset": "address_labels",
        "reader": "transfers",
        "trigger": False,
    }
