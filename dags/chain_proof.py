"""Whether the published rows of a chain are those of its node, to the last one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from rich.table import Table

from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import tables_of
from trace_core.bootstrap import App
from trace_core.storage.model import PinnedPart

NAMES = ("blocks", "transactions", "logs")


@dataclass(frozen=True)
class Compared:
    dataset: str
    parts: tuple[int, ...]
    """Rows that each part gives: hot, backfilled, compacted."""
    node: int
    same: bool


@dataclass(frozen=True)
class Proof:
    head: int
    found: tuple[Compared, ...]

    @property
    def holds(self) -> bool:
        return all(each.same for each in self.found)

    def table(self, title: str) -> Table:
        table = Table(title=f"{title}: all rows up to block {self.head}", title_justify="left")
        table.add_column("dataset")
        for column in ("hot", "backfill", "compact", "total", "node"):
            table.add_column(column, justify="right")
        table.add_column("same rows")
        for each in self.found:
            counts = (*each.parts, sum(each.parts), each.node)
            verdict = "[green]yes[/]" if each.same else "[red]NO[/]"
            table.add_row(each.dataset, *(str(count) for count in counts), verdict)
        return table


def prove(app: App, url: str) -> Proof:
    """Reads every row from the platform, at one pin, and every block from the node."""
    pins = app.pin_resolver.current_pins(app.own_org, NAMES)
    with Rpc(url) as rpc:
        reader = BlockReader(rpc)
        head = reader.heads().latest.number
        expected = tables_of(list(reader.blocks(0, head)))
    found = []
    for name, of_node in zip(NAMES, expected, strict=True):
        parts = app.pin_resolver.resolve(pins[name])
        whole = app.pinned_reader.relation(parts).read_all()
        # What a part gives is what there is less of without it: colder parts come first.
        left = [_rows(app, parts[at:]) for at in range(len(parts) + 1)]
        counts = tuple(more - less for more, less in pairwise(left))
        found.append(Compared(name, counts, of_node.num_rows, _digest(whole) == _digest(of_node)))
    return Proof(head, tuple(found))


def _rows(app: App, parts: Sequence[PinnedPart]) -> int:
    if not any(part.columns for part in parts):
        return 0
    return int(app.pinned_reader.relation(parts).read_all().num_rows)


def _digest(table: pa.Table) -> str:
    """The same for the same rows in any order, however they are cut into batches."""
    columns = [table.column(name).to_pylist() for name in sorted(table.column_names)]
    rows = sorted(repr(row) for row in zip(*columns, strict=True))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
