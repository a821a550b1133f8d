"""The platform as the benchmark sees it: a durable Postgres, an org with DAGs, the services.

A `Site` is what worker processes must know; a `World` is the services of one process on it. Every
call goes the way of a request: a JSON body, its validation, the service.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from pydantic import SecretStr

from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.identity.model import SYSTEM
from trace_core.kernel.ids import OrgId
from trace_core.ports.waker import Function, Waker
from trace_core.settings import Settings
from trace_core.tasks.api import ClaimRequest, CompleteBatch, EventsRequest
from trace_core.tasks.claim import Claimed
from trace_core.tasks.model import Priority

SHOWN_SETTINGS = (
    "server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method",
    "shared_buffers", "max_wal_size", "autovacuum_naptime",
)  # fmt: skip

_SMALL_DATABASE = 100_000_000
"""Larger ones were analysed when they were filled."""


@dataclass(frozen=True)
class Output:
    dataset_uuid: str
    dataset_version: str


@dataclass(frozen=True)
class Source:
    """The running task of a source: its fence and what it announces."""

    task_id: str
    attempt: int
    lease_token: str
    output: Output


@dataclass(frozen=True)
class Site:
    dsn: str
    home: Path
    org_id: OrgId
    sources: dict[str, Source]
    """By `dag.job`."""
    outputs: dict[UUID, Output]
    """The first output of each job."""
    jobs: dict[str, UUID]
    """By `dag.job`."""


class SilentWaker:
    """Push switched off."""

    def wake(self, function: Function) -> None:
        pass


class StampedWaker:
    """The real waker; remembers when it was called, which is right after the commit."""

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self.called_at = 0.0

    def wake(self, function: Function) -> None:
        self.called_at = time.monotonic()
        self._waker.wake(function)


def dag_text(
    name: str,
    steps: Sequence[str],
    *,
    lambda_tail: bool = False,
    priority: Priority = Priority.LIVE,
    slots: int = 0,
) -> str:
    """A source that is always on, and one job behind the other."""
    lines = ["version: 1", f"name: {name}"]
    if slots:
        lines += ["worker_pools:", "  pool:", *(f"    - name: slot{n}" for n in range(slots))]
    lines += ["jobs:"]
    lines += [
        "  - {name: source, activation: source, runtime: worker, operator: bench_source, "
        "source: {kind: always_on}, outputs: 1}"
    ]
    before = "source"
    for step in steps:
        runtime = "lambda" if lambda_tail and step == steps[-1] else "worker"
        extra = ", worker_pool: pool" if slots else ""
        extra += ", priority: backfill" if priority is Priority.BACKFILL else ""
        lines.append(
            f"  - {{name: {step}, activation: reactive, runtime: {runtime}, operator: bench_step, "
            f"execution_strategy: PerUpdate, inputs: [{{from: {{job: {before}, output: 0}}}}], "
            f"outputs: 1{extra}}}"
        )
        before = step
    return "\n".join(lines) + "\n"


def new_app(dsn: str, home: Path, **parts: Any) -> App:
    settings = Settings(
        home=home, state_dsn=SecretStr(dsn), operator_modules=("bench.operators",), org="bench"
    )
    return App(settings, **parts)


def new_site(dsn: str, home: Path, dags: Sequence[str]) -> Site:
    """A new org with these DAGs, their sources leased; other orgs' work is out of its sight."""
    app = new_app(dsn, home, waker=SilentWaker())
    try:
        app.migrate()
        org_id = app.orgs.ensure_org(f"bench-{uuid4().hex[:12]}")
        for text in dags:
            app.deploys.deploy(org_id, text, "bench.yaml", SYSTEM)
        leased = {c.job_id: c for c in app.claims.claim(org_id, Runtime.WORKER, 100, "bench")}
    finally:
        app.close()
    jobs, outputs, sources = {}, {}, {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT d.name || '.' || j.name, j.job_id, v.dataset_uuid, v.dataset_version"
            "  FROM jobs j JOIN dags d ON d.dag_id = j.dag_id"
            "  JOIN dataset_versions v ON v.job_id = j.job_id WHERE j.org_id = %s",
            [org_id],
        ).fetchall()
    for name, job_id, dataset_uuid, dataset_version in rows:
        jobs[name] = job_id
        outputs[job_id] = Output(str(dataset_uuid), str(dataset_version))
        if job_id in leased:
            fence = leased[job_id].fence
            sources[name] = Source(
                str(fence.task_id), fence.attempt, str(fence.lease_token), outputs[job_id]
            )
    return Site(dsn, home, org_id, sources, outputs, jobs)


class World:
    """The services of one process."""

    def __init__(self, site: Site, **parts: Any) -> None:
        self.site = site
        self.app = new_app(site.dsn, site.home, **parts)

    def close(self) -> None:
        self.app.close()

    def accept(self, source: Source, first: int, count: int) -> int:
        """Events of `count` cursors; answers how many tasks they made."""
        output = source.output
        events = ",".join(
            f'{{"dataset_uuid":"{output.dataset_uuid}",'
            f'"dataset_version":"{output.dataset_version}","cursor":{cursor}}}'
            for cursor in range(first, first + count)
        )
        body = (
            f'{{"task_id":"{source.task_id}","attempt":{source.attempt},'
            f'"lease_token":"{source.lease_token}","events":[{events}]}}'
        )
        request = EventsRequest.model_validate_json(body.encode())
        return self.app.events.accept(self.site.org_id, request).tasks_made

    def claim(self, limit: int, worker: str = "bench-1") -> list[Claimed]:
        body = f'{{"worker_id":"{worker}","queue":"worker","limit":{limit}}}'
        request = ClaimRequest.model_validate_json(body.encode())
        return self.app.claims.claim(
            self.site.org_id, Runtime.WORKER, request.limit, request.worker_id
        )

    def complete(self, claimed: Sequence[Claimed]) -> None:
        """Each with one event of its own output, for the cursor that made it."""
        bodies = ",".join(self._completion(each) for each in claimed)
        request = CompleteBatch.model_validate_json(f'{{"completions":[{bodies}]}}'.encode())
        results = self.app.completions.complete(self.site.org_id, request.completions)
        for result in results:
            if result.error is not None:
                raise result.error

    def _completion(self, claimed: Claimed) -> str:
        assert claimed.trigger is not None
        output = self.site.outputs[claimed.job_id]
        return (
            f'{{"task_id":"{claimed.task_id}","attempt":{claimed.attempt},'
            f'"lease_token":"{claimed.lease_token}","status":"Completed","events":'
            f'[{{"dataset_uuid":"{output.dataset_uuid}",'
            f'"dataset_version":"{output.dataset_version}",'
            f'"cursor":{claimed.trigger.scope.cursor}}}]}}'
        )


class Server:
    """The embedded Postgres of the data folder, with databases that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._postgres = EmbeddedPostgres(folder / "postgres", durable=True)

    def __enter__(self) -> Server:
        self._postgres.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._postgres.stop()

    def database(self, name: str) -> str:
        return self._postgres.database(name)

    def drop(self, name: str) -> None:
        with self._admin() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def fresh(self, name: str) -> str:
        self.drop(name)
        return self.database(name)

    def rename(self, old: str, new: str) -> None:
        with self._admin() as connection:
            connection.execute(f'ALTER DATABASE "{old}" RENAME TO "{new}"')

    def names(self) -> list[str]:
        with self._admin() as connection:
            return [row[0] for row in connection.execute("SELECT datname FROM pg_database")]

    def settings(self) -> dict[str, str]:
        with self._admin() as connection:
            rows = connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)",
                [list(SHOWN_SETTINGS)],
            ).fetchall()
        return dict(rows)

    def _admin(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._postgres.database("postgres"), autocommit=True)


def clear_work(dsn: str) -> None:
    """Forget what waits; history stays. Between rounds, so that each begins alike.

    Statistics are brought up to date, as autovacuum does sooner or later: a plan that is good only
    as long as Postgres knows nothing of the tables is not what runs in production.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("TRUNCATE ready, delayed, outbox, pgqueue_messages")
        connection.execute(
            "DELETE FROM leases l USING tasks t"
            " WHERE t.task_id = l.task_id AND t.event_id IS NOT NULL"
        )
        connection.execute("VACUUM ANALYZE ready, leases, outbox, capacities, slots")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        if row is not None and row[0] < _SMALL_DATABASE:
            connection.execute("ANALYZE")
