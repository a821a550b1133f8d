"""Logs and metrics of a function: structured lines that name org, job, task and attempt.

Messages of foreign exceptions are not logged: they quote SQL, values and request bodies.
"""

from __future__ import annotations

import functools
import io
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, TextIO, cast

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from trace_core.kernel.errors import TraceError, Unavailable
from trace_core.tasks.views import BacklogMetrics

NAMESPACE = "Trace"
Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
Finder = Callable[[], Mapping[str, object]]


class _Output(io.TextIOBase):
    """Where lines go: standard output, unless a local process sends them elsewhere."""

    def __init__(self) -> None:
        self.target: TextIO | None = None
        self.metrics = True

    def write(self, text: str) -> int:
        return (self.target or sys.stdout).write(text)

    def flush(self) -> None:
        (self.target or sys.stdout).flush()


_output = _Output()


@contextmanager
def redirected(target: TextIO, *, metrics: bool = False) -> Iterator[None]:
    """Send the lines of this process to `target`; on one machine nobody collects metrics."""
    before = _output.target, _output.metrics
    _output.target, _output.metrics = target, metrics
    try:
        yield
    finally:
        _output.target, _output.metrics = before


class Telemetry:
    """One for each function; what it gathers belongs to the running invocation and its thread."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._logger = Logger(service=service, stream=cast(TextIO, _output))
        self._metrics: ContextVar[EphemeralMetrics | None] = ContextVar(service, default=None)
        self._finders: ContextVar[tuple[Finder, ...]] = ContextVar(f"{service}_keys", default=())

    def observed(self, handler: Handler) -> Handler:
        """Log what an invocation raises, and publish the metrics that it gathered."""

        @functools.wraps(handler)
        def run(event: dict[str, Any], context: Any) -> dict[str, Any]:
            metrics = EphemeralMetrics(namespace=NAMESPACE, service=self._service)
            token = self._metrics.set(metrics)
            finders = self._finders.set(())
            self._logger.thread_safe_clear_keys()
            self.keys(request=getattr(context, "aws_request_id", None))
            try:
                return handler(event, context)
            except Exception as error:
                self.failure("The function failed", error)
                self.count("FunctionErrors")
                raise
            finally:
                self._metrics.reset(token)
                self._finders.reset(finders)
                self._logger.thread_safe_clear_keys()
                if metrics.metric_set and _output.metrics:
                    _output.write(json.dumps(metrics.serialize_metric_set()) + "\n")

        return run

    def keys(self, **keys: object) -> None:
        """Name what the invocation works on, in every line that follows."""
        named = {
            name: value if isinstance(value, list) else str(value)
            for name, value in keys.items()
            if value is not None
        }
        self._logger.thread_safe_append_keys(**named)

    def when_logged(self, find: Finder) -> None:
        """Keys that cost something to find: found before the first line, if there is one."""
        self._finders.set((*self._finders.get(), find))

    def _find_keys(self) -> None:
        finders = self._finders.get()
        self._finders.set(())
        for find in finders:
            try:
                self.keys(**find())
            except Exception as error:
                # The line itself matters more; it says why it names less.
                self.keys(keys_missing=type(error).__name__)

    def info(self, message: str, **keys: object) -> None:
        self._find_keys()
        self._logger.info(message, extra=_loggable(keys))

    def failure(self, message: str, error: BaseException) -> None:
        """One line for an exception: its kind and where it was raised."""
        if isinstance(error, Unavailable):
            # What is away would keep this call waiting once more.
            self._finders.set(())
            self.keys(keys_missing=error.code)
        self._find_keys()
        self._logger.error(message, extra={"error": described(error)})

    def count(self, name: str, value: float = 1) -> None:
        self._add(name, MetricUnit.Count, value)

    def gauge(self, name: str, value: float) -> None:
        """A figure as it is now; a name that ends in `Age` or `Lag` is in seconds."""
        seconds = name.endswith(("Age", "Lag"))
        self._add(name, MetricUnit.Seconds if seconds else MetricUnit.Count, value)

    def milliseconds(self, name: str, value: float) -> None:
        self._add(name, MetricUnit.Milliseconds, value)

    def _add(self, name: str, unit: MetricUnit, value: float) -> None:
        metrics = self._metrics.get()
        if metrics is not None:
            metrics.add_metric(name=name, unit=unit, value=value)


def backlog_figures(backlog: BacklogMetrics, now: datetime) -> dict[str, float]:
    """What waits, for how long, and what is overdue."""

    def age(since: datetime | None) -> float:
        return max(0.0, (now - since).total_seconds()) if since else 0.0

    return {
        "BacklogDepth": sum(backlog.queued.values()),
        "BacklogAge": max((age(since) for since in backlog.oldest_ready_at.values()), default=0.0),
        "TasksRunning": backlog.running,
        "TasksRetrying": backlog.retrying,
        "SourcesFailing": backlog.sources_failing,
        "LeaseLag": age(backlog.oldest_expiry),
        "OutboxPending": backlog.outbox_pending,
        "OutboxFailed": backlog.outbox_failed,
        "OutboxAge": age(backlog.oldest_pending_at),
        "DeployAge": age(backlog.oldest_deploy_at),
        "DeploysStuck": backlog.deploys_stuck,
        "JobsForbidden": backlog.jobs_forbidden,
        "SlotsQuarantined": backlog.slots_quarantined,
    }


def _loggable(keys: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value if isinstance(value, int | float | list | dict) else str(value)
        for name, value in keys.items()
        if value is not None
    }


def described(error: BaseException) -> dict[str, Any]:
    """An exception without its words, unless they are our own."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    answer: dict[str, Any] = {
        "name": type(error).__name__,
        "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if isinstance(error, TraceError):
        answer["code"], answer["message"] = error.code, error.message
    cause = error.__cause__ or error.__context__
    if cause is not None:
        answer["cause"] = type(cause).__name__
    return answer
