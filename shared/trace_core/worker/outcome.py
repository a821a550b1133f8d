"""How a run ended, in the words of the completion contract."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from trace_core.kernel import limits
from trace_core.kernel.errors import Rejected
from trace_core.operators.api import Emit, OperatorFailed, Result, Rows, Written
from trace_core.tasks.api import Completion

_MESSAGE_SHARE = limits.ERROR_MESSAGE_MAX // 2
_TRACEBACK_MAX = 64 * 1024
_FAULT = re.compile(r"[a-z_]{1,40}")


class InvalidResult(OperatorFailed):
    """What the operator returned cannot be reported."""


@dataclass(frozen=True)
class Outcome:
    fields: Mapping[str, Any]
    """A completion without its fence."""
    traceback: str = ""
    """For the log; the completion carries only its tail."""
    rows: Sequence[Mapping[str, Any]] = ()
    """Rows that the operator left in its scratch folder, to be written before this is reported."""

    @property
    def status(self) -> str:
        return str(self.fields["status"])


CANCELED = Outcome({"status": "Canceled"})
HANDED_BACK = Outcome({"status": "Yielded", "resume_after_seconds": 0.0})
SUPERSEDED = Outcome({"status": "Superseded"})


def succeeded(payload: Mapping[str, Any], result: object, scratch: Path) -> Outcome:
    """The completion of a result, whose rows are left in the scratch folder.

    Raises `InvalidResult` with what is wrong with it.
    """
    if not isinstance(result, Result):
        raise InvalidResult(f"the operator returned {type(result).__name__}, not a Result")
    is_source = payload["job"]["activation"] == "source"
    revisions = {each["key"]: each["revision"] for each in payload.get("state") or ()}
    fields: dict[str, Any] = {
        "status": "Yielded" if is_source else "Completed",
        "events": event_fields(payload, result.events),
        "outputs": [
            _output_fields(payload, each) for each in result.outputs if not isinstance(each, Rows)
        ],
    }
    if result.state:
        fields["state"] = [
            {"key": key, "revision": revisions.get(key, 0), "value": value}
            for key, value in result.state.items()
        ]
    if result.requests_taken:
        fields["triggers_taken"] = list(result.requests_taken)
    if is_source:
        fields["resume_after_seconds"] = result.resume_after.total_seconds()
    _check(payload, fields)
    rows = [each for each in result.outputs if isinstance(each, Rows)]
    if len(result.outputs) > limits.OUTPUTS_PER_CALL_MAX:
        raise InvalidResult(
            f"{len(result.outputs)} outputs; {limits.OUTPUTS_PER_CALL_MAX} fit: take larger scopes"
        )
    return Outcome(fields, rows=[_left(payload, each, scratch, at) for at, each in enumerate(rows)])


def _left(payload: Mapping[str, Any], rows: Rows, scratch: Path, at: int) -> dict[str, Any]:
    """Write the rows where the parent finds them."""
    from trace_core.storage.arrow_files import write_batches

    if _output(payload, rows.output_index).get("backend", "control") == "control":
        raise InvalidResult(
            f"output {rows.output_index} keeps no rows: give its operator a `storage`, or emit"
        )
    schema = getattr(rows.table, "schema", None)
    if schema is None or not hasattr(rows.table, "to_batches"):
        raise InvalidResult(f"rows are a pyarrow.Table, not {type(rows.table).__name__}")
    name = f"output-{at}.arrow"
    write_batches(scratch / name, schema, rows.table.to_batches())
    return {
        "output_index": rows.output_index,
        "scope": rows.scope.fields(),
        "file": name,
        "cursor_column": rows.cursor_column,
        "name": rows.name,
    }


def event_fields(payload: Mapping[str, Any], events: Sequence[Emit]) -> list[dict[str, Any]]:
    """Events as the wire has them: an output's index becomes its dataset and version."""
    found: list[dict[str, Any]] = []
    for each in events:
        if not isinstance(each, Emit):
            raise InvalidResult(f"an event must be an Emit, not {type(each).__name__}")
        if _output(payload, each.output_index).get("backend", "control") != "control":
            raise InvalidResult(
                f"output {each.output_index} has rows, and is announced when they are committed"
            )
        found.append(
            {
                **_dataset(payload, each.output_index),
                **each.scope.fields(),
                "revision": each.revision,
            }
        )
    return found


def _output_fields(payload: Mapping[str, Any], written: Written) -> dict[str, Any]:
    if not isinstance(written, Written):
        raise InvalidResult(f"an output must be Rows or Written, not {type(written).__name__}")
    return {
        "output_index": written.output_index,
        **_dataset(payload, written.output_index),
        **written.scope.fields(),
        "location": written.location,
        "row_count": written.row_count,
    }


def _dataset(payload: Mapping[str, Any], output_index: int) -> dict[str, str]:
    output = _output(payload, output_index)
    return {name: output[name] for name in ("dataset_uuid", "dataset_version")}


def _output(payload: Mapping[str, Any], output_index: int) -> Mapping[str, Any]:
    for output in payload.get("outputs") or ():
        if output["output_index"] == output_index:
            return cast(Mapping[str, Any], output)
    raise InvalidResult(f"the job has no output {output_index}")


def _check(payload: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    fence = {name: payload[name] for name in ("task_id", "attempt", "lease_token")}
    try:
        text = json.dumps(fields, allow_nan=False)
        Completion.model_validate_json(json.dumps({**fence, **json.loads(text)}))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidResult(f"the result is refused: {where}: {first['msg']}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(f"the result is not JSON: {error}") from error
    if len(text) > limits.REQUEST_BODY_MAX - 1024:
        raise InvalidResult(f"the result has {len(text)} bytes; {limits.REQUEST_BODY_MAX} fit")


def failed(error: BaseException, redact: Callable[[str], str] = str) -> Outcome:
    """The completion of an attempt that raised; redacted first, since a cut hides half a secret."""
    trace = redact(storable("".join(traceback.format_exception(error))))
    message = redact(storable(_text_of(error)))
    ended = failure(type(error).__name__, message, _retryable(error), trace)
    fault = _fault(error.upstream_fault) if isinstance(error, OperatorFailed) else None
    return replace(ended, fields={**ended.fields, "egress": {"fault": fault}}) if fault else ended


def failure(code: str, message: str, retryable: bool, trace: str = "") -> Outcome:
    message, trace = storable(message), storable(trace)
    shown = message[:_MESSAGE_SHARE]
    room = limits.ERROR_MESSAGE_MAX - len(shown) - 2
    if trace:
        shown = f"{shown}\n\n{trace[-room:]}"
    return Outcome(
        {
            "status": "Failed",
            "error_code": storable(code)[:100],
            "error_message": shown,
            "retryable": retryable,
        },
        trace[-_TRACEBACK_MAX:],
    )


def redacted(outcome: Outcome, redact: Callable[[str], str]) -> Outcome:
    """Without what whoever ran it could not know to be a secret."""
    if outcome.status != "Failed":
        return outcome
    message = redact(str(outcome.fields["error_message"]))[: limits.ERROR_MESSAGE_MAX]
    fields = {**outcome.fields, "error_message": message}
    return replace(outcome, fields=fields, traceback=redact(outcome.traceback)[-_TRACEBACK_MAX:])


def storable(text: str) -> str:
    """Text that JSON and Postgres both take: no lone surrogates, no NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def _text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # the operator's own __str__ may fail
        return type(error).__name__


def _fault(said: object) -> str | None:
    """What a completion cannot carry still blames the upstream."""
    if not said:
        return None
    return said if isinstance(said, str) and _FAULT.fullmatch(said) else "failed"


def _retryable(error: BaseException) -> bool:
    if isinstance(error, OperatorFailed):
        return error.retryable
    return not isinstance(error, Rejected | ValidationError)
