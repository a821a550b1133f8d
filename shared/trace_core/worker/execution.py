"""Runs one operator in this process; whatever it does ends as one outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from trace_core.dag.catalog import Catalog
from trace_core.kernel import limits
from trace_core.operators.api import (
    Emit,
    EmitNow,
    Operator,
    OperatorFailed,
    Result,
    is_reducer,
    load_operator,
    task_context,
)
from trace_core.worker import outcome
from trace_core.worker.client import TaskApi
from trace_core.worker.logs import Redaction
from trace_core.worker.outcome import Outcome

CAPABILITY_TOKEN = "TRACE_TASK_CAPABILITY_TOKEN"  # noqa: S105  # the name, not the token


@contextmanager
def task_environment(env: Mapping[str, str], token: str, scratch: Path) -> Iterator[None]:
    """The process's environment and folder while it runs one task; nothing stays for the next."""
    before = dict(os.environ)
    os.environ.update({**env, CAPABILITY_TOKEN: token, "TMPDIR": str(scratch)})
    os.chdir(scratch)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir("/")


def execute(
    payload: Mapping[str, Any],
    catalog: Catalog,
    *,
    env: Mapping[str, str],
    scratch: Path,
    now: datetime,
    emit: EmitNow,
    canceled: Callable[[], bool],
    secrets: Iterable[str] = (),
) -> Outcome:
    try:
        spec = catalog.get(payload["operator"])
        if spec is None:
            raise OperatorFailed(f"this worker has no operator {payload['operator']}")
        config = spec.config.model_validate_json(json.dumps(payload.get("config") or {}))
        task = task_context(
            payload, config, now=now, env=env, scratch=scratch, emit=emit, canceled=canceled
        )
        result = _operator(spec.name, spec.implementation).run(task)
        return outcome.succeeded(payload, _within_one_completion(result, emit))
    except BaseException as error:
        # Also SystemExit: an operator that calls sys.exit must not take its process along.
        return outcome.failed(error, Redaction(secrets).text)


def _operator(name: str, implementation: str | None) -> Operator:
    if implementation is None:
        raise OperatorFailed(f"operator {name} has no implementation in this code base")
    operator = load_operator(implementation)
    if is_reducer(operator):
        raise OperatorFailed(
            f"operator {name} keeps its state in the platform: use `runtime: dispatcher`"
        )
    return cast(Operator, operator)


def _within_one_completion(result: Result, emit: EmitNow) -> Result:
    """Emit ahead what one completion cannot carry; a retry repeats it and changes nothing."""
    if not isinstance(result, Result) or len(result.events) <= limits.EVENTS_PER_CALL_MAX:
        return result
    if result.outputs:
        # Outputs are announced with their commit, so these events cannot go ahead of it.
        raise outcome.InvalidResult(
            f"{len(result.events)} events with outputs; {limits.EVENTS_PER_CALL_MAX} fit"
        )
    ahead = len(result.events) - limits.EVENTS_PER_CALL_MAX
    emit(result.events[:ahead])
    return Result(
        events=result.events[ahead:],
        state=result.state,
        requests_taken=result.requests_taken,
        resume_after=result.resume_after,
    )


def emitter(api: TaskApi, payload: Mapping[str, Any]) -> EmitNow:
    """Events in the middle of a task, through the task API."""
    fence = {name: payload[name] for name in ("task_id", "attempt", "lease_token")}

    def emit(events: Sequence[Emit]) -> None:
        fields = outcome.event_fields(payload, events)
        for first in range(0, len(fields), limits.EVENTS_PER_CALL_MAX):
            api.events(fence, fields[first : first + limits.EVENTS_PER_CALL_MAX])

    return emit
