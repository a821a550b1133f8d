"""The one place that wires rooms, adapters and profile together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from trace_core.bootstrap.services import App
from trace_core.settings import Settings

__all__ = ["App", "app", "running", "using"]

_lock = threading.Lock()
_app: App | None = None


def app() -> App:
    """The app of this process, built from the environment at the first call."""
    global _app
    with _lock:
        if _app is None:
            _app = App(Settings.from_env())
        return _app


@contextmanager
def using(own: App) -> Iterator[App]:
    """Let the handlers of this process use that app."""
    global _app
    with _lock:
        before, _app = _app, own
    try:
        yield own
    finally:
        with _lock:
            _app = before


@contextmanager
def running(own: App) -> Iterator[App]:
    """As `using`, and close the app at the end."""
    try:
        with using(own):
            yield own
    finally:
        own.close()
