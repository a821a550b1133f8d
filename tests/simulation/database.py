"""The database of one simulating process: deployed once, reset before each schedule."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from tests.manual_clock import START, ManualClock
from tests.simulation.shapes import SHAPES, catalog
from trace_core.database.sql import Statements
from trace_core.database.state import Params, Row, StateDatabase, Transaction
from trace_core.deploy.builds import Builds
from trace_core.deploy.service import Deploys
from trace_core.identity.model import SYSTEM
from trace_core.identity.orgs import Orgs
from trace_core.kernel.crash_points import CrashPoints
from trace_core.kernel.errors import Unavailable
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.waker import Function

SQL = Statements("tests.simulation", "simulation.sql")
_VACUUM_EVERY = 10
"""Schedules; rows of earlier ones slow every scan of a working table."""


class Watched(Transaction):
    """A transaction with a point before each statement after the first: here others may step in."""

    def __init__(self, connection: Connection[Row], between: Callable[[], None]) -> None:
        super().__init__(connection)
        self._between = between
        self._begun = False

    def _point(self) -> None:
        if self._begun:
            self._between()
        self._begun = True

    def all(self, sql: str, params: Params) -> list[Row]:
        self._point()
        return super().all(sql, params)

    def one(self, sql: str, params: Params) -> Row | None:
        self._point()
        return super().one(sql, params)

    def run(self, sql: str, params: Params) -> int:
        self._point()
        return super().run(sql, params)


class SimulatedState(StateDatabase):
    """The real state database on two connections: one for the actor whose turn it is, one for
    the actor that steps in while the first stands inside a transaction."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, size=1)
        self._others = StateDatabase(dsn, size=2)
        self._stack = ExitStack()
        first = self._stack.enter_context(super().connection())
        second, third = (self._stack.enter_context(self._others.connection()) for _ in range(2))
        self._held = (first, second, third)
        # Single-threaded: who steps in cannot wait for a lock, it fails and tries again later. Only
        # the third one may wait, in a thread of its own.
        second.execute("SET lock_timeout = '1ms'")
        self._local = threading.local()
        self.ended: Callable[[], None] = _nobody
        """Called when a transaction is over, before anybody else acts."""
        self.touched = False
        """Whether anybody used the database since the oracle last looked."""
        self.between: Callable[[str], None] = _nothing
        self._prepared: set[tuple[int, str]] = set()

    @property
    def depth(self) -> int:
        """Which connection the actor of this thread uses."""
        return getattr(self._local, "depth", 0)

    @depth.setter
    def depth(self, depth: int) -> None:
        self._local.depth = depth

    def attach(
        self,
        crash_points: CrashPoints,
        between: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        self.crash_points, self.between, self.ended, self.depth = crash_points, between, ended, 0

    def is_waiting(self) -> bool:
        """Whether the third connection waits for a lock."""
        rows = self._held[1].execute(SQL["is_waiting"], {"pid": self._held[2].info.backend_pid})
        return bool(rows.fetchall())

    def close(self) -> None:
        self._stack.close()
        self._others.close()
        super().close()

    @contextmanager
    def connection(self) -> Iterator[Connection[Row]]:
        self.touched = True
        try:
            yield self._held[self.depth]
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise Unavailable("The state database does not answer.") from error

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        try:
            with super().transaction(name):
                yield Watched(self._held[self.depth], lambda: self.between(name))
        finally:
            if self.depth == 0:
                self.ended()

    def look(self, name: str) -> list[Row]:
        """A read of the oracle, which sees what is committed: never of the paused transaction."""
        return self._held[self.depth].execute(SQL[name], binary=True).fetchall()

    def glance(self, name: str, now: float | None = None) -> Any:
        """As `look`, for one JSON document: every step asks, and the driver takes longer to ask
        than the database to answer."""
        connection = self._held[self.depth].pgconn
        statement = f"glance_{name}".encode()
        if (self.depth, name) not in self._prepared:
            text = SQL[name].replace("%(now)s", "$1")
            _checked(connection.prepare(statement, text.encode()), ExecStatus.COMMAND_OK)
            self._prepared.add((self.depth, name))
        params = None if now is None else [b"%f" % now]
        answer = _checked(connection.exec_prepared(statement, params), ExecStatus.TUPLES_OK)
        return json.loads(answer.get_value(0, 0) or b"null")


def _checked(result: PGresult, wanted: ExecStatus) -> PGresult:
    if result.status != wanted:
        raise psycopg.InternalError(result.get_error_message())
    return result


def _nothing(_name: str) -> None:
    """Nobody steps in."""


def _nobody() -> None:
    """Nobody waits."""


@dataclass(frozen=True)
class JobFacts:
    job_id: UUID
    org_id: OrgId
    dag: str
    name: str
    activation: str
    runtime: str
    operator: str
    source_kind: str | None
    max_attempts: int
    timeout_seconds: int
    pool_id: UUID | None
    capacity_ids: tuple[UUID, ...]
    priority: int
    datasets: tuple[UUID, ...]
    versions: tuple[UUID, ...]
    triggers: tuple[UUID, ...]
    """Datasets whose events make tasks."""
    config: dict[str, Any]


class _NoWaker:
    def wake(self, function: Function) -> None:
        """Nobody listens while the definitions are deployed."""


class Definitions:
    """What does not change from schedule to schedule."""

    def __init__(self, state: SimulatedState, orgs: dict[tuple[str, int], OrgId]) -> None:
        self.state = state
        self.orgs = orgs
        self.jobs = self.read_jobs()
        self.limits = self.read_limits()
        self.payload_jobs: dict[UUID, Any] = {}
        self._resets = 0

    def read_jobs(self) -> dict[UUID, JobFacts]:
        return {
            row.job_id: JobFacts(**{name: _frozen(getattr(row, name)) for name in row._fields})
            for row in self.state.look("jobs")
        }

    def read_limits(self) -> dict[UUID, int | None]:
        """Of jobs and pools; a quota changes, and is read with every step."""
        return {row.capacity_id: row.max_running for row in self.state.look("capacities")}

    def reset(self, orgs: Sequence[OrgId]) -> None:
        with self.state.connection() as connection:
            if self._resets % _VACUUM_EVERY == 0:
                connection.execute(SQL["vacuum"], prepare=False)
            connection.execute(SQL["reset"], {"orgs": list(orgs)})
        self._resets += 1
        for job_id in set(self.payload_jobs) - set(self.jobs):
            del self.payload_jobs[job_id]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def deploy_shapes(dsn: str) -> Definitions:
    """Every shape in two orgs of its own, with the same ids in every process and run."""
    state = SimulatedState(dsn)
    clock = ManualClock(START)
    ids = Ids(clock.now, random.Random(0).getrandbits)  # noqa: S311
    orgs: dict[tuple[str, int], OrgId] = {}
    for shape, text in SHAPES.items():
        for number in (0, 1):
            org = orgs[shape, number] = Orgs(state, clock, ids).ensure_org(f"{shape}-{number}")
            Deploys(state, clock, ids, _NoWaker(), catalog()).deploy(
                org, text, f"{shape}.yaml", SYSTEM
            )
    # Nothing is left to do for the deploys that a schedule begins with.
    while Builds(state, clock, ids, _NoWaker()).run_once().did_something:
        pass
    with state.connection() as connection:
        connection.execute(SQL["keep_definitions"].encode(), prepare=False)
    return Definitions(state, orgs)
