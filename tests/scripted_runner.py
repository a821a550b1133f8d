"""A double of the port `SparkRunner`: the test says what becomes of each run."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.manual_clock import ManualClock
from trace_core.kernel.errors import NotFound
from trace_core.kernel.scopes import Scope
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.spark_runner import RunRequest, RunState, RunStatus, Usage
from trace_core.spark.wire import (
    LOG_NAME,
    SparkColumn,
    SparkFailure,
    SparkInvalidation,
    SparkPayload,
    SparkResult,
    SparkWritten,
)

COLUMNS = {"number": "bigint", "name": "text"}


@dataclass
class Played:
    request: RunRequest
    state: RunState = RunState.SUBMITTED
    started_at: datetime | None = None
    ended_at: datetime | None = None
    detail: str = ""
    cancels: int = 0


@dataclass
class ScriptedRunner:
    """Tokens are remembered as the service does: the same token is the same run."""

    clock: ManualClock
    objects: ObjectStore
    root: str
    places: int = 10
    runs: dict[str, Played] = field(default_factory=dict)
    started: list[RunRequest] = field(default_factory=list)
    """Every call, repeated ones as well."""
    errors: list[Exception] = field(default_factory=list)
    """Raised by the next calls of `start`, before the run begins."""
    lost_answers: list[Exception] = field(default_factory=list)
    """The same, after it began."""

    def room(self) -> int:
        return self.places - sum(not each.state.has_ended for each in self.runs.values())

    def start(self, request: RunRequest) -> str:
        self.started.append(request)
        if self.errors:
            raise self.errors.pop(0)
        run_id = f"run-{request.client_token}"
        self.runs.setdefault(run_id, Played(request))
        if self.lost_answers:
            raise self.lost_answers.pop(0)
        return run_id

    def status(self, run_id: str) -> RunStatus:
        run = self.runs.get(run_id)
        if run is None:
            raise NotFound
        usage = Usage(0.5, 2.0, 20.0) if run.state.has_ended else None
        return RunStatus(
            run_id, run.state, run.detail, None, run.started_at, run.ended_at, 3.0, usage
        )

    def cancel(self, run_id: str) -> None:
        run = self.runs[run_id]
        run.cancels += 1
        if not run.state.has_ended:
            run.state = RunState.CANCELLING

    # What the test says -------------------------------------------------------------------------

    @property
    def last(self) -> str:
        return list(self.runs)[-1]

    def under_way(self) -> list[str]:
        return [run_id for run_id, run in self.runs.items() if not run.state.has_ended]

    def run(self, run_id: str | None = None) -> Played:
        return self.runs[run_id or self.last]

    def move(self, state: RunState, run_id: str | None = None, detail: str = "") -> None:
        run = self.run(run_id)
        run.state, run.detail = state, detail
        if state is RunState.RUNNING:
            run.started_at = self.clock.now()
        if state.has_ended:
            run.ended_at = self.clock.now()

    def payload(self, run_id: str | None = None) -> SparkPayload:
        key = self._key(self.run(run_id).request.payload_uri)
        return SparkPayload.parse(json.loads(self.objects.read(key)))

    def rows_given(self, alias: str, run_id: str | None = None) -> list[dict[str, Any]]:
        """Of objects that are read whole."""
        (given,) = (each for each in self.payload(run_id).inputs if each.alias == alias)
        found: list[dict[str, Any]] = []
        for part in given.parts:
            for each in part.objects:
                assert each.keep is None
                data = self.objects.read(self._key(each.uri))
                found += pq.read_table(io.BytesIO(data)).to_pylist()
        return found

    def write(
        self,
        rows: Sequence[Mapping[str, Any]] = (),
        *,
        run_id: str | None = None,
        scope: Scope | None = None,
        failure: SparkFailure | None = None,
        invalidations: Sequence[SparkInvalidation] = (),
        objects: Sequence[str] | None = None,
        columns: Mapping[str, str] = COLUMNS,
        cursor_column: str | None = None,
        log: str = "",
    ) -> SparkResult:
        """What the operator would leave: one object with the rows, and the result."""
        payload = self.payload(run_id)
        written: tuple[SparkWritten, ...] = ()
        if failure is None:
            schema = pa.schema([("number", pa.int64()), ("name", pa.string())])
            target = io.BytesIO()
            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), target)
            self.objects.replace(
                f"{self._key(payload.outputs[0].uri)}part-0.parquet", target.getvalue()
            )
            listed = ("part-0.parquet",) if objects is None else tuple(objects)
            kinds = tuple(SparkColumn(name, kind) for name, kind in columns.items())
            written = (
                SparkWritten(0, scope or payload.scope, listed, kinds, cursor_column=cursor_column),
            )
        result = SparkResult(
            payload.task_id, payload.attempt, written, (), tuple(invalidations), failure
        )
        key = self._key(payload.result_uri)
        self.objects.replace(key, json.dumps(result.fields()).encode())
        if log:
            self.objects.replace(f"{key.rpartition('/')[0]}/{LOG_NAME}", log.encode())
        return result

    def succeed(self, rows: Sequence[Mapping[str, Any]] = (), **more: Any) -> None:
        self.write(rows, **more)
        self.move(RunState.SUCCESS, more.get("run_id"))

    def _key(self, uri: str) -> str:
        return uri.removeprefix(self.root)
