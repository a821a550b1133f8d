"""The same contract through the internal API on loopback: one server process, one caller."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from typing import Any

from bench.crew import Count
from bench.world import Site, new_app
from trace_core.identity.model import SYSTEM
from trace_core.worker.client import HttpClient

_CONTEXT = multiprocessing.get_context("spawn")


class ApiServer:
    """The internal API in a process of its own."""

    def __init__(self, site: Site) -> None:
        app = new_app(site.dsn, site.home)
        self.token = app.worker_tokens.create(site.org_id, "bench", None, SYSTEM).token
        app.close()
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, site), daemon=True)
        self._process.start()
        if not self._pipe.poll(60):
            raise TimeoutError("the API server does not start")
        self.url = str(self._pipe.recv())

    def __enter__(self) -> ApiServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()


def _serve(pipe: Any, site: Site) -> None:
    # One line a request would be written to the terminal.
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    from functions.internal_api.handler import handler
    from trace_core import bootstrap
    from trace_core.adapters.lite.http_server import LocalServer

    with bootstrap.running(new_app(site.dsn, site.home)):
        server = LocalServer("internal", handler, 0)
        server.start()
        pipe.send(server.url)
        pipe.recv()
        server.stop()


def run_over_http(site: Site, url: str, token: str, batch: int, seconds: float) -> Count:
    client = HttpClient(url, token)
    source = site.sources["contract0.source"]
    outputs = {str(job_id): output for job_id, output in site.outputs.items()}
    cursors = itertools.count(time.time_ns() // 1000, batch)
    fence = {
        "task_id": source.task_id, "attempt": source.attempt, "lease_token": source.lease_token
    }  # fmt: skip

    def event(output: Any, cursor: int) -> dict[str, Any]:
        return {
            "dataset_uuid": output.dataset_uuid,
            "dataset_version": output.dataset_version,
            "cursor": cursor,
        }

    def turn() -> int:
        first = next(cursors)
        events = [event(source.output, first + n) for n in range(batch)]
        client.post("/internal/events", {**fence, "events": events})
        ask = {"worker_id": "bench-1", "queue": "worker", "limit": batch}
        claims = client.post("/internal/task-claim", ask)["claims"]
        completions = [
            {
                "task_id": each["task"]["task_id"],
                "attempt": each["attempt"],
                "lease_token": each["lease_token"],
                "status": "Completed",
                "events": [
                    event(outputs[each["task"]["job"]["job_id"]], each["task"]["trigger"]["cursor"])
                ],
            }
            for each in claims
        ]
        if completions:
            client.post("/internal/task-complete", {"completions": completions})
        return len(claims)

    try:
        turn()
        number, started_at = 0, time.monotonic()
        while time.monotonic() - started_at < seconds:
            number += turn()
        return Count(number, started_at, time.monotonic())
    finally:
        client.close()
