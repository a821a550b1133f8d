"""Runs one operator in this process; whatever it does ends as one outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trace_core.dag.catalog import Catalog
from trace_core.kernel import limits
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import (
    Emit,
    EmitNow,
    FetchRows,
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

if TYPE_CHECKING:
    import pyarrow as pa

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
    fetch: FetchRows,
    canceled: Callable[[], bool],
    secrets: Iterable[str] = (),
) -> Outcome:
    try:
        spec = catalog.get(payload["operator"])
        if spec is None:
            raise OperatorFailed(f"this worker has no operator {payload['operator']}")
        config = spec.config.model_validate_json(json.dumps(payload.get("config") or {}))
        task = task_context(
            payload, config, now=now, env=env, scratch=scratch, emit=emit, fetch=fetch,
            canceled=canceled,
        )  # fmt: skip
        result = _operator(spec.name, spec.implementation).run(task)
        return outcome.succeeded(payload, _within_one_completion(result, emit), scratch)
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


Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Asks whoever holds the credentials for rows; the answer names a file, or says what is wrong."""


class ReadFailed(OperatorFailed):
    """An input could not be read."""


def fetcher(ask: Ask) -> FetchRows:
    """Inputs of a task, as files that somebody else fills."""

    def fetch(alias: str, scope: Scope | None, columns: Sequence[str] | None) -> pa.Table:
        from trace_core.storage.arrow_files import open_rows

        wanted = None if scope is None else scope.fields()
        names = None if columns is None else list(columns)
        answer = ask({"alias": alias, "scope": wanted, "columns": names})
        if "error" in answer:
            raise ReadFailed(
                f"input {alias} cannot be read: {answer['error']}", retryable=answer["retryable"]
            )
        return open_rows(Path(answer["path"]))

    return fetch
