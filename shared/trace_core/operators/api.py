"""What operator code sees of the platform: one task, and what it may answer.

An `Operator` runs a task and answers events and outputs: rows that it made, which the platform
writes and commits. A `Reducer` is control work whose state the platform keeps: it is pure, and runs
inside the transaction that completes its task.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel

from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.kernel.scopes import Scope

if TYPE_CHECKING:
    # Loaded with the first rows: control work needs no Arrow.
    import pyarrow as pa


class OperatorFailed(Exception):
    """The operator gives up on this task, and says whether another attempt may do better."""

    upstream_fault: str | None = None
    """Why the slot's upstream is to blame, where it is: one lower-case word, such as `untrue`. A
    slot whose attempts end so again and again is quarantined."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


@dataclass(frozen=True)
class Emit:
    """Announce that a scope of an output changed. What has rows is announced by its commit."""

    output_index: int
    scope: Scope
    revision: int = 0


@dataclass(frozen=True)
class Rows:
    """The rows of one scope of an output: written, committed and announced with the result.

    With `update_strategy: replace` they take the place of all that the scope held; with `append`
    those whose unique key is new are added. A result may have several scopes of one output, as long
    as they do not overlap.
    """

    output_index: int
    scope: Scope
    table: pa.Table
    """The columns of the dataset; the first commit says which, unless they are declared."""
    cursor_column: str | None = None
    """A whole-number column that places each row inside the scope by itself: a later rewrite of a
    smaller range then closes exactly the rows in it. For tables in Postgres."""
    name: str = "rows"
    """What its objects are called, before the range: `blocks` gives `blocks_0_999.parquet`."""


@dataclass(frozen=True)
class Written:
    """Rows that this attempt has written itself: the key of their manifest, under its prefix."""

    output_index: int
    scope: Scope
    location: str
    row_count: int | None = None


@dataclass(frozen=True)
class Result:
    """What a run leaves behind; all of it is accepted together, or none of it."""

    events: Sequence[Emit] = ()
    outputs: Sequence[Rows | Written] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    """New values of a source's state keys; each is compared and set. Where its rows go to Postgres
    the state is kept and moved there, in the transaction that writes them."""
    requests_taken: Sequence[int] = ()
    """Numbers of the manual requests that are served by this slice."""
    resume_after: timedelta = timedelta(0)
    """How long an always-on source rests before its next slice."""


@dataclass(frozen=True)
class Event:
    """What a Reducer sees of the event that made the task."""

    scope: Scope
    revision: int = 0
    input_index: int = 0
    source: str = ""
    """Which dataset version it is of: the revisions of two of them have no order."""


@dataclass(frozen=True)
class Trigger(Event):
    """The event that made the task."""

    event_id: UUID | None = None
    producer_task_id: UUID | None = None
    dataset_uuid: UUID | None = None
    dataset_version: UUID | None = None


@dataclass(frozen=True)
class Input:
    input_index: int
    alias: str
    dataset_uuid: UUID
    dataset_version: UUID | None
    commit_number: int | None
    """With the version, the pin: what this attempt reads of it, whatever is committed meanwhile."""
    filter: Any
    backend: str | None = None


@dataclass(frozen=True)
class Output:
    output_index: int
    dataset_uuid: UUID
    dataset_version: UUID
    staging_prefix: str | None
    backend: str = "control"


@dataclass(frozen=True)
class StateRow:
    revision: int
    value: Any


@dataclass(frozen=True)
class Request:
    """What somebody asked of a manual source; its number grows with every request."""

    number: int
    request: Any


@dataclass(frozen=True)
class Job:
    job_id: UUID
    dag_name: str
    dag_version: int | str
    name: str
    activation: str
    source_kind: str | None
    schedule: str | None
    update_strategy: str | None
    unique_key: tuple[str, ...]


Config = TypeVar("Config", bound=BaseModel, covariant=True)
EmitNow = Callable[[Sequence[Emit]], None]


class FetchRows(Protocol):
    """Rows of one input at its pin; `scope` None is all of it."""

    def __call__(
        self, alias: str, scope: Scope | None, columns: Sequence[str] | None
    ) -> pa.Table: ...


def _emits_nothing(_events: Sequence[Emit]) -> None:
    raise OperatorFailed("events cannot be emitted in the middle of this task")


def _fetches_nothing(alias: str, scope: Scope | None, columns: Sequence[str] | None) -> pa.Table:
    raise OperatorFailed("control work reads no rows: use `runtime: worker` or `runtime: lambda`")


def _never_canceled() -> bool:
    return False


@dataclass(frozen=True)
class TaskContext(Generic[Config]):
    """One task, as its operator sees it."""

    org_id: OrgId
    task_id: TaskId
    attempt: int
    lease_sequence: int
    job: Job
    operator: str
    config: Config
    now: datetime
    """When this run began; the operator's only clock, so that a run can be repeated."""
    deadline_at: datetime | None = None
    trigger: Trigger | None = None
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    state: Mapping[str, StateRow] = field(default_factory=dict)
    requests: tuple[Request, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment of the slot, secret values included."""
    scratch: Path = Path("/nonexistent")
    """An empty folder of this attempt's own; gone when the attempt ends."""
    emit: EmitNow = field(default=_emits_nothing, repr=False)
    """Announce now, in the middle of the task, rather than with the result."""
    fetch: FetchRows = field(default=_fetches_nothing, repr=False)
    """What `read` goes through."""
    canceled: Callable[[], bool] = field(default=_never_canceled, repr=False)
    """Whether to stop: what ends itself soon after is not killed."""
    log: logging.Logger = field(default=logging.getLogger("trace.operator"), repr=False)

    @property
    def created_at(self) -> datetime | None:
        """When the task was made, which its time-ordered id tells."""
        if self.task_id.version != 7:
            return None
        return datetime.fromtimestamp((self.task_id.int >> 80) / 1000, UTC)

    def read(
        self, alias: str, scope: Scope | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows of an input, at the pin of this attempt and behind the input's filter.

        Without a scope: of the input that triggered the task, the scope of the trigger; of any
        other one the same range, if the trigger has a range, and else all of it. `Scope()` is all
        of it in any case. Rows come in no particular order. A range gives all rows of the commits
        that meet it; of rows with cursors of their own, exactly those in it.
        """
        known = [each for each in self.inputs if each.alias == alias]
        if not known:
            names = ", ".join(sorted({each.alias for each in self.inputs})) or "none"
            raise OperatorFailed(f"the job has no input {alias!r}; it has: {names}")
        wanted = self._scope_of(known) if scope is None else scope
        return self.fetch(alias, None if wanted == Scope() else wanted, columns)

    def _scope_of(self, parts: Sequence[Input]) -> Scope:
        if self.trigger is None:
            return Scope()
        triggers = self.trigger.dataset_uuid in {each.dataset_uuid for each in parts}
        if triggers or self.trigger.scope.range is not None:
            return self.trigger.scope
        return Scope()


class Operator(Protocol):
    """Made anew for each task, so that nothing is kept from one task to the next."""

    def run(self, task: TaskContext[Any]) -> Result: ...


@dataclass(frozen=True)
class Reduction:
    """The state rows that changed, and what is announced."""

    states: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Emit] = ()


class Reducer(Protocol):
    """Pure and deterministic: the same states and event give the same reduction.

    The platform locks the rows named by `keys`, in that order, calls `reduce` with the values of
    those that exist, and writes states and events in the transaction that completes the task. Tasks
    of one batch follow one another, each seeing the states that the one before it left.
    """

    def keys(self, config: Any, event: Event) -> list[str]: ...

    def reduce(self, config: Any, states: Mapping[str, Any], event: Event) -> Reduction: ...


def load_operator(implementation: str) -> Operator | Reducer:
    """A new instance of the class that a catalog entry names as `module:Class`."""
    module, _, name = implementation.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise Invalid(f"{implementation} cannot be loaded: {error}") from error
    if not (callable(getattr(made, "run", None)) or is_reducer(made)):
        raise Invalid(f"{implementation} has neither run() nor keys() and reduce()")
    return made  # type: ignore[no-any-return]


def is_reducer(operator: object) -> bool:
    return callable(getattr(operator, "reduce", None)) and callable(getattr(operator, "keys", None))


def task_context(
    payload: Mapping[str, Any],
    config: Config,  # type: ignore[misc]  # read only: the context never gives it a new value
    *,
    now: datetime,
    env: Mapping[str, str] | None = None,
    scratch: Path = Path("/nonexistent"),
    emit: EmitNow = _emits_nothing,
    fetch: FetchRows = _fetches_nothing,
    canceled: Callable[[], bool] = _never_canceled,
) -> TaskContext[Config]:
    """The context of a task payload; in the Dispatcher the defaults will do."""
    job, deadline = payload["job"], payload.get("deadline_at")
    return TaskContext(
        org_id=OrgId(UUID(payload["org_id"])),
        task_id=TaskId(UUID(payload["task_id"])),
        attempt=int(payload["attempt"]),
        lease_sequence=int(payload["lease_sequence"]),
        job=_job(job),
        operator=payload["operator"],
        config=config,
        now=now,
        deadline_at=datetime.fromisoformat(deadline) if deadline else None,
        trigger=_trigger(payload.get("trigger")),
        inputs=tuple(_input(each) for each in payload.get("inputs") or ()),
        outputs=tuple(_output(each) for each in payload.get("outputs") or ()),
        state={
            each["key"]: StateRow(each["revision"], each["value"])
            for each in payload.get("state") or ()
        },
        requests=tuple(
            Request(each["number"], each["request"]) for each in payload.get("requests") or ()
        ),
        env=dict(env or {}),
        scratch=scratch,
        emit=emit,
        fetch=fetch,
        canceled=canceled,
        log=logging.getLogger(f"trace.operator.{payload['operator']}"),
    )


def scope_of(fields: Mapping[str, Any]) -> Scope:
    """The scope among wire fields; a range without a key is named by its bounds."""
    start, end, key = fields.get("start"), fields.get("end"), fields.get("partition_key")
    if start is not None and end is not None and key is None:
        return Scope.of_range(start, end)
    return Scope(fields.get("cursor"), key, start, end)


def _trigger(fields: Mapping[str, Any] | None) -> Trigger | None:
    if fields is None:
        return None
    return Trigger(
        scope=scope_of(fields),
        revision=fields.get("revision") or 0,
        input_index=fields.get("input_index") or 0,
        event_id=_uuid(fields.get("event_id")),
        producer_task_id=_uuid(fields.get("producer_task_id")),
        dataset_uuid=_uuid(fields.get("dataset_uuid")),
        dataset_version=_uuid(fields.get("dataset_version")),
    )


def _job(fields: Mapping[str, Any]) -> Job:
    unique_key = fields.get("unique_key") or ()
    return Job(
        job_id=UUID(fields["job_id"]),
        dag_name=fields["dag_name"],
        dag_version=fields["dag_version"],
        name=fields["name"],
        activation=fields["activation"],
        source_kind=fields.get("source_kind"),
        schedule=fields.get("schedule"),
        update_strategy=fields.get("update_strategy"),
        unique_key=(unique_key,) if isinstance(unique_key, str) else tuple(unique_key),
    )


def _input(fields: Mapping[str, Any]) -> Input:
    return Input(
        input_index=fields["input_index"],
        alias=fields["alias"],
        dataset_uuid=UUID(fields["dataset_uuid"]),
        dataset_version=_uuid(fields.get("dataset_version")),
        commit_number=fields.get("commit_number"),
        filter=fields.get("filter"),
        backend=fields.get("backend"),
    )


def _output(fields: Mapping[str, Any]) -> Output:
    return Output(
        output_index=fields["output_index"],
        dataset_uuid=UUID(fields["dataset_uuid"]),
        dataset_version=UUID(fields["dataset_version"]),
        staging_prefix=fields.get("staging_prefix"),
        backend=fields.get("backend") or "control",
    )


def _uuid(text: str | None) -> UUID | None:
    return UUID(text) if text else None
