"""What operators print, into a file beside their result: bounded, and apart from other runs."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

PRINTED_MAX = 1024 * 1024
_here = threading.local()


class Printed:
    """The first bytes that one run prints; how many more there were is said at the end."""

    def __init__(self, path: Path, limit: int = PRINTED_MAX) -> None:
        self._lock = threading.Lock()
        self._left = limit
        self._cut = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        with self._lock:
            kept = data[: self._left]
            self._left -= len(kept)
            self._cut += len(data) - len(kept)
            if kept:
                self._file.write(kept)

    def close(self) -> None:
        with self._lock:
            if self._cut:
                self._file.write(f"\n({self._cut} bytes more were printed)\n".encode())
            self._file.close()


class PrintedHere(io.TextIOBase):
    """Takes the place of `sys.stdout`: a run's thread prints into its own file.

    Threads that an operator starts by itself print where the process does.
    """

    def __init__(self, otherwise: TextIO) -> None:
        self._otherwise = otherwise

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        printed: Printed | None = getattr(_here, "printed", None)
        if printed is None:
            return self._otherwise.write(text)
        printed.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(ValueError):
            self._otherwise.flush()

    def fileno(self) -> int:
        return self._otherwise.fileno()


def install() -> None:
    """From now on each thread prints where `printing_to` says."""
    sys.stdout = PrintedHere(sys.stdout)
    sys.stderr = PrintedHere(sys.stderr)


@contextmanager
def printing_to(path: Path) -> Iterator[None]:
    printed = Printed(path)
    _here.printed = printed
    try:
        yield
    finally:
        _here.printed = None
        printed.close()
