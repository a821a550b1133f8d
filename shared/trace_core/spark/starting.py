"""The rows of the outbox that start and end runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import (
    Conflict,
    Denied,
    Invalid,
    NotFound,
    Rejected,
    TraceError,
)
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.outbox.store import OutboxRow
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.spark_runner import RunRequest, SparkRunner
from trace_core.ports.waker import Function, Waker
from trace_core.spark.inputs import RunInputs, scope_of
from trace_core.spark.model import RunStep, SparkRun
from trace_core.spark.payloads import RunPayloads
from trace_core.spark.store import RunStore
from trace_core.spark.wire import SparkColumn, SparkOutput, SparkPayload

logger = logging.getLogger(__name__)
_VERSION_PARTS = 6
"""Of a key, that name a dataset version: see `version_prefix`."""


class Starts:
    """Everything here may happen twice: a run is named by its client token, and its payload is
    written once."""

    def __init__(
        self,
        state: StateDatabase,
        store: RunStore,
        runner: SparkRunner,
        payloads: RunPayloads,
        inputs: RunInputs,
        objects: ObjectStore,
        catalog: Catalog,
        ids: Ids,
        waker: Waker,
        address: Callable[[str], str],
    ) -> None:
        self._state = state
        self._store = store
        self._runner = runner
        self._payloads = payloads
        self._inputs = inputs
        self._objects = objects
        self._catalog = catalog
        self._ids = ids
        self._waker = waker
        self._address = address

    def start(self, _org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        """Of `spark_start`."""
        for row in rows:
            run = self._store.open_run(TaskId(UUID(row.target)))
            if run is not None and run.run_id is None and run.ended_at is None:
                self._start(run)

    def cancel(self, _org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        """Of `spark_cancel`. One that has no id yet is ended by whoever looks at it."""
        for row in rows:
            run = self._store.open_run(TaskId(UUID(row.target)))
            if run is not None and run.run_id is not None and run.cancel_requested_at is not None:
                self._cancel(run.run_id)
        self._waker.wake(Function.DISPATCHER)

    def _start(self, run: SparkRun) -> None:
        if run.cancel_requested_at is not None and run.start_tries == 0:
            self._store.never_began(run, RunStep.CANCELLED, "", refused=False)
            return
        try:
            request = self._request(run)
        except Rejected as error:
            self._refuse(run, error)
            return
        begun = self._store.begin_start(run)
        if begun is None:
            return
        self._state.crash_points("spark_start:before")
        try:
            run_id = self._runner.start(request)
        except Rejected as error:
            self._refuse(run, error)
            return
        except Denied as error:
            if begun.start_tries > 1:
                # An earlier call may have begun it: only its answer can tell.
                raise
            self._refuse(run, error)
            return
        self._state.crash_points("spark_start:after")
        self._store.keep_run_id(run, run_id)
        logger.info("%s is %s", run, run_id)
        if begun.cancel_requested_at is not None:
            self._cancel(run_id)
        self._waker.wake(Function.DISPATCHER)

    def _refuse(self, run: SparkRun, error: TraceError) -> None:
        detail = f"{error.code}: {error.message}"
        logger.warning("%s is refused: %s", run, error.code)
        self._store.never_began(run, RunStep.REFUSED, detail, refused=True)
        self._waker.wake(Function.DISPATCHER)

    def _cancel(self, run_id: str) -> None:
        self._state.crash_points("spark_cancel:before")
        try:
            self._runner.cancel(run_id)
        except NotFound:
            logger.info("run %s is not known any more", run_id)
        self._state.crash_points("spark_cancel:after")

    def _request(self, run: SparkRun) -> RunRequest:
        folder = run.folder
        fields = self._written_payload(run)
        return RunRequest(
            client_token=run.client_token,
            name=f"{fields['dag']}.{fields['job']}"[:256],
            payload_uri=self._address(folder.payload),
            read_prefixes=[folder.given, *self._read_prefixes(fields, folder.given)],
            write_prefixes=[folder.left],
            timeout_seconds=run.timeout_seconds,
            queue_seconds=int(limits.SPARK_QUEUE.total_seconds()),
            tags={"org": str(run.org_id), "task": str(run.task_id), "attempt": str(run.attempt)},
        )

    def _written_payload(self, run: SparkRun) -> Mapping[str, Any]:
        """The payload of this run, which is written once: whoever comes later takes that one."""
        key = run.folder.payload
        try:
            return self._read(key)
        except NotFound:
            pass
        fields = self._payload(run)
        self._state.crash_points("spark_start:exported")
        try:
            self._objects.create(key, json.dumps(fields, ensure_ascii=False).encode())
        except Conflict:
            # Somebody else exported as well, and was faster.
            return self._read(key)
        return fields

    def _read(self, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._objects.read(key))
        return found

    def _payload(self, run: SparkRun) -> Mapping[str, Any]:
        payload = self._payloads.of(run)
        folder = run.folder
        index = (payload["trigger"] or {}).get("input_index")
        spec = self._spec(payload["operator"])
        return SparkPayload(
            task_id=str(run.task_id),
            attempt=run.attempt,
            dag=payload["job"]["dag_name"],
            job=payload["job"]["name"],
            operator=payload["operator"],
            implementation=spec.implementation or "",
            config=payload["config"],
            now=run.prepared_at.isoformat(),
            scope=scope_of(payload),
            trigger=next(
                (each["alias"] for each in payload["inputs"] if each["input_index"] == index), None
            ),
            inputs=self._inputs.prepare(
                payload, folder.exports(self._ids.uuid()), spec.reads_before
            ),
            outputs=tuple(
                SparkOutput(
                    each["output_index"],
                    self._address(folder.output(each["output_index"])),
                    tuple(
                        SparkColumn(column["name"], column["type"])
                        for column in each["columns"] or ()
                    ),
                    each["update_strategy"],
                    tuple(each["unique_key"]),
                )
                for each in payload["outputs"]
            ),
            result_uri=self._address(folder.result),
            triggers=tuple(
                dict.fromkeys(each["alias"] for each in payload["inputs"] if each["triggers"])
            ),
        ).fields()

    def _read_prefixes(self, fields: Mapping[str, Any], given: str) -> list[str]:
        """Of the dataset versions whose objects the payload names."""
        uris = [
            each["uri"]
            for one in fields["inputs"]
            for part in one["parts"]
            for each in part["objects"]
        ]
        keys = [uri.removeprefix(self._address("")) for uri in uris]
        prefixes = [
            "/".join(key.split("/")[:_VERSION_PARTS]) + "/"
            for key in keys
            if not key.startswith(given)
        ]
        return list(dict.fromkeys(prefixes))

    def _spec(self, operator: str) -> OperatorSpec:
        spec = self._catalog.get(operator)
        if spec is None or spec.implementation is None:
            raise Invalid(
                f"Operator {operator} is not installed here: name its module in"
                " TRACE_OPERATOR_MODULES.",
                operator=operator,
            )
        return spec
