"""The task contract as answers: what the internal API and the task API have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from trace_core.dag.model import Runtime
from trace_core.http.principal import Principal
from trace_core.kernel import limits
from trace_core.kernel.errors import Forbidden, TaskCanceled
from trace_core.kernel.ids import OrgId, TaskId
from trace_core.ports.arrivals import Arrivals
from trace_core.ports.clock import Clock
from trace_core.ports.credential_issuer import CredentialIssuer
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import wake_queue
from trace_core.tasks.api import (
    ClaimRequest,
    CompleteBatch,
    Completion,
    EgressIn,
    EventsRequest,
    Fenced,
    HeartbeatRequest,
    InputRequest,
    LogRequest,
    StartRequest,
)
from trace_core.tasks.claim import Claimed, Claims, Refused
from trace_core.tasks.complete import CompletionResult, Completions
from trace_core.tasks.events import EventAcceptance
from trace_core.tasks.inputs import TaskInputs
from trace_core.tasks.leases import Leases
from trace_core.tasks.model import TaskStatus
from trace_core.tasks.payload import Payloads
from trace_core.tasks.slots import Slots
from trace_core.worker.logs import log_key


class TaskServices(Protocol):
    """The services of the task contract, as the composition root has them."""

    @property
    def claims(self) -> Claims: ...
    @property
    def payloads(self) -> Payloads: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def events(self) -> EventAcceptance: ...
    @property
    def completions(self) -> Completions: ...
    @property
    def task_inputs(self) -> TaskInputs: ...
    @property
    def slots(self) -> Slots: ...


class LogServices(Protocol):
    """What logs are kept with."""

    @property
    def leases(self) -> Leases: ...
    @property
    def objects(self) -> ObjectStore: ...


class CredentialServices(Protocol):
    """What credentials are made with."""

    @property
    def clock(self) -> Clock: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def credential_issuer(self) -> CredentialIssuer: ...


class FetchQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task_id: UUID


class WakeUpsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seen: Annotated[int, Field(ge=0)] | None = None
    wait_seconds: Annotated[
        float, Field(ge=0, le=limits.LONG_POLL_MAX.total_seconds(), allow_inf_nan=False)
    ] = 0


def wake_ups(arrivals: Arrivals, org_id: OrgId, query: WakeUpsQuery) -> dict[str, Any]:
    """A number that changes when there may be work; the caller then claims.

    Nothing is claimed here: a caller that has gone meanwhile would hold leases until they end.
    """
    queue = wake_queue(Runtime.WORKER, org_id)
    wait = timedelta(seconds=query.wait_seconds)
    return {"seen": arrivals.next(queue, query.seen, wait)}


def claim(app: TaskServices, org_id: OrgId, request: ClaimRequest) -> dict[str, Any]:
    """One id gets one answer; ids or a queue get a list."""
    if request.task_id is not None:
        ids = [TaskId(request.task_id)]
        found = app.claims.claim_ids(org_id, ids, request.worker_id)
        return _answer(app, found[0])
    if request.task_ids is not None:
        # The same id twice would be claimed once and then refused: ask once.
        ids = [TaskId(each) for each in dict.fromkeys(request.task_ids)]
        several = app.claims.claim_ids(org_id, ids, request.worker_id)
        return {"claims": [_answer(app, each) for each in several]}
    runtime = request.queue or Runtime.WORKER
    claimed = app.claims.claim(org_id, runtime, request.limit, request.worker_id)
    payloads = app.payloads.build(claimed)
    return {"claims": [_claimed(*each) for each in zip(claimed, payloads, strict=True)]}


def start(app: TaskServices, request: StartRequest) -> dict[str, Any]:
    found = app.claims.start(request)
    if isinstance(found, Refused):
        return _refused(found)
    return _claimed(found, app.payloads.started(found))


def heartbeat(app: TaskServices, org_id: OrgId, request: HeartbeatRequest) -> dict[str, Any]:
    beat = app.leases.heartbeat(org_id, request.fence)
    return {"status": beat.status, "lease_expires_at": beat.lease_expires_at}


def resolve_input(app: TaskServices, org_id: OrgId, request: InputRequest) -> dict[str, Any]:
    return app.task_inputs.resolve(org_id, request)


def accept(app: TaskServices, org_id: OrgId, request: EventsRequest) -> dict[str, Any]:
    done = app.events.accept(org_id, request)
    answer: dict[str, Any] = {
        "accepted": done.accepted,
        "duplicates": done.duplicates,
        "tasks_made": done.tasks_made,
    }
    if request.outputs:
        answer["commits"] = [
            {
                "output_index": each.output_index,
                "dataset_version": each.dataset_version,
                "commit_number": each.commit_number,
                **each.scope.fields(),
            }
            for each in done.commits
        ]
    return answer


def complete(
    app: TaskServices, org_id: OrgId, request: Completion | CompleteBatch
) -> dict[str, Any]:
    """A single completion raises what was wrong with it; a list says so for each."""
    # Before the attempts end: then it is still known which slots they held.
    app.slots.report(org_id, [request] if isinstance(request, Completion) else request.completions)
    if isinstance(request, Completion):
        result = app.completions.complete(org_id, [request])[0]
        if result.error is not None:
            raise result.error
        return _result(result)
    results = app.completions.complete(org_id, request.completions)
    return {"results": [_result(result) for result in results]}


def egress_of(request: Completion | CompleteBatch) -> EgressIn | None:
    """What the attempts took of their upstreams, all together; nothing if they took nothing."""
    reports = [request] if isinstance(request, Completion) else request.completions
    used = [each.egress for each in reports if each.egress is not None]
    if not used:
        return None
    return EgressIn(
        requests=sum(each.requests for each in used),
        rate_limited=sum(each.rate_limited for each in used),
        errors=sum(each.errors for each in used),
    )


def keep_log(app: LogServices, org_id: OrgId, request: LogRequest) -> None:
    """Once: a log that is there already stays as it is."""
    app.leases.heartbeat(org_id, request.fence)
    key = log_key(org_id, request.task_id, request.attempt, request.lease_sequence)
    app.objects.create(key, request.data)


def credentials(app: CredentialServices, principal: Principal) -> dict[str, Any]:
    """For what the token names, and only while its attempt runs."""
    grant, fence = principal.grant, principal.fence
    if grant is None or fence is None:
        raise Forbidden
    if app.leases.heartbeat(principal.org_id, fence).status is TaskStatus.CANCELED:
        raise TaskCanceled(task_id=str(fence.task_id))
    found = app.credential_issuer.issue(
        name=f"{fence.task_id}-{fence.attempt}",
        read_prefixes=grant.read_prefixes,
        write_prefixes=grant.write_prefixes,
        lifetime=grant.expires_at - app.clock.now(),
    )
    return {
        "root": found.root,
        "environment": found.environment,
        "expires_at": found.expires_at,
    }


def require_own_task(principal: Principal, request: Fenced) -> None:
    """A capability token speaks for its one attempt and for nothing else."""
    if principal.fence is None or principal.fence != request.fence:
        raise Forbidden("This token was issued for another task, attempt or lease.")


def _answer(app: TaskServices, found: Claimed | Refused) -> dict[str, Any]:
    if isinstance(found, Refused):
        return _refused(found)
    return _claimed(found, app.payloads.build([found])[0])


def _refused(refused: Refused) -> dict[str, Any]:
    return {"status": "NotClaimed", "task_id": refused.task_id, "reason": refused.reason}


def _claimed(claim: Claimed, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "Claimed",
        "attempt": claim.attempt,
        "lease_token": claim.lease_token,
        "lease_expires_at": claim.lease_expires_at,
        "task": payload,
    }


def _result(result: CompletionResult) -> dict[str, Any]:
    if result.error is not None:
        return {"task_id": result.task_id, **result.error.body()}
    return {"task_id": result.task_id, "status": result.status}


def number_claimed(answer: dict[str, Any]) -> int:
    several = answer.get("claims", [answer])
    return sum(each["status"] == "Claimed" for each in several)


def number_failed(answer: dict[str, Any]) -> int:
    """Attempts that their runner reported as failed."""
    several = answer.get("results", [answer])
    return sum(each.get("status") == "Failed" for each in several)
