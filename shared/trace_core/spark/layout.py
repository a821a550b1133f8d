"""Where the files of one run lie: what it is given, and what it may write."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from trace_core.spark.wire import LOG_NAME, PAYLOAD_NAME, RESULT_NAME


@dataclass(frozen=True)
class RunFolder:
    """Keys of objects; each start has its own, so that no run meets what another one left."""

    org_id: UUID
    task_id: UUID
    attempt: int
    start_number: int

    @property
    def prefix(self) -> str:
        return f"org/{self.org_id}/run/{self.task_id}/{self.attempt}-{self.start_number}/"

    @property
    def given(self) -> str:
        """What the run may read: its payload, and inputs that were exported for it."""
        return f"{self.prefix}in/"

    @property
    def left(self) -> str:
        """What it may write."""
        return f"{self.prefix}out/"

    @property
    def payload(self) -> str:
        return f"{self.given}{PAYLOAD_NAME}"

    @property
    def result(self) -> str:
        return f"{self.left}{RESULT_NAME}"

    @property
    def log(self) -> str:
        return f"{self.left}{LOG_NAME}"

    def exports(self, export: UUID) -> str:
        """Of one try to export: a later one begins anew, and never mixes with it."""
        return f"{self.given}{export}/"

    def output(self, output_index: int) -> str:
        return f"{self.left}{output_index}/"

    @property
    def notes(self) -> frozenset[str]:
        """What is kept for people once the run is over."""
        return frozenset({self.payload, self.result, self.log})
