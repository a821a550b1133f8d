"""A run found a scope of an input bad: whoever reads it is told, and its producer writes it again.

Bounded, so that a check that always fails ends: the same scope is declared again only after
something of it was written anew, and three times at most.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from trace_core.database.arrays import Bigints, Uuids
from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase, Transaction, as_json
from trace_core.kernel import limits
from trace_core.kernel.errors import TraceError
from trace_core.kernel.ids import Ids
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.registry.commit_rows import commit_of
from trace_core.registry.commits import lock_versions
from trace_core.spark.model import SparkRun
from trace_core.spark.wire import SparkInvalidation, SparkResult
from trace_core.storage.model import Backend, meets
from trace_core.tasks.announcements import Origin
from trace_core.tasks.invalidations import declare_invalid
from trace_core.tasks.statements import SQL as TASKS
from trace_core.worker.outcome import storable

SQL = Statements("trace_core.spark", "repair.sql")
logger = logging.getLogger(__name__)
_REASON_MAX = 1000


class Repairs:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        understands: Callable[[str, Mapping[str, Any]], bool],
    ) -> None:
        """`understands` says whether the operator of a source takes such a request."""
        self._understands = understands
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker

    def __call__(self, run: SparkRun, payload: Mapping[str, Any], result: SparkResult) -> None:
        """Each report once, however often this is called for the same run."""
        for number, said in enumerate(result.invalidations):
            found = replace(said, reason=storable(said.reason)[:_REASON_MAX])
            inputs = [
                each
                for each in payload["inputs"]
                if each["alias"] == found.alias
                and each["dataset_version"] is not None
                and each["backend"] != Backend.CONTROL
            ]
            if not inputs:
                logger.warning("%s: there is no input %r to be written again", run, found.alias)
                continue
            self._declare(run, self.bad_part(inputs, found.scope), found, number)

    def bad_part(self, inputs: Sequence[Mapping[str, Any]], scope: Scope) -> Mapping[str, Any]:
        """Of several parts the coldest that holds something of the scope; what was taken from it by
        a hotter one is read there. Without any, the first: there is a gap, which is closed where
        the data come in."""
        found = inputs[0]
        for each in reversed(inputs):
            params = {"dataset_version": UUID(each["dataset_version"]), **_bounds(scope)}
            commits = map(commit_of, self._state.read(SQL["holds_scope"], params))
            if any(meets(each, scope) for each in commits):
                found = each
                break
        return found

    def _declare(
        self, run: SparkRun, given: Mapping[str, Any], found: SparkInvalidation, number: int
    ) -> None:
        version = UUID(given["dataset_version"])
        params = {
            "dataset_version": version,
            "dataset_uuid": UUID(given["dataset_uuid"]),
            "client_key": f"spark/{run.task_id}/{run.attempt}/{number}",
            **_bounds(found.scope),
        }
        with self._state.transaction("declare_bad_scope") as tx:
            producer = tx.one(SQL["producer"], params)
            if producer is None:
                # Another version is current by now: this one is read no more.
                return
            source = producer.activation == "source"
            if source:
                # Before any counter, as everybody locks them who needs both.
                tx.one(TASKS["lock_source"], {"job_id": producer.job_id})
            versions = lock_versions(tx, [version])
            if self._is_enough(tx, params):
                logger.warning("%s: %s was declared bad before", run, found.scope.key or "all")
                return
            now = self._clock.now()
            declare_invalid(
                tx, self._ids, run.org_id, versions[version], found.scope, found.reason,
                Origin("task", client_key=params["client_key"]), now,
            )  # fmt: skip
            if source:
                self._ask(tx, producer, found)
            else:
                self._redo(tx, run, producer, params)
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)

    def _is_enough(self, tx: Transaction, params: Mapping[str, Any]) -> bool:
        before = tx.one(SQL["told_before"], params)
        if before is None or not before.times:
            return False
        if before.repeated or before.times >= limits.TASK_INVALIDATIONS_MAX:
            return True
        return tx.one(SQL["written_since"], {**params, "since": before.last_at}) is None

    def _ask(self, tx: Transaction, producer: Row, found: SparkInvalidation) -> None:
        start, end = found.scope.range or (None, None)
        request = {"repair": {"start": start, "end": end, "reason": found.reason}}
        if not self._is_understood(producer.operator, request):
            # It would stay open, and wake the source for nothing, for ever.
            logger.warning(
                "operator %s takes no repairs: write %s again by hand",
                *(producer.operator, found.scope.key or "all"),
            )
            return
        tx.one(
            SQL["ask_source"],
            {
                "trigger_id": self._ids.uuid(),
                "org_id": producer.org_id,
                "job_id": producer.job_id,
                "request": as_json(request),
                "now": self._clock.now(),
            },
        )

    def _is_understood(self, operator: str, request: Mapping[str, Any]) -> bool:
        try:
            return self._understands(operator, request)
        except TraceError as error:
            logger.warning("operator %s refuses a repair: %s", operator, error.message)
            return False

    def _redo(
        self, tx: Transaction, run: SparkRun, producer: Row, params: Mapping[str, Any]
    ) -> None:
        scopes = tx.all(
            SQL["announcements_of_scope"],
            {**params, "job_id": producer.job_id, "limit": limits.REPAIR_TASKS_MAX},
        )
        if not scopes:
            logger.warning("%s: nothing that triggers the producer meets the bad scope", run)
            return
        route = int(producer.route, 16)
        ids = [UUID(int=each.int | route) for each in self._ids.event_ids(len(scopes))]
        tx.one(
            SQL["make_repair_tasks"],
            {
                "org_id": producer.org_id,
                "job_id": producer.job_id,
                "priority": producer.priority,
                "runtime": producer.runtime,
                "checked_by": run.task_id,
                "task_ids": Uuids(ids),
                "versions": Uuids([each.dataset_version for each in scopes]),
                "scopes": [each.scope for each in scopes],
                "starts": Bigints([each.range_start for each in scopes]),
                "ends": Bigints([each.range_end for each in scopes]),
                "revisions": Bigints([each.revision for each in scopes]),
                "outbox_id": self._ids.uuid(),
                "wake_fanout": limits.WAKE_FANOUT,
                "now": self._clock.now(),
            },
        )


def _bounds(scope: Scope) -> dict[str, Any]:
    start, end = scope.range or (None, None)
    return {"scope": scope.key, "range_start": start, "range_end": end}
