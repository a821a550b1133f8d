"""What a Spark job is given and what it leaves: two JSON objects, and nothing else.

The job holds no credentials of the platform and asks it nothing. The platform resolves pins,
exports what lies in Postgres, and writes the payload before the run; after it, the platform reads
the result, and copies what it lists to where no task can write. Standard library only: this module
is in the zip that EMR Serverless runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trace_core.kernel.scopes import Scope

FORMAT = 1
PAYLOAD_NAME = "payload.json"
RESULT_NAME = "result.json"
LOG_NAME = "log.txt"
"""Beside the result: what the operator printed. The platform keeps it with the attempt."""

Bounds = tuple[int, int]
"""A range of cursors, inclusive at both ends."""


@dataclass(frozen=True)
class SparkColumn:
    name: str
    type: str
    """As in DAG files: `bigint`, `numeric(78,0)`, `timestamptz`; see `storage/rows.py`."""


@dataclass(frozen=True)
class SparkObject:
    """A Parquet object with rows of one commit."""

    uri: str
    number: int = 0
    """Of the commit that wrote it; appended rows are ordered by it."""
    rows: int | None = None
    keep: tuple[Bounds, ...] | None = None
    """Only rows whose cursor lies in one of these; None: all of them."""


@dataclass(frozen=True)
class SparkPart:
    """One dataset version at its pin, cut down to what the task may read of it."""

    objects: tuple[SparkObject, ...] = ()
    cursor_column: str | None = None
    first_of_key: tuple[str, ...] = ()
    """Appended rows: of each key only the row that came first counts, by (number, position)."""


@dataclass(frozen=True)
class SparkInput:
    """One input; its parts below each other are the relation that the operator reads."""

    alias: str
    columns: tuple[SparkColumn, ...] = ()
    """Empty: nothing was ever written, and nobody has said what will be."""
    parts: tuple[SparkPart, ...] = ()
    where: str | None = None
    """The predicate of the input in its canonical text; pushed down to the scan."""


@dataclass(frozen=True)
class SparkOutput:
    output_index: int
    uri: str
    """A folder of this run's own, ending with a slash: the only place that it may write to."""
    columns: tuple[SparkColumn, ...] = ()
    """Those that are known; empty before the first commit of an output without declared ones."""
    update_strategy: str = "replace"
    unique_key: tuple[str, ...] = ()


@dataclass(frozen=True)
class SparkPayload:
    task_id: str
    attempt: int
    dag: str
    job: str
    operator: str
    implementation: str
    """`module:function`, called as `function(task, io)`."""
    config: Mapping[str, Any]
    now: str
    """ISO 8601, UTC: the operator's only clock."""
    scope: Scope
    """Of the event that made the task; `Scope()` is all of the dataset."""
    trigger: str | None
    """The alias of the input whose event made the task: one of `triggers`, or one that was
    rewritten."""
    inputs: tuple[SparkInput, ...]
    outputs: tuple[SparkOutput, ...]
    result_uri: str
    format: int = FORMAT
    triggers: tuple[str, ...] = ()
    """The aliases of the inputs whose events make tasks, by the job's wiring."""

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "scope": self.scope.fields()}

    @staticmethod
    def parse(fields: Mapping[str, Any]) -> SparkPayload:
        known = dict(fields)
        if known.get("format") != FORMAT:
            raise ValueError(f"payload format {known.get('format')}; this release reads {FORMAT}")
        known["scope"] = Scope(**known["scope"])
        known["inputs"] = tuple(_input(each) for each in known["inputs"])
        known["outputs"] = tuple(_output(each) for each in known["outputs"])
        known["triggers"] = tuple(known.get("triggers", ()))
        return SparkPayload(**known)


@dataclass(frozen=True)
class SparkWritten:
    """The rows of one scope of one output, as Parquet objects under that output's folder."""

    output_index: int
    scope: Scope
    objects: tuple[str, ...]
    """Paths relative to the output's folder, in the order in which they are to be named."""
    columns: tuple[SparkColumn, ...]
    name: str = "rows"
    """What they are called once they are committed: `blocks` gives `blocks_0_999.parquet`."""
    cursor_column: str | None = None


@dataclass(frozen=True)
class SparkEmit:
    """An event without rows, of an output that has none."""

    output_index: int
    scope: Scope


@dataclass(frozen=True)
class SparkInvalidation:
    """A scope of an input that turned out to be bad: its producer is to write it again."""

    alias: str
    scope: Scope
    reason: str


@dataclass(frozen=True)
class SparkFailure:
    code: str
    message: str
    retryable: bool


@dataclass(frozen=True)
class SparkResult:
    """Written last; without it, whatever the run wrote does not count."""

    task_id: str
    attempt: int
    written: tuple[SparkWritten, ...] = ()
    events: tuple[SparkEmit, ...] = ()
    invalidations: tuple[SparkInvalidation, ...] = ()
    failure: SparkFailure | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What took how long: `read`, `run`, `write`; for people."""
    format: int = FORMAT

    def fields(self) -> dict[str, Any]:
        found = asdict(self)
        for name in ("written", "events", "invalidations"):
            for each, given in zip(found[name], getattr(self, name), strict=True):
                each["scope"] = given.scope.fields()
        return found

    @staticmethod
    def parse(fields: Mapping[str, Any]) -> SparkResult:
        known = dict(fields)
        if known.get("format") != FORMAT:
            raise ValueError(f"result format {known.get('format')}; this release reads {FORMAT}")
        failure = known.get("failure")
        return SparkResult(
            task_id=known["task_id"],
            attempt=known["attempt"],
            written=tuple(
                SparkWritten(
                    each["output_index"],
                    Scope(**each["scope"]),
                    tuple(each["objects"]),
                    _columns(each["columns"]),
                    each["name"],
                    each["cursor_column"],
                )
                for each in known["written"]
            ),
            events=tuple(
                SparkEmit(each["output_index"], Scope(**each["scope"])) for each in known["events"]
            ),
            invalidations=tuple(
                SparkInvalidation(each["alias"], Scope(**each["scope"]), each["reason"])
                for each in known["invalidations"]
            ),
            failure=SparkFailure(**failure) if failure else None,
            seconds=dict(known["seconds"]),
        )


def _columns(fields: list[Mapping[str, Any]]) -> tuple[SparkColumn, ...]:
    return tuple(SparkColumn(each["name"], each["type"]) for each in fields)


def _input(fields: Mapping[str, Any]) -> SparkInput:
    return SparkInput(
        fields["alias"],
        _columns(fields["columns"]),
        tuple(_part(each) for each in fields["parts"]),
        fields["where"],
    )


def _part(fields: Mapping[str, Any]) -> SparkPart:
    return SparkPart(
        tuple(
            SparkObject(
                each["uri"],
                each["number"],
                each["rows"],
                None if each["keep"] is None else tuple((b[0], b[1]) for b in each["keep"]),
            )
            for each in fields["objects"]
        ),
        fields["cursor_column"],
        tuple(fields["first_of_key"]),
    )


def _output(fields: Mapping[str, Any]) -> SparkOutput:
    return SparkOutput(
        fields["output_index"],
        fields["uri"],
        _columns(fields["columns"]),
        fields["update_strategy"],
        tuple(fields["unique_key"]),
    )
