"""A follower over real databases, slice by slice: claimed, run, written and reported by the
platform's own parts, as a worker would do it, in one process."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from trace_chain.columns import BLOCKS, LOGS, TRANSACTIONS
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import tables_of
from trace_core.bootstrap import App
from trace_core.database.data import DataDatabase, DataRole
from trace_core.identity.model import SYSTEM
from trace_core.ports.waker import Function
from trace_core.settings import Settings
from trace_core.storage.model import schema_name, table_name
from trace_core.tasks.api import Completion
from trace_core.tasks.claim import Claimed
from trace_core.worker.attempt import Attempt
from trace_core.worker.execution import execute
from trace_core.worker.outcome import Outcome
from trace_core.worker.rows import AttemptRows, RowAccess

NAMES = ("blocks", "transactions", "logs")
COLUMNS = {"blocks": BLOCKS, "transactions": TRANSACTIONS, "logs": LOGS}
Hashes = dict[str, str]


def dag(outputs: int = 3, **config: Any) -> str:
    settings = {"chain_id": 31337, "wait_seconds": 0.0, **config}
    return f"""
version: 1
name: chain
jobs:
  - name: follow
    activation: source
    runtime: worker
    operator: block_follower
    source: {{kind: always_on}}
    outputs: {outputs}
    update_strategy: replace
    config: {json.dumps(settings)}
"""


class Silent:
    def wake(self, function: Function) -> None:
        """Slices are claimed by the test."""


class FollowWorld:
    def __init__(
        self, state_dsn: str, data_dsn: str, folder: Path, url: str, crash: Any = None, **more: Any
    ) -> None:
        settings = Settings(
            home=folder / "home", state_dsn=SecretStr(state_dsn), data_dsn=SecretStr(data_dsn)
        )
        parts: dict[str, Any] = {"waker": Silent(), **more}
        if crash is not None:
            writer = DataDatabase(data_dsn, role=DataRole.WRITER, crash_points=crash)
            parts["data_writer"] = writer
        self.app = App(settings, **parts)
        self.org = self.app.orgs.ensure_org("chain")
        self.url = url
        self._folder = folder
        self.said: dict[str, Any] = {}

    def close(self) -> None:
        self.app.close()

    def deploy(self, outputs: int = 3, **config: Any) -> None:
        self.app.deploys.deploy(self.org, dag(outputs, **config), "chain.yaml", SYSTEM)

    # Slices --------------------------------------------------------------------------------------

    def claim(self) -> Claimed:
        (task,) = self.app.state.read(
            "SELECT task_id FROM tasks JOIN jobs USING (job_id) WHERE name = 'follow'", {}
        )
        (claim,) = self.app.claims.claim_ids(self.org, [task.task_id], "test")
        assert isinstance(claim, Claimed), claim
        return claim

    def slice(self, requests: tuple[Any, ...] = ()) -> Mapping[str, Any]:
        """One slice, and what it reported."""
        return self.run(self.claim(), requests)

    def run(self, claim: Claimed, requests: tuple[Any, ...] = ()) -> Mapping[str, Any]:
        payload = dict(self.app.payloads.build([claim])[0])
        if requests:
            payload["requests"] = [
                {"number": at, "request": each} for at, each in enumerate(requests, 1)
            ]
        answer = {"attempt": claim.attempt, "lease_token": str(claim.lease_token), "task": payload}
        attempt = Attempt.of(answer)
        scratch = self._folder / f"slice-{claim.attempt}-{claim.lease_sequence}"
        scratch.mkdir()
        try:
            outcome = self._outcome(attempt, scratch)
        finally:
            shutil.rmtree(scratch)
        self.said = dict(outcome.fields)
        self._report(claim, outcome)
        return self.said

    def _outcome(self, attempt: Attempt, scratch: Path) -> Outcome:
        rows = AttemptRows(attempt, RowAccess(lambda: self.app.row_store, self._reads_nothing))
        done = rows.begin()
        if done is not None:
            return done
        outcome = execute(
            rows.payload, self.app.catalog, env={"RPC_URL": self.url}, scratch=scratch,
            now=self.app.clock.now(), emit=nothing, fetch=nothing, canceled=lambda: False,
        )  # fmt: skip
        return rows.keep(outcome, scratch) if outcome.status == "Yielded" else outcome

    def _report(self, claim: Claimed, outcome: Outcome) -> None:
        fence = {
            "task_id": claim.fence.task_id,
            "attempt": claim.fence.attempt,
            "lease_token": claim.fence.lease_token,
        }
        fields = {**outcome.fields}
        fields.pop("triggers_taken", None)  # made up by tests; the real ones are another test's
        body = Completion.model_validate({**fence, **fields})
        (result,) = self.app.completions.complete(self.org, [body])
        if result.error is not None:
            raise result.error
        self._make_due()

    def _make_due(self) -> None:
        now = {"now": self.app.clock.now()}
        self.app.state.write("test", "UPDATE delayed SET due_at = %(now)s", now)
        self.app.dispatcher.run_once()

    def expire(self, job: str = "follow") -> None:
        """As if the lease of a dead worker were over."""
        past = {"past": self.app.clock.now(), "job": job}
        self.app.state.write(
            "test",
            "UPDATE leases SET lease_expires_at = %(past)s, deadline_at = %(past)s"
            " WHERE job_id IN (SELECT job_id FROM jobs WHERE name = %(job)s)",
            past,
        )
        self.app.reaper.run_once()
        self._make_due()

    def follow(self, slices: int = 200) -> int:
        """Until a slice writes nothing; how many did."""
        for count in range(slices):
            said = self.slice()
            assert said["status"] == "Yielded", said
            if not said["outputs"]:
                return count
        raise AssertionError(f"{slices} slices, and it still writes")

    def tasks_left(self) -> int:
        """Of all jobs but the follower."""
        (row,) = self.app.state.read(
            "SELECT count(*) AS n FROM jobs JOIN (SELECT job_id FROM ready UNION ALL SELECT job_id"
            " FROM delayed UNION ALL SELECT job_id FROM leases) AS open USING (job_id)"
            " WHERE name <> 'follow' AND activation <> 'source'",
            {},
        )
        return int(row.n)

    @staticmethod
    def _reads_nothing(attempt: Attempt, wanted: Any) -> Any:
        raise AssertionError("a follower reads no rows")

    # What is there -------------------------------------------------------------------------------

    def versions(self) -> list[Any]:
        return self.app.state.read(
            "SELECT v.dataset_uuid, v.dataset_version FROM dataset_versions v"
            " JOIN datasets d USING (dataset_uuid) JOIN jobs j ON j.job_id = v.job_id"
            " WHERE j.name = 'follow' ORDER BY d.output_index",
            {},
        )

    def rows(self, output: int, at: int | None = None) -> list[tuple[Any, ...]]:
        """The live rows by plain SQL; or those of one commit number."""
        version = self.versions()[output]
        name = [*NAMES, "heads"][output]
        columns = "*" if name == "heads" else ", ".join(f'"{c.name}"' for c in COLUMNS[name])
        where = "_to IS NULL" if at is None else "_from <= %(at)s AND (_to IS NULL OR _to > %(at)s)"
        found = self.app.data.read(
            f"SELECT {columns}"  # noqa: S608
            f" FROM {schema_name(version.dataset_uuid)}.{table_name(version.dataset_version)}"
            f" WHERE {where}",
            {"at": at},
        )
        return [tuple(row) for row in found]

    def hashes(self) -> Hashes:
        return {name: row_hash(self.rows(at)) for at, name in enumerate(NAMES)}

    def assert_one_chain(self) -> None:
        """What a reader sees at this moment: each block once, a child of the one before, with all
        that it says it has."""
        blocks = sorted(self.rows(0))
        for parent, child in pairwise(blocks):
            assert child[0] == parent[0] + 1, f"{child[0]} follows {parent[0]}"
            assert child[2] == parent[1], f"block {child[0]} is of another fork"
        hashes = {block[0]: block[1] for block in blocks}
        for output, counted in ((1, 11), (2, 12)):
            rows = self.rows(output)
            assert all(hashes[row[0]] == row[1] for row in rows)
            counts = Counter(row[0] for row in rows)
            assert all(counts[block[0]] == block[counted] for block in blocks)
            assert len(set(rows)) == len(rows) == sum(block[counted] for block in blocks)

    def commits(self, output: int = 0) -> list[Any]:
        return self.app.state.read(
            "SELECT number, range_start, range_end, replaced_at FROM commits"
            " WHERE dataset_version = %(v)s ORDER BY number",
            {"v": self.versions()[output].dataset_version},
        )

    def cursor(self) -> dict[str, Any]:
        (row,) = self.app.data.read("SELECT value FROM trace.cursors", {})
        found: dict[str, Any] = row.value["follow"]
        return found


def nothing(*_: Any) -> Any:
    raise AssertionError("not in these tests")


def row_hash(rows: list[tuple[Any, ...]]) -> str:
    """The same for the same rows in any order."""
    lines = sorted(repr([_plain(value) for value in row]) for row in rows)
    return f"{len(lines)}:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def _plain(value: Any) -> str | None:
    if value is None:
        return None
    # One instant and one number have one spelling, whoever says them.
    return str(value.timestamp()) if hasattr(value, "timestamp") else str(value)


def clean_build(url: str, start: int = 0) -> Hashes:
    """The rows of the chain as it is, read once from its node."""
    with Rpc(url) as rpc:
        reader = BlockReader(rpc)
        blocks = list(reader.blocks(start, reader.heads().latest.number))
    found = {}
    for name, table in zip(NAMES, tables_of(blocks), strict=True):
        columns = [column.to_pylist() for column in table.columns]
        found[name] = row_hash(list(zip(*columns, strict=True)))
    return found
