"""The commit over two databases, under random orders of tasks, attempts, cancels, sweeps, readers.

Whatever happens between the data transaction and its registration: a pin's rows never change, what
was committed becomes known in its order, and the last commit has the newest pins.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tests.commit_world import FORK, CommitWorld
from tests.dataset_layouts import Definition, PostgresLayout, block
from tests.postgres.data_world import DataWorld
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Conflict, Fenced, Superseded
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import Lease, pins_of
from trace_core.storage.commits import Committed, DataCommit
from trace_core.storage.versions import VersionTables
from trace_core.tasks.claim import Claimed
from trace_core.tasks.reconcile import Reconciliation

FIVE = Scope(cursor=5)
STEPS = 100


@dataclass
class Attempt:
    """One attempt and what it has done so far; nobody tells it that it is over."""

    claim: Claimed
    written: Committed | None = None
    ended: bool = False


@dataclass
class Schedule:
    world: CommitWorld
    data: DataWorld
    layout: PostgresLayout
    random: random.Random
    attempts: list[Attempt] = field(default_factory=list)
    seen: dict[int, list[str]] = field(default_factory=dict)
    superseded: int = 0
    fenced: int = 0

    def rewrite(self) -> None:
        source = self.world.take("a")
        self.world.report(source, "Yielded", events=[self.world.event("a", 5, self._next())])

    def _next(self) -> int:
        return int(self.world.counter("a").last_number) + 1

    def claim(self) -> None:
        if self.world.ready("b"):
            self.attempts.append(Attempt(self.world.take("b")))

    def _any(self, *, written: bool) -> Attempt | None:
        found = [a for a in self.attempts if not a.ended and (a.written is not None) is written]
        return self.random.choice(found) if found else None

    def write(self) -> None:
        """The attempt may be long over: the fence says so."""
        attempt = self._any(written=False)
        if attempt is None:
            return
        claim = attempt.claim
        with self.world.state.transaction("test") as tx:
            pins = pins_of(tx, Lease(claim.task_id, claim.attempt, claim.lease_sequence))
        rows = self.layout.rows_output(FIVE, [block(5, f"{claim.task_id}-{claim.attempt}")])
        body = {"status": "Completed"}
        output = self.data.output
        try:
            fence = output.advance_fence(claim.task_id, claim.attempt, claim.lease_sequence)
            # A retry that finds a record reports it, and writes nothing.
            attempt.written = output.find_records(claim.task_id) or output.commit(
                DataCommit(fence, (rows,), pins, body)
            )
        except Superseded:
            self.superseded += 1
            attempt.ended = True
            self.world.report(claim, "Superseded")
        except Fenced:
            self.fenced += 1
            attempt.ended = True

    def report(self) -> None:
        attempt = self._any(written=True)
        if attempt is None or attempt.written is None:
            return
        attempt.ended = True
        (commit,) = attempt.written.commits
        by = (attempt.written.fence.attempt, attempt.written.fence.lease_sequence)
        output = self.world.recorded(
            attempt.claim, "b", FIVE, commit.number, replaces=commit.replaces, by=by
        )
        result = self.world.complete(attempt.claim, outputs=[output])
        assert result.error is None or isinstance(result.error, Conflict), result.error

    def die(self) -> None:
        """Never heard of again; or only thought to be, and heard of later."""
        running = [attempt for attempt in self.attempts if not attempt.ended]
        if running and self.random.random() < 0.5:
            self.random.choice(running).ended = True
        self.expire()

    def expire(self) -> None:
        self.world.pass_time(minutes=3)
        self.world.reaper.run_once()
        self.world.pass_time(minutes=20)
        self.world.dispatcher.run_once()

    def cancel(self) -> None:
        running = [attempt for attempt in self.attempts if not attempt.ended]
        if running:
            try:
                task_id = self.random.choice(running).claim.task_id
                self.world.admin.cancel(self.world.org, task_id, SYSTEM)
            except Conflict:
                pass

    def sweep(self) -> None:
        world = self.world
        world.pass_time(minutes=2)
        Reconciliation(
            world.state, world.clock, world.ids, world.waker, lambda: self.data.output
        ).run_once()

    def read(self) -> None:
        """The newest pin, and again all that were ever read."""
        self.seen.setdefault(int(self.world.counter("b").readable), [])
        for number, before in self.seen.items():
            table = self.layout.reader.table(self.layout.part(number))
            rows = sorted(table["hash"].to_pylist())
            if not before:
                before.extend(rows)
            assert rows == before, f"the rows of pin {number} changed"

    def check(self) -> None:
        self.sweep()
        self.sweep()
        self.read()
        commits = self.world.commits("b")
        last = self.data.one("SELECT max(number) FROM trace.records") or 0
        assert [each.number for each in commits] == list(range(1, last + 1))
        assert self.world.counter("b").readable == last
        assert [revision for revision, *_ in self.world.announced("b")] == list(range(1, last + 1))
        dataset = str(self.world.output("a")[0])
        read = [
            next((p["swap"], p["number"]) for p in c.input_pins if p["dataset_uuid"] == dataset)
            for c in commits
        ]
        assert read == sorted(read), "the last commit has the newest pins"
        for commit in commits:
            lease = Lease(commit.task_id, commit.attempt, commit.lease_sequence)
            with self.world.state.transaction("test") as tx:
                assert [pin.fields() for pin in pins_of(tx, lease)] == commit.input_pins
        live = [each for each in commits if each.replaced_at is None]
        assert len(live) == min(last, 1)
        assert self.data.output.unregistered() == []


@pytest.mark.parametrize("seed", range(12))
def test_what_was_committed_stands_and_becomes_known_in_order(
    commit_world: CommitWorld, data_world: DataWorld, seed: int
) -> None:
    commit_world.deploy(FORK)
    commit_world.keep("b", "postgres")
    dataset, version = commit_world.output("b")
    one = Definition(DatasetUuid(dataset), DatasetVersion(version))
    VersionTables(data_world.data).ensure_version(one.table)
    reader = data_world.layout().reader
    layout = PostgresLayout(one, data_world.output, reader, data_world.ids)
    schedule = Schedule(commit_world, data_world, layout, random.Random(seed))  # noqa: S311
    for _ in range(2):
        schedule.rewrite()
    # Claims and rewrites outnumber writes, so that attempts grow old before they write.
    acts = [schedule.claim] * 6 + [schedule.write] * 4 + [schedule.report] * 2
    acts += [schedule.rewrite, schedule.expire, schedule.read] * 2
    acts += [schedule.die, schedule.cancel, schedule.sweep]
    for _ in range(STEPS):
        schedule.random.choice(acts)()
    schedule.check()
