"""The task payload: one shape for claim, fetch and invoke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from trace_core.database.arrays import Uuids
from trace_core.database.state import StateDatabase
from trace_core.kernel import limits
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import JobId, OrgId, TaskId
from trace_core.ports.clock import Clock
from trace_core.storage.model import Backend
from trace_core.tasks.claim import Claimed, InputPin, claimed_from
from trace_core.tasks.model import staging_prefix, token_lifetime, version_prefix
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
    pins: tuple[InputPin, ...]
    read_prefixes: tuple[str, ...]
    write_prefixes: tuple[str, ...]
    lifetime: timedelta


class IssueToken(Protocol):
    def __call__(self, request: TokenRequest) -> str: ...


@dataclass(frozen=True)
class JobInput:
    """One dataset behind one input of a job; a published name may stand for several."""

    input_index: int
    alias: str
    dataset_uuid: UUID
    filter: Any
    triggers: bool
    """Whether its events make tasks; a rewrite of any input does."""


@dataclass(frozen=True)
class JobOutput:
    output_index: int
    dataset_uuid: UUID
    dataset_version: UUID
    backend: str
    update_strategy: str
    unique_key: tuple[str, ...]
    columns: list[dict[str, str]] | None
    """None until they are declared, or known from the first commit."""
    readable: int
    """The last commit that is known here, when the job was read."""


@dataclass(frozen=True)
class JobInfo:
    """What does not change while a job exists, as soon as its outputs have columns."""

    job: dict[str, Any]
    operator: str
    config: dict[str, Any]
    inputs: tuple[JobInput, ...]
    outputs: tuple[JobOutput, ...]
    timeout: timedelta

    @property
    def is_source(self) -> bool:
        return bool(self.job["activation"] == "source")

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left to be learned about it.

        A source whose rows go to Postgres is told each time what is known of them.
        """
        if self.is_source and any(out.backend == Backend.POSTGRES for out in self.outputs):
            return False
        return all(
            out.columns is not None or out.backend == Backend.CONTROL for out in self.outputs
        )

    def inputs_of(self, dataset_uuid: UUID) -> list[JobInput]:
        return [each for each in self.inputs if each.dataset_uuid == dataset_uuid]


_Shared = tuple[JobInfo, list[dict[str, Any]]]


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
        self._read_at: dict[UUID, datetime] = {}
        self._versions: dict[UUID, tuple[UUID, str]] = {}
        """Dataset and backend of each version that was ever named."""

    def build(self, claims: Sequence[Claimed]) -> list[dict[str, Any]]:
        """One payload for each claim; what the claims of one job share is read and made once."""
        self._learn_versions(claims)
        shared: dict[tuple[UUID, tuple[InputPin, ...]], _Shared] = {}
        payloads = []
        for claim in claims:
            key = (claim.job_id, claim.pins)
            if key not in shared:
                shared[key] = self._shared(*key)
            payloads.append(self._payload(claim, *shared[key]))
        return payloads

    def _shared(self, job_id: UUID, pins: tuple[InputPin, ...]) -> _Shared:
        info = self.job(job_id)
        read = {(pin.input_index, self._versions[pin.dataset_version][0]) for pin in pins}
        if pins and read != {(each.input_index, each.dataset_uuid) for each in info.inputs}:
            # What is behind a published name has changed since the job was read.
            info = self._jobs[job_id] = self._read_job(job_id)
            self._read_at[job_id] = self._clock.now()
        return info, self._inputs(info, pins)

    def _learn_versions(self, claims: Sequence[Claimed]) -> None:
        named = {pin.dataset_version for pins in {c.pins for c in claims} for pin in pins}
        named |= {claim.trigger.dataset_version for claim in claims if claim.trigger is not None}
        missing = [version for version in named if version not in self._versions]
        if missing:
            rows = self._state.read(SQL["datasets_of_versions"], {"versions": Uuids(missing)})
            for row in rows:
                self._versions[row.dataset_version] = (row.dataset_uuid, row.backend)

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
        """Remembered for a few seconds: how a job runs may change with the version of its DAG."""
        known = self._jobs.get(job_id)
        now = self._clock.now()
        old = now - self._read_at.get(job_id, now) > limits.JOB_MEMORY
        if known is None or old or not known.is_settled:
            known = self._jobs[job_id] = self._read_job(job_id)
            self._read_at[job_id] = now
        return known

    def _read_job(self, job_id: UUID) -> JobInfo:
        row = self._state.read(SQL["job_info"], {"job_id": job_id})[0]
        inputs = self._state.read(SQL["inputs_of_job"], {"job_id": job_id})
        outputs = self._state.read(SQL["written_by_job"], {"job_id": job_id})
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
                JobInput(
                    each.input_index, each.alias, each.dataset_uuid, each.filter, each.triggers
                )
                for each in inputs
            ),
            tuple(
                JobOutput(
                    out.output_index,
                    out.dataset_uuid,
                    out.dataset_version,
                    out.backend,
                    out.update_strategy,
                    tuple(out.unique_key),
                    out.columns,
                    out.readable,
                )
                for out in outputs
            ),
            timedelta(seconds=row.timeout_seconds),
        )

    def _payload(
        self, claim: Claimed, info: JobInfo, inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        run = f"{claim.attempt}-{claim.lease_sequence}"
        outputs = [
            {
                "output_index": out.output_index,
                "dataset_uuid": str(out.dataset_uuid),
                "dataset_version": str(out.dataset_version),
                "backend": out.backend,
                "update_strategy": out.update_strategy,
                "unique_key": list(out.unique_key),
                "columns": out.columns,
                "readable": out.readable if info.is_source else None,
                "staging_prefix": staging_prefix(
                    claim.org_id,
                    out.dataset_uuid,
                    out.dataset_version,
                    claim.task_id,
                    claim.attempt,
                    claim.lease_sequence,
                    out.output_index,
                ),
            }
            for out in info.outputs
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
            "trigger": self._trigger(claim, info),
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
                claim.pins,
                self._read_prefixes(claim),
                tuple(item["staging_prefix"] for item in payload["outputs"]),
                token_lifetime(info.timeout),
            )
        )

    def _read_prefixes(self, claim: Claimed) -> tuple[str, ...]:
        """Where the objects of what it reads lie."""
        found = [(pin.dataset_version, *self._versions[pin.dataset_version]) for pin in claim.pins]
        prefixes = [
            version_prefix(claim.org_id, dataset, version)
            for version, dataset, backend in found
            if backend == Backend.S3
        ]
        return tuple(dict.fromkeys(prefixes))

    def _trigger(self, claim: Claimed, info: JobInfo) -> dict[str, Any] | None:
        if claim.trigger is None:
            return None
        version = claim.trigger.dataset_version
        dataset, _ = self._versions[version]
        # The version that triggered may no longer be the one that is read.
        read_as = info.inputs_of(dataset)
        return {
            "event_id": str(claim.trigger.event_id),
            "producer_task_id": str(claim.trigger.producer_task_id),
            "input_index": read_as[0].input_index if read_as else None,
            "dataset_uuid": str(dataset),
            "dataset_version": str(version),
            "revision": claim.trigger.revision,
            **claim.trigger.scope.fields(),
        }

    def _inputs(self, info: JobInfo, pins: tuple[InputPin, ...]) -> list[dict[str, Any]]:
        """The inputs in the job's order, each at its pin; without pins, what they will be of."""
        pinned = {(pin.input_index, self._versions[pin.dataset_version][0]): pin for pin in pins}
        found = []
        for each in info.inputs:
            pin = pinned.get((each.input_index, each.dataset_uuid))
            found.append(
                {
                    "input_index": each.input_index,
                    "alias": each.alias,
                    "dataset_uuid": str(each.dataset_uuid),
                    "dataset_version": str(pin.dataset_version) if pin else None,
                    "commit_number": pin.number if pin else None,
                    "swap": pin.swap if pin else None,
                    "backend": self._versions[pin.dataset_version][1] if pin else None,
                    "filter": each.filter,
                    "triggers": each.triggers,
                }
            )
        return found

    def _operator_state(self, claim: Claimed, info: JobInfo) -> list[dict[str, Any]]:
        if not info.is_source:
            return []
        rows = self._state.read(SQL["read_state"], {"job_id": claim.job_id})
        return [{"key": row.key, "revision": row.revision, "value": row.value} for row in rows]

    def _requests(self, claim: Claimed, info: JobInfo) -> list[dict[str, Any]]:
        # A source that follows something is asked by checks to write a range again.
        if not info.is_source:
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
