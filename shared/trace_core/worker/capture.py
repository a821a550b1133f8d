"""What this process prints while it runs one task, wherever in it: Python, C, or a child."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from trace_core.worker.logs import BoundedLog

_STREAMS = (1, 2)
_PIECE = 64 * 1024


@contextmanager
def captured(log: BoundedLog) -> Iterator[None]:
    """Standard output and errors go to the log. They are the process's: one task at a time."""
    read_end, write_end = os.pipe()
    reader = threading.Thread(target=_read, args=(read_end, log), name="trace-log", daemon=True)
    reader.start()
    _flush()
    kept = [os.dup(stream) for stream in _STREAMS]
    try:
        for stream in _STREAMS:
            os.dup2(write_end, stream)
        # Python's own streams may have been led elsewhere by whoever runs this process.
        with (
            os.fdopen(write_end, "w", encoding="utf-8", errors="replace", buffering=1) as text,
            redirect_stdout(text),
            redirect_stderr(text),
        ):
            yield
    finally:
        _flush()
        for stream, before in zip(_STREAMS, kept, strict=True):
            os.dup2(before, stream)
            os.close(before)
        # A child that was left behind keeps its end open: what it prints is not waited for.
        reader.join(timeout=1)


def _read(read_end: int, log: BoundedLog) -> None:
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        while data := pipe.read(_PIECE):
            log.write(data)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
