"""What was measured, beside what it is held against. Times never decide about success."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Row:
    section: str
    name: str
    figure: float
    unit: str
    note: str
    """One line: what this is."""
    beside: str = ""
    """What the ratio compares with."""
    ratio: float | None = None
    target: str = ""
    held: bool | None = None
    """Whether the target was met in this run."""


@dataclass
class Report:
    machine: dict[str, str]
    settings: dict[str, str]
    under: str = "postgres"
    """What the settings are of."""
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def show(self, *, as_json: bool) -> None:
        if as_json:
            print(json.dumps(asdict(self), indent=2))
        elif sys.stdout.isatty():
            self._show_rich()
        else:
            self._show_plain()

    def _heading(self) -> Iterable[str]:
        yield "machine:  " + ", ".join(f"{k} {v}" for k, v in self.machine.items())
        yield f"{self.under + ':':<10}" + ", ".join(f"{k}={v}" for k, v in self.settings.items())

    def _sections(self) -> dict[str, list[Row]]:
        sections: dict[str, list[Row]] = {}
        for row in self.rows:
            sections.setdefault(row.section, []).append(row)
        return sections

    def _show_plain(self) -> None:
        for line in self._heading():
            print(line)
        cells = [_cells(row) for row in self.rows]
        widths = [max((len(c[n]) for c in cells), default=0) for n in range(4)]
        for section, rows in self._sections().items():
            print(f"\n{section}")
            for row in rows:
                name, figure, ratio, target = _cells(row)
                print(
                    f"  {name:<{widths[0]}}  {figure:>{widths[1]}}  {ratio:<{widths[2]}}"
                    f"  {target:<{widths[3]}}  {row.note}".rstrip()
                )
        self._show_remarks()

    def _show_rich(self) -> None:
        from rich.console import Console
        from rich.table import Table

        console = Console()
        for line in self._heading():
            console.print(line, style="dim", highlight=False)
        for section, rows in self._sections().items():
            table = Table(title=section, title_justify="left", box=None, pad_edge=False)
            table.add_column("")
            table.add_column("figure", justify="right")
            table.add_column("ratio")
            table.add_column("target")
            table.add_column("what it is", style="dim", overflow="fold")
            for row in rows:
                name, figure, ratio, target = _cells(row)
                style = {True: "green", False: "red", None: ""}[row.held]
                table.add_row(
                    name, figure, ratio, f"[{style}]{target}[/]" if style else target, row.note
                )
            console.print()
            console.print(table)
        self._show_remarks()

    def _show_remarks(self) -> None:
        for remark in self.remarks:
            print(f"\n{remark}")


def _cells(row: Row) -> tuple[str, str, str, str]:
    figure = f"{row.figure:,.0f}" if row.figure >= 100 else f"{row.figure:,.2f}".rstrip("0")
    figure = f"{figure.rstrip('.')} {row.unit}"
    ratio = f"{row.ratio:.2f} of {row.beside}" if row.ratio is not None else row.beside
    target = row.target
    if row.held is not None:
        target += " met" if row.held else " MISSED"
    return row.name, figure, ratio, target
