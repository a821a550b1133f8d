"""A follower whose ranges are compacted while it follows, and what readers of the names get.

As in `FollowWorld` each step is the platform's own, in one process. Runs of Spark are asked for,
seen through and taken over by `trace_core.spark`; the work itself is that of `emr_jobs`, in one
warm session, at moments that the test says.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.chain.follow_world import NAMES, FollowWorld, dag
from tests.manual_clock import ManualClock
from tests.warm_runner import WarmRunner
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import tables_of
from trace_core.adapters.lite.file_objects import FileObjectStore
from trace_core.database.state import StateDatabase
from trace_core.identity.model import SYSTEM
from trace_core.kernel.ids import Ids
from trace_core.kernel.scopes import Scope
from trace_core.ports.spark_runner import RunState
from trace_core.spark.wire import SparkResult
from trace_core.storage.model import Pin

ORDER = {
    "blocks": ("number",),
    "transactions": ("block_number", "transaction_index"),
    "logs": ("block_number", "log_index"),
}
COMPACTED = """
  - {{name: ranges, activation: reactive, runtime: dispatcher, operator: range_aggregator,
     execution_strategy: PerUpdate, inputs: [{{from: {{job: follow, output: 0}}}}], outputs: 1,
     update_strategy: replace,
     config: {{cursor: number, range_size: {range_size}, finality_depth: {finality_depth}}}}}
  - name: compact
    activation: reactive
    runtime: emr_serverless
    operator: parquet_compact
    execution_strategy: PerPartition
    max_attempts: 100
    inputs:
      - from: {{job: ranges, output: 0}}
      - {{from: {{job: follow, output: 0}}, as: blocks}}
      - {{from: {{job: follow, output: 1}}, as: transactions}}
      - {{from: {{job: follow, output: 2}}, as: logs}}
    outputs: 3
    update_strategy: replace
publish:
  blocks: {{from: [{{job: follow, output: 0}}, {{job: compact, output: 0}}]}}
  transactions: {{from: [{{job: follow, output: 1}}, {{job: compact, output: 1}}]}}
  logs: {{from: [{{job: follow, output: 2}}, {{job: compact, output: 2}}]}}
"""
Tables = dict[str, pa.Table]
Pins = dict[str, tuple[Pin, ...]]


class Crash(BaseException):
    """The process died here."""


@dataclass(frozen=True)
class Seen:
    """What somebody got at pins that stay what they are."""

    pins: Pins
    scope: Scope | None
    digests: dict[str, str]


class CompactWorld(FollowWorld):
    def __init__(
        self, state_dsn: str, data_dsn: str, folder: Path, url: str, spark: SparkSession, seed: int
    ) -> None:
        self.clock = ManualClock()
        ids = Ids(self.clock.now, random.Random(seed).getrandbits)  # noqa: S311
        objects = FileObjectStore(folder / "home" / "objects")
        self.runner = WarmRunner(
            self.clock, objects, f"file://{(folder / 'home' / 'objects').resolve()}/", 12,
            spark=spark,
        )  # fmt: skip
        self._crash_at: str | None = None
        self._state = StateDatabase(state_dsn, crash_points=self._point)
        super().__init__(
            state_dsn, data_dsn, folder, url, state=self._state, clock=self.clock, ids=ids,
            objects=objects, spark_runner=self.runner, jitter=lambda: 0.5,
        )  # fmt: skip
        self.seen: list[Seen] = []
        self.refused = 0
        """Runs that wrote something and were not taken: what they read had been rewritten, or they
        had lost their lease."""

    def close(self) -> None:
        self._crash_at = None
        super().close()
        self._state.close()

    def deploy_compacted(self, range_size: int, finality_depth: int, **config: Any) -> None:
        text = dag(3, **config) + COMPACTED.format(
            range_size=range_size, finality_depth=finality_depth
        )
        self.app.deploys.deploy(self.org, text, "chain.yaml", SYSTEM)

    # Compactions ---------------------------------------------------------------------------------

    def turn(self) -> None:
        """What is announced becomes tasks, and tasks become runs as far as there is room."""
        for _ in range(3):
            self.app.dispatcher.run_once()
            self.app.relay.run_once()

    def begin(self, run_id: str) -> None:
        self.runner.move(RunState.RUNNING, run_id)
        self.watch()

    def watch(self, crash_at: str | None = None) -> None:
        """The platform looks at its runs; with a point, it dies there and looks again."""
        self._crash_at = crash_at
        try:
            self._look_at_runs()
        except Crash:
            self.clock.advance(self.app.timings.run_poll * 100)
            self._look_at_runs()
        finally:
            self._crash_at = None

    def _look_at_runs(self) -> None:
        self.clock.advance(self.app.timings.run_poll)
        report = self.app.spark.watch.run_once()
        assert not report.failed, report

    def end(self, run_id: str, result: SparkResult, crash_at: str | None = None) -> None:
        self.runner.end(run_id, result)
        before = self._commits()
        self.watch(crash_at)
        self.refused += bool(result.written) and self._commits() == before

    def lose_leases(self) -> None:
        """As if nobody had kept those of the runs."""
        self.expire("compact")

    def drain(self, limit: int = 500) -> int:
        """Until nothing is left to compact; how many runs there were."""
        for count in range(limit):
            self._make_due()
            self.turn()
            for run_id in self.runner.waiting():
                self.begin(run_id)
            running = self.runner.running()
            if not running:
                self.clock.advance(self.app.timings.run_poll * 100)
                if not self.tasks_left():
                    return count
            for run_id in running:
                self.end(run_id, self.runner.work(run_id))
        raise AssertionError(f"{limit} rounds, and there are ranges left")

    def _commits(self) -> int:
        (row,) = self._state.read(
            "SELECT count(*) AS n FROM commits JOIN dataset_versions USING (dataset_version)"
            " JOIN jobs USING (job_id) WHERE name = 'compact'",
            {},
        )
        return int(row.n)

    def _point(self, name: str) -> None:
        if name == self._crash_at:
            self._crash_at = None
            raise Crash(name)

    # Readers -------------------------------------------------------------------------------------

    def pins(self) -> Pins:
        return self.app.pin_resolver.current_pins(self.org, NAMES)

    def read(self, pins: Pins, scope: Scope | None = None, *, part: int | None = None) -> Tables:
        found = {}
        for name in NAMES:
            chosen = pins[name] if part is None else pins[name][part : part + 1]
            parts = self.app.pin_resolver.resolve(chosen, scope=scope)
            found[name] = in_order(name, self.app.pinned_reader.relation(parts, scope=scope))
        return found

    def look(self, chance: random.Random, scope: Scope | None = None) -> None:
        """One who reads the names now: one chain, the follower's own rows, and what pins of
        earlier gave is what they give."""
        pins = self.pins()
        tables = self.read(pins, scope)
        assert_chain(tables)
        alone = self.read(pins, scope, part=0)
        for name, table in tables.items():
            assert table.equals(alone[name]), f"{name} of {scope} are not those of the follower"
        self.seen.append(Seen(pins, scope, digests(tables)))
        old = chance.choice(self.seen)
        assert digests(self.read(old.pins, old.scope)) == old.digests, f"{old.pins} have changed"

    def look_back(self, chance: random.Random, count: int) -> None:
        for old in chance.sample(self.seen, min(count, len(self.seen))):
            assert digests(self.read(old.pins, old.scope)) == old.digests, f"{old.pins}"

    def cold_rows(self) -> int:
        """Blocks that are read from objects now."""
        pins = self.pins()["blocks"]
        parts = self.app.pin_resolver.resolve(pins)
        return self.app.pinned_reader.table(parts[-1]).num_rows


def in_order(name: str, rows: pa.RecordBatchReader) -> pa.Table:
    table = rows.read_all()
    return table.sort_by([(key, "ascending") for key in ORDER[name]]).combine_chunks()


def digests(tables: Tables) -> dict[str, str]:
    """The same for the same rows."""
    found = {}
    for name, table in tables.items():
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        lines = "\n".join(map(repr, rows))
        found[name] = f"{table.num_rows}:{hashlib.sha256(lines.encode()).hexdigest()}"
    return found


def assert_chain(tables: Tables) -> None:
    """Each block once, a child of the one before, with all that it says it has."""
    columns = ("number", "hash", "parent_hash", "transaction_count", "log_count")
    blocks = list(zip(*(tables["blocks"][name].to_pylist() for name in columns), strict=True))
    for parent, child in pairwise(blocks):
        assert child[0] == parent[0] + 1, f"{child[0]} follows {parent[0]}"
        assert child[2] == parent[1], f"block {child[0]} is of another fork"
    hashes = {block[0]: block[1] for block in blocks}
    for name, counted in (("transactions", 3), ("logs", 4)):
        numbers, of = (tables[name][key].to_pylist() for key in ("block_number", "block_hash"))
        assert all(hashes.get(n) == h for n, h in zip(numbers, of, strict=True)), name
        counts = Counter(numbers)
        for block in blocks:
            assert counts[block[0]] == block[counted], f"{name} of {block[0]}"
        places = tables[name][ORDER[name][1]].to_pylist()
        assert len(set(zip(numbers, places, strict=True))) == len(numbers), f"{name} twice"


def clean_tables(url: str, start: int = 0) -> Tables:
    """The rows of the chain as it is, read once from its node."""
    with Rpc(url) as rpc:
        reader = BlockReader(rpc)
        blocks = list(reader.blocks(start, reader.heads().latest.number))
    return {
        name: in_order(name, pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))
        for name, table in zip(NAMES, tables_of(blocks), strict=True)
    }
