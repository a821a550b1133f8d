"""What the demos share: where they speak, and where logs go meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from trace_core import telemetry

console = Console(highlight=False)


class DemoFailed(Exception):
    """The demo did not get where it should."""


def say(line: str) -> None:
    console.print(f"[dim]>[/] {line}")


@contextmanager
def logs_aside(home: Path) -> Iterator[None]:
    """Logs go to `demo.log` in the folder, so that the screen is for people."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "demo.log").open("a", encoding="utf-8") as file, telemetry.redirected(file):
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
