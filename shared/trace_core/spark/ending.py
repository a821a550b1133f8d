"""What follows from the end of a run: its attempt completes, fails or is canceled, under its fence.

All of it may happen twice, and may stop anywhere: the row of the run stays open until it is done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from trace_core.database.state import Row, StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import (
    Conflict,
    NotFound,
    OutcomeDiffers,
    Rejected,
    StaleAttempt,
    Superseded,
    TaskCanceled,
    Unavailable,
)
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.spark_runner import RunState
from trace_core.ports.waker import Function, Waker
from trace_core.spark.leftovers import Leftovers
from trace_core.spark.model import CancelReason, RunStep, SparkRun
from trace_core.spark.outputs import ResultInvalid, RunOutputs
from trace_core.spark.payloads import RunPayloads
from trace_core.spark.store import RunStore
from trace_core.spark.wire import SparkResult
from trace_core.tasks.api import Completion
from trace_core.tasks.complete import Completions
from trace_core.worker.outcome import storable

logger = logging.getLogger(__name__)
RESULT_MAX = 16 * 1024 * 1024

Fields = dict[str, Any]
Invalidate = Callable[[SparkRun, Fields, SparkResult], None]
"""What a completed run said about its inputs."""


class Endings:
    def __init__(
        self,
        state: StateDatabase,
        store: RunStore,
        payloads: RunPayloads,
        outputs: RunOutputs,
        completions: Completions,
        objects: ObjectStore,
        invalidate: Invalidate,
        waker: Waker,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        self._state = state
        self._store = store
        self._payloads = payloads
        self._outputs = outputs
        self._completions = completions
        self._objects = objects
        self._invalidate = invalidate
        self._leftovers = Leftovers(objects)
        self._waker = waker
        self._timings = timings

    def end(self, run: SparkRun) -> SparkRun:
        """Answers the run as it is then; raises when it must be tried again."""
        # Before the try: whoever dies of it, for lack of memory or time, has tried as well.
        tries = self._store.count_end_try(run)
        if not tries:
            # Somebody else has done all of it.
            return self._store.run(run) or run
        if tries <= limits.SPARK_END_TRIES:
            try:
                self._end(run)
            except Exception:
                if tries < limits.SPARK_END_TRIES:
                    raise
                logger.exception("%s: its end is given up", run)
                self._give_up(run)
        else:
            logger.error("%s: nobody lived to take over its end, which is given up", run)
            self._give_up(run)
        # Nobody looks at the run once it is closed. Here its attempt is over, and needs no rows.
        self._leftovers.tidy(run)
        self._store.close(run)
        # There is room for another one.
        self._waker.wake(Function.OUTBOX_RELAY)
        return self._store.run(run) or run

    def _end(self, run: SparkRun) -> None:
        lease = self._lease(run)
        if lease is not None:
            fields = self._fields(run, lease)
            if fields is None:
                return
            self._state.crash_points("spark_end:before_report")
            self._leftovers.keep_log(run, fields)
            self._report(run, lease, fields)
            self._state.crash_points("spark_end:reported")
        if run.state == RunState.SUCCESS and self._store.outcome(run) == "Completed":
            result = self._result(run)
            if result.invalidations:
                self._invalidate(run, self._payloads.of(run), result)

    def _lease(self, run: SparkRun) -> Row | None:
        """The attempt's own lease. A run that ended before its exchange was seen has begun, and
        counts; so does one that never began."""
        lease = self._store.lease(run)
        if lease is not None and lease.started_at is None:
            self._store.exchange(run, self._timings.lease)
            lease = self._store.lease(run)
        if lease is None or lease.started_at is None:
            return None
        if (lease.attempt, lease.lease_sequence) != (run.attempt, run.lease_sequence):
            return None
        return lease

    def _fields(self, run: SparkRun, lease: Row) -> Fields | None:
        """A completion without its fence; None leaves the lease to the reaper, for lack of time."""
        if lease.canceled_at is not None:
            return {"status": "Canceled"}
        if run.state != RunState.SUCCESS:
            return None if run.ran_too_long and run.started_at else self._failure(run)
        try:
            result = self._result(run)
            if result.failure is not None:
                return _failed(
                    result.failure.code, result.failure.message, result.failure.retryable
                )
            fields = self._outputs.report(run, self._payloads.of(run, lease), result)
            self._state.crash_points("spark_end:written")
            return fields
        except NotFound as error:
            return _failed("ResultMissing", f"The run left no result: {error.message}", True)
        except Superseded:
            return {"status": "Superseded"}
        except StaleAttempt:
            # A later attempt writes: this one has nothing to say.
            return None
        except (Rejected, Conflict) as error:
            return _failed(error.code, error.message, isinstance(error, Conflict))

    def _failure(self, run: SparkRun) -> Fields:
        """Why it did not succeed: in the operator's own words, or in those of the service."""
        detail = run.detail or ""
        if run.cancel_reason == CancelReason.QUEUE_TIMED_OUT:
            hours = limits.SPARK_QUEUE.total_seconds() / 3600
            return _failed(
                "QueueTimedOut", f"The run did not begin within {hours:g} hours. {detail}", True
            )
        if run.state == RunStep.REFUSED:
            return _failed("RunRefused", detail, detail.startswith("Denied"))
        if run.state == RunStep.LOST:
            return _failed("RunLost", f"The service does not know the run any more. {detail}", True)
        try:
            told = self._result(run).failure
        except (Rejected, Conflict):
            told = None
        if told is not None:
            return _failed(told.code, told.message, told.retryable)
        if run.state == RunState.CANCELLED:
            return _failed("RunCanceled", f"The run was canceled from outside. {detail}", True)
        return _failed("RunFailed", detail or "The run ended without a result.", True)

    def _result(self, run: SparkRun) -> SparkResult:
        key = run.folder.result
        if self._objects.head(key).size > RESULT_MAX:
            raise ResultInvalid(f"The result has more than {RESULT_MAX} bytes: write fewer scopes.")
        try:
            result = SparkResult.parse(json.loads(self._objects.read(key)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ResultInvalid(f"The result cannot be read: {error}.") from error
        if (result.task_id, result.attempt) != (str(run.task_id), run.attempt):
            raise ResultInvalid("The result is one of another attempt.")
        return result

    def _report(self, run: SparkRun, lease: Row, fields: Fields) -> None:
        fence = {
            "task_id": str(run.task_id),
            "attempt": run.attempt,
            "lease_token": str(lease.lease_token),
        }
        try:
            completion = Completion.model_validate_json(json.dumps({**fields, **fence}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            told = _failed(
                "ResultInvalid", f"The result is refused: {where}: {first['msg']}", False
            )
            completion = Completion.model_validate({**told, **fence})
        (answer,) = self._completions.complete(run.org_id, [completion])
        refusal = answer.error
        if refusal is None or isinstance(refusal, StaleAttempt | OutcomeDiffers):
            # The attempt is over; if that was not by this report, then by an earlier one.
            return
        if isinstance(refusal, Unavailable):
            raise refusal
        if isinstance(refusal, TaskCanceled):
            self._report(run, lease, {"status": "Canceled"})
        elif isinstance(refusal, Superseded):
            self._report(run, lease, {"status": "Superseded"})
        elif fields["status"] == "Completed":
            self._report(
                run,
                lease,
                _failed(refusal.code, refusal.message, not isinstance(refusal, Rejected)),
            )
        else:
            raise refusal

    def _give_up(self, run: SparkRun) -> None:
        lease = self._lease(run)
        if lease is not None:
            self._report(
                run, lease,
                _failed("ResultNotTaken", "The result of the run could not be taken over.", True)
                if lease.canceled_at is None
                else {"status": "Canceled"},
            )  # fmt: skip


def _failed(code: str, message: str, retryable: bool) -> Fields:
    return {
        "status": "Failed",
        "error_code": storable(code)[:100],
        "error_message": storable(message).strip()[: limits.ERROR_MESSAGE_MAX],
        "retryable": retryable,
    }
