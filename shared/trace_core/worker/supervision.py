"""Runs one attempt from secrets to log, wherever the operator runs, and says how it ended."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from trace_core.dag.catalog import Catalog
from trace_core.egress.gateway import EgressGateway, Opened
from trace_core.kernel.errors import Rejected, TraceError
from trace_core.kernel.ids import OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.secret_store import Namespace, SecretStore
from trace_core.worker.attempt import Attempt, Reason, RunControl
from trace_core.worker.capture import captured
from trace_core.worker.child import Ended, Finished, LeaseGone, TaskRows, Work, with_rows
from trace_core.worker.client import TaskApi
from trace_core.worker.execution import emitter, execute, fetcher, task_environment
from trace_core.worker.logs import BoundedLog, Logs, Redaction
from trace_core.worker.outcome import CANCELED, HANDED_BACK, Outcome, failed, failure, redacted
from trace_core.worker.rows import AttemptRows, RowAccess

logger = logging.getLogger(__name__)


class Execution(Protocol):
    """Runs an operator: a pool of children, or this process."""

    def run(self, work: Work, control: RunControl) -> Finished: ...


class InThisProcess:
    """For a function that is itself a sandbox of one task at a time."""

    def __init__(self, catalog: Catalog, task_api: TaskApi) -> None:
        self._catalog = catalog
        self._task_api = task_api

    def run(self, work: Work, control: RunControl) -> Finished:
        token = str(work.payload.get("capability_token") or "")
        log = BoundedLog(Redaction((*work.secrets, *work.kept)))
        with tempfile.TemporaryDirectory(prefix="trace-task-") as folder:
            scratch = Path(folder)
            with captured(log), task_environment(work.env, token, scratch):
                outcome = execute(
                    work.payload,
                    self._catalog,
                    env=work.env,
                    scratch=scratch,
                    now=work.now,
                    emit=emitter(self._task_api.with_token(token), work.payload),
                    fetch=fetcher(partial(_answer, work.rows, scratch)),
                    canceled=control.canceled,
                    secrets=work.secrets,
                )
            finished = Finished(Ended.DONE, outcome, log=log.content())
            return with_rows(work, finished, scratch, control)


def _answer(rows: TaskRows | None, scratch: Path, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    if rows is None:
        return {"error": "rows cannot be read here", "retryable": False}
    return rows.answer(asked, scratch)


class Supervisor:
    def __init__(
        self,
        execution: Execution,
        *,
        clock: Clock,
        secrets: SecretStore | None = None,
        logs: Logs | None = None,
        rows: RowAccess | None = None,
        egress: EgressGateway | None = None,
    ) -> None:
        self._execution = execution
        self._clock = clock
        self._secrets = secrets
        self._logs = logs
        self._rows = rows
        self._egress = egress or EgressGateway({})

    def run(self, attempt: Attempt, control: RunControl) -> Outcome | None:
        """How the attempt ended; None when its lease is lost and nobody wants to know."""
        rows = AttemptRows(attempt, self._rows)
        try:
            # Before anything else: whoever had the task before must be able to write no more.
            done = rows.begin()
            if done is not None:
                return done
            env, secrets = self._environment(attempt)
            with self._egress.opened(env, attempt.timeout) as opened:
                return self._run(attempt, control, rows, opened, secrets)
        except LeaseGone as gone:
            logger.warning("%s is no longer ours: %s", attempt, gone)
            return None
        except TraceError as error:
            retryable = not isinstance(error, Rejected)
            return failure(type(error).__name__, error.message, retryable)

    def _run(
        self,
        attempt: Attempt,
        control: RunControl,
        rows: AttemptRows,
        opened: Opened,
        secrets: Sequence[str],
    ) -> Outcome | None:
        token = attempt.payload.get("capability_token")
        # A key that the gateway has taken out of the environment goes no further, not even as a
        # word to be kept out of the log.
        given = set(opened.env.values())
        seen = [each for each in secrets if each in given]
        work = Work(
            payload=rows.payload,
            now=self._clock.now(),
            timeout=attempt.timeout,
            env=opened.env,
            secrets=[each for each in (*seen, *opened.tokens, token) if each],
            kept=[each for each in secrets if each not in given],
            rows=rows,
        )
        try:
            finished = self._execution.run(work, control)
        except Exception as error:
            # Ours, not the operator's, which ends as `finished`: a full disk, say.
            logger.exception("%s could not be run", attempt)
            finished = Finished(Ended.DONE, failed(error))
        outcome = judge(attempt, control, finished)
        if outcome is None:
            return None
        outcome = redacted(outcome, Redaction(work.kept).text)
        if self._logs:
            self._logs.write(attempt, finished.log, outcome)
        return with_usage(outcome, opened)

    def _environment(self, attempt: Attempt) -> tuple[dict[str, str], list[str]]:
        """What the slot gives, and the values among it that nobody may read in a log."""
        slot: Mapping[str, Any] = attempt.payload.get("slot") or {}
        names: Mapping[str, str] = slot.get("secrets") or {}
        values = {variable: self._secret(attempt, name) for variable, name in names.items()}
        return {**(slot.get("env") or {}), **values}, list(values.values())

    def _secret(self, attempt: Attempt, name: str) -> str:
        if self._secrets is None:
            raise Rejected(f"this runtime gives no secrets, and the slot names {name}")
        return self._secrets.get(OrgId(UUID(attempt.org_id)), Namespace.USER, name)


def judge(attempt: Attempt, control: RunControl, finished: Finished) -> Outcome | None:
    """What a run's end means for its attempt."""
    if control.reason is Reason.LEASE_LOST:
        return None
    if control.reason is Reason.CANCELED:
        return CANCELED
    match finished.how:
        case Ended.DONE if finished.outcome is not None:
            return finished.outcome
        case Ended.LEASE_GONE:
            return None
        case Ended.TIMED_OUT:
            return failure("TimedOut", f"killed after {attempt.timeout:g} s", retryable=True)
        case Ended.INTERRUPTED if attempt.is_source:
            # A slice that did nothing: the next one goes on from the same state.
            return HANDED_BACK
        case Ended.INTERRUPTED:
            return failure("WorkerStopped", "the worker stopped before the end", retryable=True)
    return failure("ChildDied", finished.reason, retryable=True)


def with_usage(outcome: Outcome, opened: Opened) -> Outcome:
    """The outcome with what it took of its upstreams, and whether one of them is to blame.

    Whoever ran may say so itself: a provider that lies has answered every request. Otherwise it is
    to blame if requests were given up, and the attempt failed or none was answered.
    """
    said = outcome.fields.get("egress") or {}
    usage = opened.usage
    if not usage.requests and not said:
        return outcome
    fault = said.get("fault")
    barren = outcome.status == "Failed" or usage.errors == usage.requests
    if fault is None and barren and opened.last_fault is not None:
        fault = opened.last_fault.value
    if fault is None and outcome is HANDED_BACK:
        # It did not end well, it was cut short: a report would clear what its slot has failed.
        return outcome
    return replace(outcome, fields={**outcome.fields, "egress": {**usage.fields(), "fault": fault}})
