"""A chain that is followed into Postgres, backfilled and compacted into objects, and read as one.

Everything is real: both databases, Parquet in a folder, the sweep that registers what was not
reported. Beside it a plain model says which row a reader of the newest pins gets for each number.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.commit_world import CommitWorld
from tests.dataset_layouts import table_of
from trace_core.dag.model import Column, UpdateStrategy
from trace_core.database.data import DataDatabase
from trace_core.kernel.errors import Superseded
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, TaskId
from trace_core.kernel.scopes import Scope
from trace_core.registry.commits import Lease, Written, register
from trace_core.registry.pins import PinResolver
from trace_core.registry.relations import lock_with_relations
from trace_core.storage.commits import Committed, DataCommit, DataFence, RowsOutput
from trace_core.storage.manifest import MANIFEST_NAME, scope_folder
from trace_core.storage.model import ManifestIdentity, Pin
from trace_core.storage.objects import verify_manifest, write_objects
from trace_core.storage.postgres_output import PostgresOutput
from trace_core.storage.reader import PinnedReader
from trace_core.storage.versions import VersionTable, VersionTables
from trace_core.tasks.reconcile import Reconciliation

BLOCKS = """
version: 1
name: chain
jobs:
  - {name: hot, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: filled, activation: source, runtime: worker, operator: work, source: {kind: always_on},
     outputs: 1, update_strategy: replace}
  - {name: cold, activation: reactive, runtime: worker, operator: work,
     execution_strategy: PerUpdate, inputs: [{from: {job: hot, output: 0}}], outputs: 1,
     update_strategy: replace}
publish:
  blocks: {from: [{job: hot, output: 0}, {job: filled, output: 0}, {job: cold, output: 0}]}
"""
COLUMNS = (Column("number", "bigint"), Column("hash", "text"))
Blocks = dict[int, str]


@dataclass
class Model:
    """What is shown under the name, and what the hot part alone has held at each of its commits."""

    shown: Blocks = field(default_factory=dict)
    hot: list[Blocks] = field(default_factory=lambda: [{}])
    coming: dict[int, tuple[Scope, Blocks]] = field(default_factory=dict)
    """Commits of the hot part that pins do not reach yet."""

    def put(self, scope: Scope, rows: Blocks) -> None:
        _put(self.shown, scope, rows)

    def advance(self, readable: int) -> None:
        while len(self.hot) <= readable:
            scope, rows = self.coming.pop(len(self.hot))
            self.hot.append(dict(self.hot[-1]))
            _put(self.hot[-1], scope, rows)
            self.put(scope, rows)

    def compact(self, scope: Scope, pin: int) -> None:
        self.put(scope, {n: found for n, found in self.hot[pin].items() if n in _numbers(scope)})


@dataclass
class Staged:
    """What a task has written and not yet reported."""

    written: Written
    scope: Scope
    rows: Blocks
    pin: int | None


class HotColdWorld:
    def __init__(self, world: CommitWorld, data: DataDatabase) -> None:
        self.world, self.data, self.model = world, data, Model()
        self.state, self.ids, self.clock = world.state, world.ids, world.clock
        world.deploy(BLOCKS)
        for job, backend in (("hot", "postgres"), ("filled", "s3"), ("cold", "s3")):
            world.keep(job, backend)
        self.versions = {job: self._version(job) for job in ("hot", "filled", "cold")}
        dataset, version = self.versions["hot"]
        VersionTables(data).ensure_version(
            VersionTable(dataset, version, COLUMNS, UpdateStrategy.REPLACE)
        )
        self.state.write(
            "test",
            "UPDATE dataset_versions SET columns = %(columns)s::jsonb"
            " WHERE dataset_version = %(version)s",
            {
                "columns": '[{"name":"number","type":"bigint"},{"name":"hash","type":"text"}]',
                "version": version,
            },
        )
        self.output = PostgresOutput(data, self.clock)
        self.reader = PinnedReader(world.objects, data)
        self.resolver = PinResolver(self.state)
        self.follower = TaskId(self.ids.uuid())
        self.slices = 0
        self.sweep = Reconciliation(
            self.state, self.clock, self.ids, world.waker, lambda: self.output
        )

    # The hot part ---------------------------------------------------------------------------

    def follow(self, scope: Scope, rows: Blocks) -> Committed:
        """The commit of the data database; nobody has been told."""
        self.slices += 1
        fence = self.output.advance_fence(self.follower, 1, self.slices)
        return self.write(fence, scope, rows)

    def write(self, fence: DataFence, scope: Scope, rows: Blocks) -> Committed:
        dataset, version = self.versions["hot"]
        output = RowsOutput(0, dataset, version, scope, _table(rows), "number")
        done = self.output.commit(DataCommit(fence, (output,), (), {"status": "Yielded"}))
        if not done.repeated:
            self.model.coming[done.commits[0].number] = (scope, rows)
        return done

    def report(self, done: Committed) -> None:
        (commit,) = done.commits
        lease = Lease(done.fence.task_id, done.fence.attempt, done.fence.lease_sequence)
        self._register(
            Written(
                commit.dataset_version, commit.scope, lease, 0, commit.row_count,
                number=commit.number, replaces=commit.replaces, pins=(),
            )
        )  # fmt: skip

    def sweep_up(self) -> None:
        """Long enough after a crash, what was committed is found and registered."""
        self.world.pass_time(minutes=10)
        self.sweep.run_once()
        self._advance_model()

    # The parts in objects ------------------------------------------------------------------

    def stage(self, job: str, scope: Scope, rows: Blocks, pin: int | None = None) -> Staged:
        dataset, version = self.versions[job]
        lease = Lease(self.ids.uuid(), 1, 1)
        identity = ManifestIdentity(dataset, version, TaskId(lease.task_id), 1, 1, 0, scope)
        prefix = f"dataset/{dataset}/version/{version}/staging/{lease.task_id}/1-1/0/"
        write_objects(
            self.world.objects, prefix, identity, COLUMNS, _table(rows), name="blocks",
            cursor_column="number", rows_per_object=4,
        )  # fmt: skip
        key = scope_folder(prefix, scope) + MANIFEST_NAME
        manifest = verify_manifest(self.world.objects, key, prefix, identity)
        pins = () if pin is None else (Pin(*self.versions["hot"], pin, 1),)
        written = Written(version, scope, lease, 0, manifest_key=key, manifest=manifest, pins=pins)
        return Staged(written, scope, rows, pin)

    def compact(self, scope: Scope, pin: int) -> Staged:
        """Read the hot part at a pin, as the operator does, and write what was found."""
        (part,) = self.resolver.resolve([Pin(*self.versions["hot"], pin, 1)], scope=scope)
        found = self.reader.table(part, scope=scope)
        return self.stage("cold", scope, _blocks(found), pin)

    def commit(self, staged: Staged) -> bool:
        """Whether it was taken; refused, it leaves nothing."""
        try:
            self._register(staged.written)
        except Superseded:
            return False
        if staged.pin is None:
            self.model.put(staged.scope, staged.rows)
        else:
            self.model.compact(staged.scope, staged.pin)
        return True

    def has_changed(self, staged: Staged) -> bool:
        """Has the hot part got other rows in its scope since it read them?"""
        if staged.pin is None:
            return False
        then, now = self.model.hot[staged.pin], self.model.hot[-1]
        return any(then.get(n) != now.get(n) for n in _numbers(staged.scope))

    # Readers --------------------------------------------------------------------------------

    def pins(self) -> tuple[Pin, ...]:
        return self.resolver.current_pins(self.world.org, ["blocks"])["blocks"]

    def read(self, pins: Sequence[Pin], scope: Scope | None = None) -> list[tuple[int, str]]:
        parts = self.resolver.resolve(pins, scope=scope)
        table = self.reader.relation(parts, scope=scope).read_all()
        return sorted((row["number"], row["hash"]) for row in table.to_pylist())

    def readable(self) -> int:
        return int(self.world.counter("hot").readable)

    def _register(self, written: Written) -> None:
        with self.state.transaction("test") as tx:
            versions, relations = lock_with_relations(tx, [written.dataset_version])
            register(tx, versions, [written], self.clock.now(), relations)
        self._advance_model()

    def _advance_model(self) -> None:
        self.model.advance(self.readable())

    def _version(self, job: str) -> tuple[DatasetUuid, DatasetVersion]:
        dataset, version = self.world.output(job)
        return DatasetUuid(dataset), DatasetVersion(version)


class History:
    """Random steps over one chain, and what readers must get after each."""

    RANGE = 10

    def __init__(self, real: HotColdWorld, rng: random.Random) -> None:
        self.real, self.rng = real, rng
        self.start = rng.choice([0, 15, 20])
        self.chain = {n: f"{n}.0" for n in range(self.start)}
        self.head = self.start - 1
        self.forks = 0
        self.staged: list[Staged] = []
        self.reported: list[Committed] = []
        self.seen: list[tuple[tuple[Pin, ...], list[tuple[int, str]]]] = []
        self.refused = 0

    def run(self, steps: int) -> None:
        weights = {
            self.extend: 6, self.reorganise: 5, self.fill: 2, self.compact: 6, self.land: 4,
            self.repeat: 1, self.sleepers: 1, self.sweep: 4,
        }  # fmt: skip
        for _ in range(steps):
            self.rng.choices([*weights], [*weights.values()])[0]()
            self.look()
        self.real.sweep_up()
        self.look()
        for pins, expected in self.seen:
            assert self.real.read(pins) == expected

    def look(self) -> None:
        expected = sorted(self.real.model.shown.items())
        pins = self.real.pins()
        assert self.real.read(pins) == expected
        first = self.rng.randint(0, self.head + 10)
        scope = Scope.of_range(first, first + self.rng.randint(0, 15))
        inside = [each for each in expected if each[0] in _numbers(scope)]
        assert self.real.read(pins, scope) == inside
        self.seen.append((pins, expected))
        old_pins, old = self.rng.choice(self.seen)
        assert self.real.read(old_pins) == old

    def extend(self) -> None:
        first = self.head + 1
        self.head += self.rng.randint(1, 6)
        self._write(first, self.head)

    def reorganise(self) -> None:
        """Up to any depth, also into what was compacted; the new fork may be shorter."""
        if self.head <= self.start:
            return
        self.forks += 1
        old, depth = self.head, self.rng.choice([1, 2, 4, 8, 12, 25])
        first = max(self.start, self.head - depth + 1)
        self.head = max(first, old + self.rng.randint(-2, 2))
        self._write(first, max(old, self.head))

    def _write(self, first: int, last: int) -> None:
        scope = Scope.of_range(first, last)
        for number in range(first, last + 1):
            self.chain.pop(number, None)
            if number <= self.head:
                self.chain[number] = f"{number}.{self.forks}"
        rows = {n: self.chain[n] for n in _numbers(scope) if n in self.chain}
        done = self.real.follow(scope, rows)
        # Now and then the process dies before it tells anybody.
        if self.rng.random() < 0.75:
            self.real.report(done)
            self.reported.append(done)

    def fill(self) -> None:
        first = self.rng.randint(0, max(0, self.head - 3))
        scope = Scope.of_range(first, min(self.head, first + self.rng.randint(0, 14)))
        if scope.range and scope.range[0] <= scope.range[1]:
            rows = {n: self.chain[n] for n in _numbers(scope) if n in self.chain}
            self.staged.append(self.real.stage("filled", scope, rows))

    def compact(self) -> None:
        """A range that the hot part holds whole, at its newest pin; mostly an aligned one."""
        pin = self.real.readable()
        held = self.real.model.hot[pin]
        size = self.rng.choice([self.RANGE, self.RANGE, 4, 25])
        starts = [
            first
            for first in range(0, self.head, 5)
            if all(n in held for n in range(first, first + size))
        ]
        if starts:
            # What is near the head is the most likely to change before it is reported.
            first = starts[-1] if self.rng.random() < 0.6 else self.rng.choice(starts)
            self.staged.append(self.real.compact(Scope.of_range(first, first + size - 1), pin))

    def land(self) -> None:
        """Something that was written some time ago is reported."""
        if self.staged:
            staged = self.staged.pop(self.rng.randrange(len(self.staged)))
            if staged.pin is None and any(self.chain.get(n) != h for n, h in staged.rows.items()):
                # What is backfilled is final: nobody reports blocks of a fork that is gone.
                return
            changed = self.real.has_changed(staged)
            if self.real.commit(staged):
                assert not changed, "rows were moved that the hot part has replaced"
                # The answer was lost, and it is reported again.
                if self.rng.random() < 0.3:
                    self.real._register(staged.written)
            else:
                self.refused += 1

    def repeat(self) -> None:
        if self.reported:
            self.real.report(self.rng.choice(self.reported))

    def sleepers(self) -> None:
        """A follower of before wakes up, and may write no more."""
        stale = DataFence(self.real.follower, 1, 1, max(0, self.real.slices - 1))
        try:
            self.real.write(stale, Scope.of_range(self.head, self.head), {self.head: "stale"})
        except Exception as error:
            assert type(error).__name__ == "Fenced"
        else:
            raise AssertionError("a stale follower wrote")

    def sweep(self) -> None:
        self.real.sweep_up()


def _put(held: Blocks, scope: Scope, rows: Blocks) -> None:
    for number in _numbers(scope):
        held.pop(number, None)
    held.update(rows)


def _numbers(scope: Scope) -> range:
    assert scope.range is not None
    return range(scope.range[0], scope.range[1] + 1)


def _table(rows: Blocks) -> pa.Table:
    return table_of([{"number": n, "hash": h} for n, h in rows.items()], COLUMNS)


def _blocks(table: pa.Table | Iterable[dict[str, Any]]) -> Blocks:
    rows = table.to_pylist() if isinstance(table, pa.Table) else list(table)
    found = {row["number"]: row["hash"] for row in rows}
    assert len(found) == len(rows)
    return found
