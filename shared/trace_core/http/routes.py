"""Every route of every API: the one kind of principal that may call it, and what a user must be.

Plain data, so that documents about the API are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trace_core.http.principal import Kind
from trace_core.identity.model import PlatformRole
from trace_core.identity.rate_limits import Rate

READER, WRITER, ADMIN = PlatformRole.READER, PlatformRole.WRITER, PlatformRole.ADMIN


class Surface(StrEnum):
    """The APIs; each has a gateway, or locally a port, of its own."""

    USER = "user_api"
    INTERNAL = "internal_api"
    TASK = "task_api"


@dataclass(frozen=True)
class Route:
    surface: Surface
    method: str
    path: str
    kind: Kind
    role: PlatformRole | None
    """The least that a user must be in its org; None for every other kind."""
    summary: str
    rate: Rate = Rate.GENERAL
    """As what a user's request is counted."""
    waits: bool = False
    """The caller chooses how long it takes, so its latency says nothing about us."""

    def __post_init__(self) -> None:
        # A route that forgets its role must not exist, rather than be open to every member.
        if (self.kind is Kind.USER) is not (self.role is not None):
            raise ValueError(f"{self.method} {self.path}: users have a role, other kinds none")


def _internal(method: str, path: str, summary: str, kind: Kind = Kind.WORKER) -> Route:
    return Route(Surface.INTERNAL, method, path, kind, None, summary)


def _task(path: str, summary: str, kind: Kind = Kind.TASK) -> Route:
    return Route(Surface.TASK, "POST", path, kind, None, summary)


def _user(method: str, path: str, role: PlatformRole, summary: str) -> Route:
    return Route(Surface.USER, method, path, Kind.USER, role, summary)


_DAG = "/v1/dags/<dag>"
_JOB = f"{_DAG}/jobs/<job>"
_DATASET = "/v1/datasets/<dataset>"

ROUTES = (
    _internal("POST", "/internal/task-claim", "Lease tasks."),
    _internal("GET", "/internal/task-fetch", "Read one task."),
    Route(
        Surface.INTERNAL, "GET", "/internal/wake-ups", Kind.WORKER, None,
        "Wait until there may be work.", waits=True,
    ),
    _internal("POST", "/internal/heartbeat", "Extend a lease."),
    _internal("POST", "/internal/task-inputs", "Find what a running task reads, at its pin."),
    _internal("POST", "/internal/events", "Announce events of a running task."),
    _internal("POST", "/internal/task-complete", "End one attempt, or several."),
    _internal("GET", "/internal/jwks/task", "Public keys of capability tokens.", Kind.NOBODY),
    _task("/v1/task/start", "Exchange a start token for the lease.", Kind.START),
    _task("/v1/task/heartbeat", "Extend the lease of this attempt."),
    _task("/v1/task/events", "Announce events of this attempt."),
    _task("/v1/task/inputs", "Find what this attempt reads, at its pin."),
    _task("/v1/task/complete", "End this attempt."),
    _task("/v1/task/logs", "Keep what this attempt printed."),
    _task("/v1/task/credentials", "Get credentials for the prefixes of this attempt."),
    Route(
        Surface.USER, "GET", "/v1/openapi.json", Kind.NOBODY, None, "This API as OpenAPI 3.1.",
    ),
    _user("GET", "/v1/me", READER, "Who you are, in which org, with which roles."),
    _user("GET", "/v1/status", READER, "Backlog and progress of every job."),
    _user("GET", "/v1/dags", READER, "The deployed DAGs."),
    _user("GET", "/v1/dags/<dag>", READER, "One DAG with its jobs."),
    _user("GET", "/v1/dags/<dag>/versions", READER, "The versions of a DAG, newest first."),
    _user("GET", "/v1/dags/<dag>/versions/<number>", READER, "One version with its file."),
    _user("POST", "/v1/dags/<dag>/pause", WRITER, "Let nothing of a DAG be claimed."),
    _user("POST", "/v1/dags/<dag>/resume", WRITER, "Let a paused DAG work again."),
    _user("PUT", "/v1/dags/<dag>/deploy-roles", ADMIN, "Say which org roles may deploy a DAG."),
    _user("POST", f"{_JOB}/trigger", WRITER, "Ask a manual source for something."),
    _user("GET", f"{_JOB}/hook", READER, "Address and secrets of a webhook source; no values."),
    _user("POST", f"{_JOB}/hook/secret", WRITER, "Make a new secret of a webhook, shown once."),
    _user("POST", "/v1/plans", WRITER, "What a DAG file would change; nothing is changed."),
    _user("POST", "/v1/dags", WRITER, "Deploy a DAG file."),
    _user("GET", f"{_DAG}/deploys", READER, "Deploys and rollbacks of a DAG, newest first."),
    _user("GET", f"{_DAG}/deploys/<number>", READER, "One deploy, with its progress."),
    _user("POST", f"{_DAG}/deploys/pause", WRITER, "Let the build that is under way rest."),
    _user("POST", f"{_DAG}/deploys/resume", WRITER, "Let a paused or failed build go on."),
    _user("POST", f"{_DAG}/deploys/cancel", WRITER, "Give up the deploy that is under way."),
    _user("GET", f"{_DAG}/rollback", READER, "What a rollback would do; nothing is changed."),
    _user("POST", f"{_DAG}/rollback", WRITER, "Return to a version that was active before."),
    _user("POST", f"{_JOB}/backfills", WRITER, "Compute a range of one job again."),
    _user("GET", f"{_DAG}/backfills", READER, "Backfills of a DAG, newest first."),
    _user("POST", f"{_DAG}/backfills/<number>/pause", WRITER, "Let a backfill rest."),
    _user("POST", f"{_DAG}/backfills/<number>/resume", WRITER, "Let a paused backfill go on."),
    _user("POST", f"{_DAG}/backfills/<number>/cancel", WRITER, "Give up a backfill."),
    _user("GET", "/v1/tasks", READER, "Tasks, newest first."),
    _user("GET", "/v1/tasks/<task_id>", READER, "One task with attempts, inputs and events."),
    _user("GET", "/v1/tasks/<task_id>/attempts", READER, "The attempts that have ended."),
    _user("GET", "/v1/tasks/<task_id>/logs", READER, "What its operator printed."),
    _user("POST", "/v1/tasks/<task_id>/cancel", WRITER, "Cancel a task."),
    _user("POST", "/v1/tasks/<task_id>/retry", WRITER, "Queue an ended task again."),
    _user("GET", "/v1/events", READER, "What tasks announced, newest first."),
    _user("GET", "/v1/datasets", READER, "The published datasets that you may read."),
    _user("GET", _DATASET, READER, "One dataset: parts, readers, neighbours, snapshots."),
    _user("GET", f"{_DATASET}/versions", READER, "Its versions, newest first."),
    _user("GET", f"{_DATASET}/partitions", READER, "What readers see of it, scope by scope."),
    _user("PUT", f"{_DATASET}/read-roles", ADMIN, "Say which org roles may read a dataset."),
    _user("PUT", f"{_DATASET}/owner", ADMIN, "Say whom to ask about a dataset."),
    _user("GET", f"{_DATASET}/snapshots", READER, "Its snapshots with their pins."),
    _user("POST", f"{_DATASET}/snapshots", WRITER, "Name the dataset as it is now."),
    _user("DELETE", f"{_DATASET}/snapshots/<snapshot>", WRITER, "Delete a snapshot."),
    Route(
        Surface.USER, "GET", f"{_DATASET}/head", Kind.USER, READER,
        "Its first rows, at a pin.", Rate.QUERY,
    ),
    _user("GET", f"{_DATASET}/verify", READER, "Read its objects again, and compare."),
    _user("GET", f"{_DATASET}/purge-preview", ADMIN, "What a purge frees, and what it may not."),
    _user("POST", f"{_DATASET}/purge", ADMIN, "Mark versions: they are deleted after a day."),
    _user("POST", f"{_DATASET}/purge/cancel", ADMIN, "Keep marked versions after all."),
    _user("GET", f"{_DATASET}/lineage", READER, "What a scope of it was made from, and by what."),
    _user("GET", f"{_DATASET}/invalidations", READER, "What was declared invalid, and why."),
    _user("POST", f"{_DATASET}/invalidations", WRITER, "Declare a part of a dataset invalid."),
    _user("GET", "/v1/storage", READER, "What is stored of each dataset version."),
    _user("GET", "/v1/outbox", READER, "What waits to leave the database, or was given up."),
    _user("POST", "/v1/outbox/reset", ADMIN, "Send given-up rows again."),
    _user("GET", "/v1/queues", READER, "Wake-ups that wait, are in flight or dead."),
    _user("POST", "/v1/queues/<runtime>/redrive", ADMIN, "Send dead wake-ups again."),
    _user("GET", "/v1/quotas", READER, "The org's quota, and every counter beside its limit."),
    _user("POST", "/v1/quotas", ADMIN, "Set the org's quota."),
    _user("POST", "/v1/quotas/clear", ADMIN, "Remove the org's quota."),
    _user("GET", "/v1/slots", READER, "Slots of worker pools: who holds them, what they took."),
    _user("POST", f"{_DAG}/pools/<pool>/slots/<slot>/release", WRITER, "End its quarantine."),
    _user("GET", "/v1/members", READER, "The members of the org."),
    _user("POST", "/v1/members", ADMIN, "Add a member."),
    _user("PUT", "/v1/members/<user_id>", ADMIN, "Set a member's platform role."),
    _user("DELETE", "/v1/members/<user_id>", ADMIN, "Remove a member."),
    _user("GET", "/v1/roles", READER, "The roles of the org."),
    _user("POST", "/v1/roles", ADMIN, "Add a role."),
    _user("DELETE", "/v1/roles/<role>", ADMIN, "Remove a role."),
    _user("PUT", "/v1/roles/<role>/members/<user_id>", ADMIN, "Grant a role."),
    _user("DELETE", "/v1/roles/<role>/members/<user_id>", ADMIN, "Revoke a role."),
    _user("GET", "/v1/audit", ADMIN, "Who did what."),
    _user("GET", "/v1/secrets", WRITER, "Names of secrets; no values."),
    _user("PUT", "/v1/secrets/<name>", WRITER, "Write a secret."),
    _user("DELETE", "/v1/secrets/<name>", WRITER, "Remove a secret."),
    _user("GET", "/v1/worker-tokens", ADMIN, "Worker tokens, as far as they can be known."),
    _user("POST", "/v1/worker-tokens", ADMIN, "Make a worker token, shown once."),
    _user("DELETE", "/v1/worker-tokens/<token_id>", ADMIN, "Revoke a worker token."),
    Route(
        Surface.USER, "POST", "/v1/hooks/<source_id>", Kind.SOURCE, None,
        "Call a webhook source: signed by Standard Webhooks.",
    ),
)  # fmt: skip


def route(surface: Surface, method: str, path: str) -> Route:
    """The declared route; one that the table does not have fails when its handler is imported."""
    for each in ROUTES:
        if (each.surface, each.method, each.path) == (surface, method, path):
            return each
    raise LookupError(f"{method} {path} is not declared for {surface}")
