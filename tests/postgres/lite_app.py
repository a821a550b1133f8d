"""Apps of several orgs on one database, and calls through the real handlers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from functions.internal_api.handler import handler as internal_api
from functions.task_api.handler import handler as task_api
from functions.user_api.handler import handler as user_api
from tests.manual_clock import ManualClock
from trace_core import bootstrap
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase, Transaction
from trace_core.http.proxy_event import LocalContext, rest_event
from trace_core.kernel.ids import Ids
from trace_core.settings import Settings

OPERATORS = str(Path(__file__).parents[1] / "operators_for_tests.py")

CHAIN = """
version: 1
name: chain
jobs:
  - name: numbers
    activation: source
    runtime: worker
    operator: emit_cursors
    source: { kind: always_on }
    outputs: 1
    update_strategy: replace
    config: { per_slice: 5, stop_at: 20 }
  - name: follow
    activation: reactive
    runtime: worker
    operator: pass_on
    execution_strategy: PerUpdate
    inputs: [{ from: { job: numbers, output: 0 } }]
    outputs: 1
    update_strategy: replace
  - name: tail
    activation: reactive
    runtime: lambda
    operator: pass_on
    execution_strategy: PerUpdate
    inputs: [{ from: { job: follow, output: 0 } }]
    outputs: 1
    update_strategy: replace
  - name: history
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: manual }
    outputs: 1
"""

UNLIMITED: dict[str, Any] = dict.fromkeys(
    ("user_requests", "org_requests", "query_requests", "hook_requests"), 10**7
)
"""Settings of tests in which time stands still, so that no minute ever ends."""

HANDLERS = {"/internal/": internal_api, "/v1/task/": task_api, "/v1/": user_api}


class CountingState(StateDatabase):
    """Counts what may have written, so that a test knows when nothing can have changed."""

    writes = 0

    def write(self, name: str, sql: str, params: Mapping[str, Any]) -> list[Any]:
        # Each request is counted, also one that changes nothing.
        self.writes += name != "count_request"
        return super().write(name, sql, params)

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        self.writes += 1
        with super().transaction(name) as tx:
            yield tx


class SilentWaker:
    def wake(self, function: object) -> None:
        """Nobody listens."""


class Org:
    """One org with its app, its tokens, and calls in its name."""

    def __init__(
        self, name: str, home: Path, state: StateDatabase, clock: ManualClock, ids: Ids
    ) -> None:
        settings = Settings(home=home / name, org=name, operator_modules=(OPERATORS,), **UNLIMITED)
        self.app = App(settings, state=state, clock=clock, ids=ids, waker=SilentWaker())
        self.org_id = self.app.own_org
        self.worker = self.app.worker_token
        # The first use of a worker token is written down, and then nothing for an hour.
        self.app.worker_tokens.org_of(self.worker)

    @property
    def user(self) -> str:
        """A fresh token of the person at this machine, who administers the org."""
        return self.app.user_token

    def call(
        self, method: str, path: str, body: object = None, *, token: str | None = None
    ) -> tuple[int, Any]:
        """With the token that fits the path, unless another is given."""
        if token is None:
            token = self.worker if path.startswith("/internal/") else self.user
        data = b"" if body is None else json.dumps(body).encode()
        return self.send(method, path, data, token)

    def send(self, method: str, path: str, data: bytes, token: str) -> tuple[int, Any]:
        route, _, query = path.partition("?")
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        handler = next(found for prefix, found in HANDLERS.items() if route.startswith(prefix))
        event = rest_event(method, route, query=query, headers=headers, body=data)
        with bootstrap.using(self.app):
            answer = handler(event, LocalContext("test", "test"))
        return answer["statusCode"], json.loads(answer["body"])

    def ok(self, method: str, path: str, body: object = None, *, token: str | None = None) -> Any:
        status, answer = self.call(method, path, body, token=token)
        assert status < 300, answer
        return answer

    def deploy(self, text: str = CHAIN) -> Any:
        return self.ok("POST", "/v1/dags", {"text": text, "filename": "chain.yaml"})

    def claim(self, limit: int = 1) -> list[Any]:
        body = {"worker_id": "w", "queue": "worker", "limit": limit}
        found: list[Any] = self.ok("POST", "/internal/task-claim", body)["claims"]
        return found

    def claim_source(self) -> Any:
        """The running slice of the source, from which everything begins."""
        return next(each for each in self.claim(500) if each["task"]["job"]["name"] == "numbers")

    def make_follow_tasks(self, source: Any, first: int, count: int) -> None:
        cursors = range(first, first + count)
        self.ok("POST", "/internal/events", {**fence(source), "events": events(source, cursors)})

    def started_lambda(self) -> Any:
        """A `runtime: lambda` task after its exchange, with its capability token."""
        reserved = self.app.claims.reserve(self.org_id, Runtime.LAMBDA, 1)
        payload = self.app.payloads.build(reserved)[0]
        return self.ok("POST", "/v1/task/start", start_body(payload))


def start_body(payload: Mapping[str, Any], runner: str = "r1") -> dict[str, Any]:
    return {
        "task_id": payload["task_id"],
        "start_token": payload["start_token"],
        "runner_id": runner,
    }


def fence(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "task_id": claim["task"]["task_id"],
        "attempt": claim["attempt"],
        "lease_token": claim["lease_token"],
    }


def events(claim: Mapping[str, Any], cursors: Any) -> list[dict[str, Any]]:
    output = claim["task"]["outputs"][0]
    named = {name: output[name] for name in ("dataset_uuid", "dataset_version")}
    return [{**named, "cursor": cursor} for cursor in cursors]


def stored(state: StateDatabase) -> list[tuple[Any, ...]]:
    """Everything that the database holds: table, number of rows, and a digest of them."""
    tables = state.read(
        "SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        # What is not logged counts requests, and changes with each.
        "AND c.relpersistence = 'p' "
        "ORDER BY 1",
        {},
    )
    each = " UNION ALL ".join(
        f"SELECT '{table.name}' AS name, count(*), "  # noqa: S608
        f"md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table.name} t"
        for table in tables
    )
    return sorted(tuple(row) for row in state.read(each, {}))
