"""What a child process runs: `python -m trace_core.worker.child_main FD TASK_API MODULE...`.

It gets one task at a time as a line of JSON and answers each with one. What it prints goes to the
attempt's log. It never sees the worker token or a database.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import queue
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from trace_core.dag.catalog import Catalog
from trace_core.operators.catalog import load_catalog
from trace_core.worker.client import HttpClient, TaskApi
from trace_core.worker.execution import emitter, execute, fetcher, task_environment
from trace_core.worker.outcome import Outcome


class Connection:
    """Lines of JSON to and from the parent; a thread reads, so that a cancel is seen mid-task."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._tasks: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._asked = 0
        self._scratch: str | None = None
        self.canceled = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._read, name="trace-parent", daemon=True).start()

    def send(self, message: Mapping[str, Any]) -> None:
        self._scratch = None
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the parent, in the middle of a task, and wait for its answer."""
        with self._asking:
            self._asked += 1
            message = {"kind": "read", "number": self._asked, **asked}
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            # An operator that did not wait for an answer leaves it to whoever asks next.
            while (answer := self._answers.get())["number"] != self._asked:
                pass
            return answer

    def next_task(self) -> dict[str, Any] | None:
        return self._tasks.get()

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if message["kind"] == "cancel":
                    self.canceled.set()
                elif message["kind"] == "rows":
                    self._answers.put(message)
                else:
                    self.canceled.clear()
                    self._scratch = message["scratch"]
                    self._tasks.put(message)
        if self._scratch is not None:
            # The parent is gone and nobody will take the result or clean up, so end here and now.
            shutil.rmtree(self._scratch, ignore_errors=True)
            os.killpg(0, signal.SIGKILL)
        self._tasks.put(None)


class Child:
    def __init__(self, connection: Connection, catalog: Catalog, task_api: HttpClient) -> None:
        self._connection = connection
        self._catalog = catalog
        self._client = task_api
        self._streams: tuple[TextIO, TextIO] = sys.stdout, sys.stderr

    def serve(self) -> None:
        while (message := self._connection.next_task()) is not None:
            try:
                outcome = self._run(message)
            finally:
                self._restore()
            self._connection.send(
                {
                    "kind": "done",
                    "fields": outcome.fields,
                    "traceback": outcome.traceback,
                    "rows": list(outcome.rows),
                }
            )

    def _run(self, message: Mapping[str, Any]) -> Outcome:
        payload, env = message["payload"], message["env"]
        token = payload.get("capability_token") or ""
        scratch = Path(message["scratch"])
        with task_environment(env, token, scratch):
            return execute(
                payload,
                self._catalog,
                env=env,
                scratch=scratch,
                now=datetime.fromisoformat(message["now"]),
                emit=emitter(TaskApi(self._client, token), payload),
                fetch=fetcher(self._connection.ask),
                canceled=self._connection.canceled.is_set,
                secrets=message["secrets"],
            )

    def _restore(self) -> None:
        """What this task printed is in its own log, and the next one prints to the same place."""
        for stream in (sys.stdout, sys.stderr, *self._streams):
            with contextlib.suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._streams


def main(arguments: Sequence[str]) -> int:
    descriptor, task_api, *modules = arguments
    connected = socket.socket(fileno=int(descriptor))
    # What an operator starts must not hold the connection open, nor write to it.
    connected.set_inheritable(False)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    connection = Connection(connected)
    try:
        catalog = load_catalog(modules)
        _import_implementations(catalog)
    except Exception as error:
        connection.send({"kind": "broken", "message": f"{type(error).__name__}: {error}"})
        return 1
    connection.start()
    connection.send({"kind": "ready"})
    Child(connection, catalog, HttpClient(task_api)).serve()
    return 0


def _import_implementations(catalog: Catalog) -> None:
    for spec in catalog.values():
        if spec.implementation:
            # What cannot be imported fails its own tasks, not those of other operators.
            with contextlib.suppress(ImportError):
                importlib.import_module(spec.implementation.partition(":")[0])


if __name__ == "__main__":
    code = main(sys.argv[1:])
    for each in (sys.stdout, sys.stderr):
        each.flush()
    # Not waiting for threads that an operator left behind.
    os._exit(code)
