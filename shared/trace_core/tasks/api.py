"""The wire formats of the task contract: requests are strict, unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

from trace_core.dag.model import Runtime
from trace_core.kernel import limits
from trace_core.kernel.scopes import PARTITION_KEY, RANGE_KEY, Scope
from trace_core.tasks.model import Fence

BIGINT = 2**63 - 1
Bigint = Annotated[int, Field(ge=0, le=BIGINT, strict=True)]
Attempt = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
LeaseSequence = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
WorkerId = Annotated[
    str, Field(min_length=1, max_length=limits.WORKER_ID_MAX, pattern=r"^[\x21-\x7e]+$")
]


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Scoped(Wire):
    cursor: Bigint | None = None
    partition_key: Annotated[str, Field(pattern=f"^{PARTITION_KEY.pattern}$")] | None = None
    start: Bigint | None = None
    end: Bigint | None = None

    @model_validator(mode="after")
    def _is_one_scope(self) -> Scoped:
        if self.partition_key is None and self.start is None and self.end is None:
            return self
        if self.cursor is not None and (self.partition_key or self.start is not None):
            raise ValueError("give either cursor or partition_key/start/end")
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end belong together")
        if self.start is not None and self.end is not None:
            if self.end < self.start:
                raise ValueError("end is before start; ranges are inclusive at both ends")
            match = RANGE_KEY.fullmatch(self.partition_key or f"{self.start}-{self.end}")
            if match and (int(match[1]), int(match[2])) != (self.start, self.end):
                raise ValueError("partition_key does not name start and end")
        return self

    @property
    def scope_key(self) -> str:
        """`scope.key`, without making the scope: a batch asks for hundreds of them."""
        return f"c{self.cursor}" if self.cursor is not None else self.scope.key

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The first and the last cursor, as they are stored."""
        if self.cursor is not None:
            return self.cursor, self.cursor
        return self.start, self.end

    @property
    def scope(self) -> Scope:
        if self.start is not None and self.end is not None and self.partition_key is None:
            return Scope.of_range(self.start, self.end)
        return Scope(self.cursor, self.partition_key, self.start, self.end)


class EventIn(Scoped):
    """One announcement: this scope of this dataset version changed."""

    dataset_uuid: UUID
    dataset_version: UUID
    revision: Bigint = 0


class WrittenBy(Wire):
    """The lease under which the data database committed."""

    attempt: Attempt
    lease_sequence: LeaseSequence


class OutputIn(Scoped):
    """One output that the attempt has written: its rows, once they are committed.

    `location` is the key of a manifest under the attempt's own prefix, or the table of a dataset
    in the data database. A commit there has its number already, and may be one that an earlier
    attempt of this task made.
    """

    output_index: Annotated[int, Field(ge=0, le=1000, strict=True)]
    dataset_uuid: UUID
    dataset_version: UUID
    location: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[\x21-\x7e]+$")]
    row_count: Bigint | None = None
    commit_number: Annotated[int, Field(ge=1, le=BIGINT, strict=True)] | None = None
    replaces: Bigint | None = None
    """The newest commit that its scope held before; 0 for none."""
    written_by: WrittenBy | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> OutputIn:
        given = [self.commit_number, self.replaces, self.written_by]
        if any(each is not None for each in given) and None in given:
            raise ValueError("commit_number, replaces and written_by belong together")
        return self


class Fenced(Wire):
    task_id: UUID
    attempt: Attempt
    lease_token: UUID

    @property
    def fence(self) -> Fence:
        return Fence(self.task_id, self.attempt, self.lease_token)  # type: ignore[arg-type]


Events = Annotated[list[EventIn], Field(max_length=limits.EVENTS_PER_CALL_MAX)]
Outputs = Annotated[list[OutputIn], Field(max_length=limits.OUTPUTS_PER_CALL_MAX)]


class ClaimRequest(Wire):
    """By id, by ids, or whatever is most urgent on a queue. The queue's name is the runtime's."""

    worker_id: WorkerId
    task_id: UUID | None = None
    task_ids: (
        Annotated[list[UUID], Field(min_length=1, max_length=limits.CLAIM_BATCH_MAX)] | None
    ) = None
    queue: Literal[Runtime.WORKER] | None = None
    limit: Annotated[int, Field(ge=1, le=limits.CLAIM_BATCH_MAX, strict=True)] = 1

    @model_validator(mode="after")
    def _names_one_thing(self) -> ClaimRequest:
        if sum(x is not None for x in (self.task_id, self.task_ids, self.queue)) != 1:
            raise ValueError("give exactly one of task_id, task_ids, queue")
        return self


class HeartbeatRequest(Fenced):
    pass


class EventsRequest(Fenced):
    """What a running task announces; outputs are committed with it, and announce themselves."""

    events: Events = Field(default_factory=list)
    outputs: Outputs = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_something(self) -> EventsRequest:
        if not self.events and not self.outputs:
            raise ValueError("give events, outputs or both")
        return self


class InputRequest(Fenced):
    """What a running task wants to read: one of its inputs, at the pin of its lease."""

    alias: Annotated[str, Field(min_length=1, max_length=200)]
    scope: Scoped | None = None
    """Only the commits that meet it; without it, all of the input."""
    dataset_version: UUID | None = None
    """One part of it, for its next page."""
    after: Bigint = 0


class LogRequest(Fenced):
    """What an attempt printed, as its runner kept it: bounded and without secrets."""

    lease_sequence: LeaseSequence
    data: Annotated[Base64Bytes, Field(max_length=limits.ATTEMPT_LOG_MAX)]


class StateEntry(Wire):
    """A compare-and-set of one key of the job's operator state; revision 0 creates it."""

    key: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
    revision: Annotated[int, Field(ge=0, lt=BIGINT, strict=True)]
    value: Any


class EgressIn(Wire):
    """What the attempt took of the upstreams that its slot names, and whose fault its end is."""

    requests: Bigint = 0
    retries: Bigint = 0
    rate_limited: Bigint = 0
    errors: Bigint = 0
    bytes: Bigint = 0
    latency_ms: Bigint = 0
    fault: Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")] | None = None
    """Why the provider is to blame, if it is."""


class Completion(Fenced):
    """The end of an attempt (Completed, Failed, Canceled) or of a source's slice (Yielded).

    Superseded: a commit was refused because newer inputs are in the output already. The task goes
    on at once with fresh inputs, and the attempt counts as no failure.
    """

    status: Literal["Completed", "Failed", "Canceled", "Yielded", "Superseded"]
    # Factories, since pydantic copies a default list deeply for every completion.
    events: Events = Field(default_factory=list)
    outputs: Outputs = Field(default_factory=list)
    state: list[StateEntry] = Field(default_factory=list, max_length=100)
    triggers_taken: list[Bigint] = Field(default_factory=list, max_length=1000)
    """Numbers of the manual requests that this slice has served."""
    resume_after_seconds: Annotated[float, Field(ge=0, le=86_400)] = 0
    """For an always-on source that yields: how long to rest before the next slice."""
    error_code: Annotated[str, Field(max_length=100)] | None = None
    error_message: str | None = None
    retryable: bool = True
    egress: EgressIn | None = None

    @model_validator(mode="after")
    def _fits_its_status(self) -> Completion:
        succeeds = self.status in ("Completed", "Yielded")
        if not succeeds and (self.events or self.outputs or self.state):
            raise ValueError(f"a {self.status} attempt has no events, outputs or state")
        if len({entry.key for entry in self.state}) != len(self.state):
            raise ValueError("a state key stands twice")
        return self


class InvalidateRequest(Scoped):
    """A person's word that a part of a dataset is wrong: whoever reads it does its work again."""

    dataset: Annotated[str, Field(min_length=1, max_length=200)]
    """Its published name, or the id of one output."""
    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    key: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
    """Of the caller's choice: the same request again has the same key, and does nothing more."""


class CompleteBatch(Wire):
    completions: Annotated[
        list[Completion], Field(min_length=1, max_length=limits.COMPLETE_BATCH_MAX)
    ]


class StartRequest(Wire):
    """The first call of a runner: its one-time start token for the lease."""

    task_id: UUID
    start_token: UUID
    runner_id: WorkerId
