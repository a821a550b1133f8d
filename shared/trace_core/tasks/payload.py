"""The task payload: one shape for claim, fetch and invoke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import JobId, OrgId, TaskId
from trace_core.ports.clock import Clock
from trace_core.tasks.claim import Claimed, claimed_from
from trace_core.tasks.model import staging_prefix, token_lifetime
from trace_core.tasks.statements import SQL

_REQUESTS_PER_SLICE = 100


@dataclass(frozen=True)
class TokenRequest:
    """What a capability token must say."""

    org_id: OrgId
    task_id: TaskId
    job_id: JobId
    attempt: int
    lease_token: UUID
    input_versions: tuple[UUID, ...]
    write_prefixes: tuple[str, ...]
    lifetime: timedelta


class IssueToken(Protocol):
    def __call__(self, request: TokenRequest) -> str: ...


@dataclass(frozen=True)
class JobInfo:
    """What does not change while a job exists."""

    job: dict[str, Any]
    operator: str
    config: dict[str, Any]
    outputs: tuple[tuple[int, UUID, UUID], ...]
    timeout: timedelta

    @property
    def is_source(self) -> bool:
        return bool(self.job["activation"] == "source")


class Payloads:
    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        issue_token: IssueToken,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        self._state = state
        self._clock = clock
        self._timings = timings
        self._issue_token = issue_token
        self._jobs: dict[UUID, JobInfo] = {}

    def build(self, claims: Sequence[Claimed]) -> list[dict[str, Any]]:
        """One payload for each claim; what the claims of one job share is read once."""
        inputs = {
            job_id: self._inputs(job_id)
            for job_id in {claim.job_id for claim in claims if claim.trigger is not None}
        }
        return [self._payload(claim, inputs.get(claim.job_id, [])) for claim in claims]

    def fetch(self, org_id: OrgId, task_id: TaskId) -> dict[str, Any]:
        """A task as its runner would see it, read-only and without tokens."""
        rows = self._state.read(SQL["show_task"], {"org_id": org_id, "task_id": task_id})
        if not rows:
            raise NotFound(task_id=str(task_id))
        row = self._state.read(SQL["task_with_trigger"], {"org_id": org_id, "task_id": task_id})[0]
        status = "Canceled" if row.canceled_at is not None else rows[0].status
        now = self._clock.now()
        claim = claimed_from(
            row,
            org_id,
            started_at=row.started_at or now,
            lease_expires_at=row.lease_expires_at or now,
        )
        return {"status": status, "task": self.build([claim])[0]}

    def job(self, job_id: UUID) -> JobInfo:
        known = self._jobs.get(job_id)
        if known is None:
            known = self._jobs[job_id] = self._read_job(job_id)
        return known

    def _read_job(self, job_id: UUID) -> JobInfo:
        row = self._state.read(SQL["job_info"], {"job_id": job_id})[0]
        outputs = self._state.read(SQL["outputs_of_job"], {"job_id": job_id})
        job = {
            "job_id": str(row.job_id),
            "dag_name": row.dag_name,
            "dag_version": row.dag_version,
            "name": row.name,
            "runtime": row.runtime,
            "activation": row.activation,
            "source_kind": row.source_kind,
            "schedule": row.schedule,
            "execution_strategy": row.definition.get("execution_strategy"),
            "update_strategy": row.definition.get("update_strategy"),
            "unique_key": row.definition.get("unique_key"),
            "timeout_seconds": row.timeout_seconds,
            # A short lease needs a quicker heartbeat than the job was written for.
            "heartbeat_seconds": min(
                float(row.heartbeat_seconds), self._timings.lease.total_seconds() / 3
            ),
        }
        return JobInfo(
            job,
            row.operator,
            row.definition.get("config", {}),
            tuple(
                sorted((out.output_index, out.dataset_uuid, out.dataset_version) for out in outputs)
            ),
            timedelta(seconds=row.timeout_seconds),
        )

    def _payload(self, claim: Claimed, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        info = self.job(claim.job_id)
        run = f"{claim.attempt}-{claim.lease_sequence}"
        outputs = [
            {
                "output_index": index,
                "dataset_uuid": str(dataset),
                "dataset_version": str(version),
                "staging_prefix": staging_prefix(
                    claim.org_id,
                    dataset,
                    version,
                    claim.task_id,
                    claim.attempt,
                    claim.lease_sequence,
                    index,
                ),
            }
            for index, dataset, version in info.outputs
        ]
        payload: dict[str, Any] = {
            "task_id": str(claim.task_id),
            "org_id": str(claim.org_id),
            "attempt": claim.attempt,
            "lease_sequence": claim.lease_sequence,
            "lease_expires_at": claim.lease_expires_at.isoformat(),
            "deadline_at": (claim.started_at + info.timeout).isoformat(),
            "job": info.job,
            "operator": info.operator,
            "config": info.config,
            "trigger": self._trigger(claim, inputs),
            "inputs": inputs,
            "outputs": outputs,
            "state": self._operator_state(claim, info),
            "requests": self._requests(claim, info),
            "slot": self._slot(claim),
            "invalidation": None,
            "idempotency": {
                "producer_task_id": str(claim.task_id),
                "key": f"{claim.task_id}/{run}",
            },
        }
        if claim.lease_token is not None and claim.start_token is None:
            payload["lease_token"] = str(claim.lease_token)
            payload["capability_token"] = self._token(claim, info, payload)
        elif claim.start_token is not None:
            payload["start_token"] = str(claim.start_token)
        return payload

    def started(self, claim: Claimed) -> dict[str, Any]:
        """The payload after the exchange: with the lease and the capability token."""
        (payload,) = self.build([claim])
        payload.pop("start_token", None)
        payload["lease_token"] = str(claim.lease_token)
        payload["capability_token"] = self._token(claim, self.job(claim.job_id), payload)
        return payload

    def _token(self, claim: Claimed, info: JobInfo, payload: dict[str, Any]) -> str:
        return self._issue_token(
            TokenRequest(
                claim.org_id,
                claim.task_id,
                claim.job_id,
                claim.attempt,
                claim.fence.lease_token,
                tuple(UUID(item["dataset_version"]) for item in payload["inputs"]),
                tuple(item["staging_prefix"] for item in payload["outputs"]),
                token_lifetime(info.timeout),
            )
        )

    @staticmethod
    def _trigger(claim: Claimed, inputs: list[dict[str, Any]]) -> dict[str, Any] | None:
        if claim.trigger is None:
            return None
        version = str(claim.trigger.dataset_version)
        edge: dict[str, Any] = next((e for e in inputs if e["dataset_version"] == version), {})
        return {
            "event_id": str(claim.trigger.event_id),
            "producer_task_id": str(claim.trigger.producer_task_id),
            "input_index": edge.get("input_index"),
            "dataset_uuid": edge.get("dataset_uuid"),
            "dataset_version": version,
            "revision": claim.trigger.revision,
            **claim.trigger.scope.fields(),
        }

    def _inputs(self, job_id: UUID) -> list[dict[str, Any]]:
        rows = self._state.read(SQL["inputs_of_job"], {"job_id": job_id})
        return [
            {
                "input_index": row.input_index,
                "alias": row.alias,
                "dataset_uuid": str(row.dataset_uuid),
                "dataset_version": str(row.dataset_version),
                "commit_number": None,
                "filter": row.filter,
            }
            for row in rows
        ]

    def _operator_state(self, claim: Claimed, info: JobInfo) -> list[dict[str, Any]]:
        if not info.is_source:
            return []
        rows = self._state.read(SQL["read_state"], {"job_id": claim.job_id})
        return [{"key": row.key, "revision": row.revision, "value": row.value} for row in rows]

    def _requests(self, claim: Claimed, info: JobInfo) -> list[dict[str, Any]]:
        if info.job["source_kind"] not in ("manual", "webhook"):
            return []
        rows = self._state.read(
            SQL["open_requests"], {"job_id": claim.job_id, "limit": _REQUESTS_PER_SLICE}
        )
        return [{"number": row.number, "request": row.request} for row in rows]

    def _slot(self, claim: Claimed) -> dict[str, Any] | None:
        if claim.slot_id is None:
            return None
        row = self._state.read(SQL["slot_of_lease"], {"slot_id": claim.slot_id})[0]
        return {"name": row.name, "env": row.env, "secrets": row.secrets}
