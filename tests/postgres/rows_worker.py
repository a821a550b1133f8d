"""A worker process that kills or freezes itself at a named point of its data transaction, once.

`python rows_worker.py MARKER [POINT SIGNAL]`, with settings in the environment.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

from trace_cli.platform import Choices, Worker
from trace_core.bootstrap import App
from trace_core.database.data import DataDatabase, DataRole
from trace_core.settings import Settings


def main(marker: Path, point: str = "", name: str = "KILL") -> None:
    def at(passed: str) -> None:
        if passed == point and not marker.exists():
            marker.write_text(passed)
            os.kill(os.getpid(), signal.Signals[f"SIG{name}"])

    settings = Settings.from_env()
    assert settings.data_dsn is not None
    data = DataDatabase(settings.data_dsn.get_secret_value(), role=DataRole.WRITER, crash_points=at)
    app = App(settings, data_writer=data)
    token = app.home.known_token("worker")
    assert token is not None
    worker = Worker(app, token, Choices(children=1, stop_grace_seconds=0), poll_seconds=0.1)
    worker.start()
    print("working", flush=True)
    stop = False

    def ask_to_stop(*_: object) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGTERM, ask_to_stop)
    while not stop:
        time.sleep(0.05)
    worker.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(Path(sys.argv[1]), *sys.argv[2:])
