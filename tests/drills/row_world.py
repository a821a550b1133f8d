"""A DAG with rows in both layouts, played by the test: a source, what it feeds, and an edit of it.

follow (source, S3) -> facts (S3) -> sums (Postgres)

What `facts` and `sums` write depends on the rows that they read at their pins and on the code of
`facts`, and on nothing else. `expected` says the same in plain Python, without any of our code.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import SecretStr

from trace_core.bootstrap import App
from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.model import Activation, Column, Runtime, Storage
from trace_core.identity.model import SYSTEM
from trace_core.kernel.scopes import Scope
from trace_core.operators.configs import OperatorConfig
from trace_core.ports.row_store import RowsFile
from trace_core.ports.waker import Function
from trace_core.settings import Settings
from trace_core.storage.model import Pin
from trace_core.tasks.api import Completion, InputRequest
from trace_core.tasks.claim import Claimed
from trace_core.worker.attempt import Attempt
from trace_core.worker.outcome import Outcome
from trace_core.worker.rows import AttemptRows, RowAccess

DAG = """
version: 1
name: pair
jobs:
  - {{name: follow, activation: source, runtime: worker, operator: drill_follow,
     source: {{kind: always_on}}, outputs: 1, update_strategy: replace}}
  - {{name: facts, activation: reactive, runtime: worker, operator: drill_facts,
     execution_strategy: PerUpdate, inputs: [{{from: {{job: follow, output: 0}}, as: blocks}}],
     outputs: 1, update_strategy: replace, config: {{code: {code}}}}}
  - {{name: sums, activation: reactive, runtime: worker, operator: drill_sums,
     execution_strategy: PerUpdate, inputs: [{{from: {{job: facts, output: 0}}, as: facts}}],
     outputs: 1, update_strategy: replace}}
publish:
  facts: {{from: {{job: facts, output: 0}}}}
  sums: {{from: {{job: sums, output: 0}}}}
checks:
  sums:
    - {{kind: unique, columns: [number]}}
    - {{kind: not_null, columns: [digest]}}
"""


class NoConfig(OperatorConfig):
    """Nothing to set."""


class FactsConfig(OperatorConfig):
    code: int = 1


def _spec(name: str, config: type[OperatorConfig], storage: Storage, *columns: Column) -> Any:
    return OperatorSpec(
        name=name,
        code_version="1",
        activations=frozenset(Activation),
        runtimes=frozenset({Runtime.WORKER}),
        config=config,
        description="Played by the drill.",
        storage=storage,
        columns=(columns,) if columns else (),
    )


CATALOG = Catalog(
    _spec("drill_follow", NoConfig, Storage.S3),
    _spec("drill_facts", FactsConfig, Storage.S3),
    _spec(
        "drill_sums",
        NoConfig,
        Storage.POSTGRES,
        Column("number", "bigint"),
        Column("code", "bigint"),
        Column("digest", "text"),
    ),
)


class Silent:
    def wake(self, function: Function) -> None:
        """The drill looks for work by itself."""


def fact_rows(number: int, hash_: str, code: int) -> list[dict[str, Any]]:
    return [
        {"number": number, "part": part, "code": code, "fact": f"{code}:{number}:{part}:{hash_}"}
        for part in range(2)
    ]


def sum_row(facts: list[dict[str, Any]]) -> dict[str, Any]:
    text = "|".join(sorted(row["fact"] for row in facts))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"number": facts[0]["number"], "code": facts[0]["code"], "digest": digest}


def expected(blocks: dict[int, str], code: int) -> tuple[Counter[str], Counter[str]]:
    """Rows of facts and of sums, for this content of the source: no rebuild, no replay, no SQL."""
    facts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for number, hash_ in blocks.items():
        made = fact_rows(number, hash_, code)
        facts.update(repr(sorted(row.items())) for row in made)
        sums[repr(sorted(sum_row(made).items()))] += 1
    return facts, sums


class RowWorld:
    def __init__(self, state_dsn: str, data_dsn: str, folder: Path) -> None:
        self.app = App(
            Settings(
                home=folder / "home",
                state_dsn=SecretStr(state_dsn),
                data_dsn=SecretStr(data_dsn),
                state_connections=60,
            ),
            catalog=CATALOG,
            waker=Silent(),
        )
        self.org = self.app.orgs.ensure_org("drill")
        self._folder = folder
        self._files = 0
        self.blocks: dict[int, str] = {}
        """What the source has said last of each number."""
        self.ran: Counter[str] = Counter()

    def close(self) -> None:
        self.app.close()

    def deploy(self, code: int) -> Any:
        return self.app.deploys.deploy(self.org, DAG.format(code=code), "pair.yaml", SYSTEM)

    def rollback(self, version: int | None = None) -> Any:
        return self.app.deploys.rollback(self.org, "pair", SYSTEM, version=version)

    # Work ----------------------------------------------------------------------------------------

    def announce(self, blocks: dict[int, str]) -> None:
        """One slice of the source, which commits these blocks and yields."""
        source = self._claim_source()
        payload = self.app.payloads.build([source])[0]
        files = [
            self._file(Scope(cursor=number), [{"number": number, "hash": hash_}])
            for number, hash_ in blocks.items()
        ]
        store = self.app.row_store
        stored = store.store(payload, store.begin(payload), files, {})
        outputs = [
            self._output(payload, each.scope, each.row_count, location=each.manifest_key)
            for each in stored
        ]
        self._report(source, "Yielded", outputs=outputs)
        self.blocks.update(blocks)
        for file in files:
            file.path.unlink()

    def _claim_source(self) -> Claimed:
        """Slices rest for no time at all, but behind other work: ask for it by its id."""
        task = self.app.state.read(
            "SELECT t.task_id FROM tasks t JOIN jobs j USING (job_id)"
            " WHERE j.activation = 'source' AND j.org_id = %(org)s",
            {"org": self.org},
        )[0]
        (claim,) = self.app.claims.claim_ids(self.org, [task.task_id], "source")
        assert isinstance(claim, Claimed), claim
        return claim

    def work(self, limit: int = 50) -> int:
        """Claim and run what is ready, but for the source, which is handed back."""
        ran = 0
        for claim in self.app.claims.claim(self.org, Runtime.WORKER, limit, "worker"):
            if claim.trigger is None:
                self._report(claim, "Yielded")
                continue
            self.run(claim)
            ran += 1
        return ran

    def run(self, claim: Claimed) -> str:
        payload = self.app.payloads.build([claim])[0]
        answer = {"attempt": claim.attempt, "lease_token": str(claim.lease_token), "task": payload}
        attempt = Attempt.of(answer)
        scratch = self._folder / f"scratch-{claim.task_id}-{claim.lease_sequence}"
        scratch.mkdir()
        try:
            return self._run(claim, payload, attempt, scratch)
        finally:
            shutil.rmtree(scratch)

    def _run(self, claim: Claimed, payload: Any, attempt: Attempt, scratch: Path) -> str:
        assert claim.trigger is not None
        scope = claim.trigger.scope
        rows = AttemptRows(attempt, RowAccess(lambda: self.app.row_store, self._resolve))
        name = payload["job"]["name"]
        self.ran[name] += 1
        done = rows.begin()
        if done is not None:
            return self._report(claim, done.fields["status"], outputs=done.fields["outputs"])
        alias = payload["inputs"][0]["alias"]
        answer = rows.answer({"alias": alias, "scope": scope.fields()}, scratch)
        with pa.ipc.open_file(answer["path"]) as file:
            read = file.read_all().to_pylist()
        if name == "facts":
            code = payload["config"]["code"]
            left = [r for b in read for r in fact_rows(b["number"], b["hash"], code)]
        else:
            left = [sum_row(read)] if read else []
        made = self._file(scope, left)
        shutil.move(made.path, scratch / made.path.name)
        left_rows = {
            "output_index": 0, "scope": scope.fields(), "file": made.path.name,
            "cursor_column": None, "name": name,
        }  # fmt: skip
        outcome = rows.keep(
            Outcome({"status": "Completed", "events": [], "outputs": []}, rows=(left_rows,)),
            scratch,
        )
        fields = dict(outcome.fields)
        return self._report(claim, fields.pop("status"), **fields)

    def _resolve(self, attempt: Attempt, wanted: Any) -> Any:
        request = InputRequest.model_validate({**attempt.fence, **wanted})
        return self.app.task_inputs.resolve(self.org, request)

    def _file(self, scope: Scope, rows: list[dict[str, Any]]) -> RowsFile:
        self._files += 1
        path = self._folder / f"rows-{self._files}.arrow"
        table = pa.Table.from_pylist(rows) if rows else _EMPTY_SUMS
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return RowsFile(0, scope, path)

    def _output(self, payload: Any, scope: Scope, rows: int, **fields: Any) -> dict[str, Any]:
        output = payload["outputs"][0]
        identity = {name: output[name] for name in ("dataset_uuid", "dataset_version")}
        return {"output_index": 0, **identity, **scope.fields(), "row_count": rows, **fields}

    def _report(self, claim: Claimed, status: str, **fields: Any) -> str:
        fence = claim.fence
        body = Completion.model_validate(
            {
                "task_id": fence.task_id,
                "attempt": fence.attempt,
                "lease_token": fence.lease_token,
                "status": status,
                **fields,
            }
        )
        (result,) = self.app.completions.complete(self.org, [body])
        if result.error is not None and result.error.code != "TaskCanceled":
            raise result.error
        return result.status or "refused"

    def settle(self, passes: int = 2000) -> None:
        """Until nothing is left to do, and no deploy is under way."""
        idle = 0
        for _ in range(passes):
            report = self.app.builds.run_once()
            ran = self.work()
            idle = 0 if ran or report.did_something else idle + 1
            if idle > 3:
                return
        raise AssertionError("it never settles")

    def expire(self) -> None:
        """As if so much time had passed that leases are over and retries are due."""
        self.app.state.write(
            "test",
            "UPDATE leases SET lease_expires_at = %(past)s, deadline_at = %(past)s",
            {"past": self.app.clock.now()},
        )
        self.app.reaper.run_once()
        now = {"now": self.app.clock.now()}
        self.app.state.write("test", "UPDATE delayed SET due_at = %(now)s", now)
        self.app.dispatcher.run_once()

    def open_work(self) -> dict[str, int]:
        """What should be over by now and is not; the source's own task may wait."""
        row = self.app.state.read(
            "SELECT (SELECT count(*) FROM ready r JOIN jobs j USING (job_id)"
            "         WHERE j.activation <> 'source') AS ready,"
            "       (SELECT count(*) FROM leases) AS leases,"
            "       (SELECT count(*) FROM gaps g JOIN jobs j USING (job_id)"
            "         WHERE j.standing <> 'retired') AS gaps,"
            "       (SELECT count(*) FROM deploys WHERE ended_at IS NULL) AS deploys,"
            "       (SELECT count(*) FROM candidate_inputs) AS candidates",
            {},
        )[0]
        return {name: count for name, count in row._asdict().items() if count}

    # What is there -------------------------------------------------------------------------------

    def pins(self) -> tuple[Pin, Pin]:
        """Of both datasets, in one statement."""
        found = self.app.pin_resolver.current_pins(self.org, ["facts", "sums"])
        return found["facts"][0], found["sums"][0]

    def plain_rows(self) -> tuple[Counter[str], Counter[str]]:
        """The current rows by plain SQL and plain Parquet, without the pinned reader."""
        versions = {
            row.job_name: row.dataset_version
            for row in self.app.state.read(
                "SELECT d.job_name, c.dataset_version FROM dataset_current c"
                " JOIN datasets d USING (dataset_uuid) WHERE d.org_id = %(org)s",
                {"org": self.org},
            )
        }
        facts: Counter[str] = Counter()
        for row in self.app.state.read(
            "SELECT objects FROM commits WHERE dataset_version = %(v)s AND replaced_at IS NULL",
            {"v": versions["facts"]},
        ):
            for each in row.objects:
                data = io.BytesIO(self.app.objects.read(each["key"]))
                facts.update(repr(sorted(r.items())) for r in pq.read_table(data).to_pylist())
        return facts, Counter(
            repr(sorted(row._asdict().items())) for row in self._sums(versions["sums"])
        )

    def _sums(self, version: UUID) -> list[Any]:
        (table,) = self.app.data.read(
            "SELECT schemaname, tablename FROM pg_tables WHERE tablename = %(t)s",
            {"t": f"v_{version.hex}"},
        )
        return self.app.data.read(
            f"SELECT number, code, digest FROM {table.schemaname}.{table.tablename}"  # noqa: S608
            " WHERE _to IS NULL",
            {},
        )


_EMPTY_SUMS = pa.table(
    {"number": pa.array([], pa.int64()), "code": pa.array([], pa.int64()),
     "digest": pa.array([], pa.string())}
)  # fmt: skip
