"""What an operator is told about its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from emr_jobs.configs import config_from
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkInput, SparkOutput, SparkPayload

T = TypeVar("T")


class OperatorFailed(Exception):
    """The task cannot be done; `retryable` says whether trying again may help."""

    def __init__(
        self, message: str, *, retryable: bool = False, code: str = "OperatorFailed"
    ) -> None:
        self.message, self.retryable, self.code = message, retryable, code
        super().__init__(message)


@dataclass(frozen=True)
class SparkTask:
    task_id: str
    attempt: int
    dag: str
    job: str
    operator: str
    now: datetime
    """The operator's only clock."""
    scope: Scope
    """Of the event that made the task; `Scope()` is all of the dataset."""
    trigger: str | None
    """The alias of the input whose event made the task."""
    inputs: tuple[SparkInput, ...]
    outputs: tuple[SparkOutput, ...]
    config: Mapping[str, Any]
    triggers: tuple[str, ...] = ()
    """The aliases of the inputs whose events make tasks. The others make one when they are
    rewritten."""

    @staticmethod
    def of(payload: SparkPayload) -> SparkTask:
        return SparkTask(
            task_id=payload.task_id,
            attempt=payload.attempt,
            dag=payload.dag,
            job=payload.job,
            operator=payload.operator,
            now=_instant(payload.now),
            scope=payload.scope,
            trigger=payload.trigger,
            inputs=payload.inputs,
            outputs=payload.outputs,
            config=payload.config,
            # Who writes a payload by hand names the one that triggers, and is not asked twice.
            triggers=payload.triggers or ((payload.trigger,) if payload.trigger else ()),
        )

    def config_as(self, kind: type[T]) -> T:
        """The settings as the operator's own frozen dataclass."""
        try:
            return config_from(kind, self.config)
        except ValueError as error:
            raise OperatorFailed(f"{self.operator}: {error}", code="ConfigInvalid") from error

    def input(self, alias: str) -> SparkInput:
        for each in self.inputs:
            if each.alias == alias:
                return each
        names = ", ".join(each.alias for each in self.inputs) or "none"
        raise OperatorFailed(f"the job has no input {alias!r}; it has: {names}")

    def has_input(self, alias: str) -> bool:
        return any(each.alias == alias for each in self.inputs)

    def output(self, output_index: int) -> SparkOutput:
        for each in self.outputs:
            if each.output_index == output_index:
                return each
        raise OperatorFailed(f"the job has no output {output_index}")

    def range(self) -> tuple[int, int]:
        """The range that the task is about, for operators that need one."""
        if self.scope.range is None:
            raise OperatorFailed(
                f"{self.operator} works on ranges, and {self.scope.key or 'all of the dataset'} is "
                "none; feed it from a range_aggregator, a range_splitter or a range_request"
            )
        return self.scope.range


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
