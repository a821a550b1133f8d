"""What a person sees: each step with its seconds while it runs, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.table import Table


class Report:
    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._began = time.monotonic()
        self._steps: list[tuple[str, float]] = []
        self._facts: list[tuple[str, str]] = []
        self._status: Status | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        with self._console.status(f"{name} …") as self._status:
            yield
        seconds = time.monotonic() - started
        self._steps.append((name, seconds))
        self._console.print(f"[dim]{self.seconds:6.1f}[/]  {name} [dim]({seconds:.1f} s)[/]")

    def progress(self, text: str) -> None:
        """How far the running step is; seen on a terminal only."""
        if self._status is not None:
            self._status.update(f"{self.seconds:6.1f}  {text}")

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def fact(self, name: str, value: str) -> None:
        self._facts.append((name, value))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def end(self, problems: list[str]) -> None:
        for title, heads, rows in (
            ("Steps", ("step", "seconds"), [(name, f"{took:.1f}") for name, took in self._steps]),
            ("Found", ("what", "found"), self._facts),
        ):
            table = Table(title=title, title_justify="left")
            for column, head in enumerate(heads):
                right = column == 1 and title == "Steps"
                table.add_column(head, justify="right" if right else "left")
            for row in rows:
                table.add_row(*row)
            self._console.print(table)
        for problem in problems:
            self._console.print(problem, style="red", markup=False, soft_wrap=True)
        verdict = f"{len(problems)} problems" if problems else "All is as it should be"
        self._console.print(f"{verdict}; {self.seconds:.0f} s.")
