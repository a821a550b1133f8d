"""What each route of the user API takes and answers.

`routes.py` says who may call; this says what is said. The document, the client and the tests follow
from the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from trace_core.http import dataset_answers as data
from trace_core.http import dataset_calls, identity_calls, user_calls
from trace_core.http import deploy_answers as deploys
from trace_core.http import identity_answers as people
from trace_core.http import work_answers as work
from trace_core.http.pages import PageQuery
from trace_core.http.routes import ROUTES, Route, Surface
from trace_core.identity.members import AlreadyMember, LastAdmin, RoleInUse
from trace_core.identity.worker_token import TooManyWorkerTokens
from trace_core.kernel.errors import Conflict, DeployUnderWay, PlanStale, TraceError
from trace_core.registry.purge import NotPurgeable, PurgeBegan
from trace_core.registry.reading import Purging
from trace_core.registry.snapshots import SnapshotExists
from trace_core.tasks.admin import NotCancelable, NotRetryable
from trace_core.tasks.invalidations import KeyReused

Answers = Mapping[int, type[BaseModel]]


@dataclass(frozen=True)
class Operation:
    name: str
    """Of the operation in the document, and of the client's method."""
    tag: str
    answers: Answers = field(default_factory=dict)
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    conflicts: tuple[type[TraceError], ...] = ()


def _listed(name: str, tag: str, page: type[BaseModel], query: type[BaseModel]) -> Operation:
    return Operation(name, tag, {200: page}, query=query)


_DAG = "/v1/dags/<dag>"
_JOB = f"{_DAG}/jobs/<job>"
_DATASET = "/v1/datasets/<dataset>"
DAGS, DEPLOYS, DATASETS = "DAGs", "Plans, deploys and backfills", "Datasets"
TASKS, OPERATIONS_TAG, PEOPLE = "Tasks and events", "Operations", "Members and roles"
SECRETS, HOOKS, DOCUMENT = "Secrets and tokens", "Webhooks", "This document"
TAGS = (DAGS, DEPLOYS, DATASETS, TASKS, OPERATIONS_TAG, PEOPLE, SECRETS, HOOKS, DOCUMENT)

OPERATIONS: Mapping[str, Operation] = {
    "GET /v1/openapi.json": Operation("openapi", DOCUMENT),
    "GET /v1/me": Operation("me", PEOPLE, {200: people.Me}),
    "GET /v1/status": Operation("status", OPERATIONS_TAG, {200: work.Status}),
    "GET /v1/dags": _listed("dags", DAGS, work.DagPage, PageQuery),
    "GET /v1/dags/<dag>": Operation("dag", DAGS, {200: work.DagDetail}),
    "GET /v1/dags/<dag>/versions": _listed(
        "dag_versions", DAGS, work.DagVersionPage, PageQuery
    ),
    "GET /v1/dags/<dag>/versions/<number>": Operation(
        "dag_version", DAGS, {200: work.DagVersionDetail}
    ),
    "POST /v1/dags/<dag>/pause": Operation("pause_dag", DAGS, {200: work.DagState}),
    "POST /v1/dags/<dag>/resume": Operation("resume_dag", DAGS, {200: work.DagState}),
    "PUT /v1/dags/<dag>/deploy-roles": Operation(
        "set_deploy_roles", DAGS, {200: work.DagRoles}, body=identity_calls.DeployRoles
    ),
    f"POST {_JOB}/trigger": Operation(
        "trigger", DAGS, {202: work.Asked}, body=user_calls.TriggerRequest
    ),
    f"GET {_JOB}/hook": Operation("hook", HOOKS, {200: people.Hook}),
    f"POST {_JOB}/hook/secret": Operation("rotate_hook_secret", HOOKS, {201: people.HookSecret}),
    "POST /v1/hooks/<source_id>": Operation(
        "call_hook", HOOKS, {202: work.Received, 200: work.Received}, body=identity_calls.HookBody
    ),
    "POST /v1/plans": Operation(
        "plan", DEPLOYS, {200: deploys.Planned}, body=user_calls.PlanRequest
    ),
    "POST /v1/dags": Operation(
        "deploy", DEPLOYS, {201: deploys.Deployed, 200: deploys.Deployed},
        body=user_calls.DeployRequest, conflicts=(DeployUnderWay, PlanStale),
    ),
    f"GET {_DAG}/deploys": _listed("deploys", DEPLOYS, deploys.DeployPage, PageQuery),
    f"GET {_DAG}/deploys/<number>": Operation(
        "deploy_detail", DEPLOYS, {200: deploys.DeployDetail}
    ),
    f"POST {_DAG}/deploys/pause": Operation(
        "pause_deploy", DEPLOYS, {200: deploys.DeployState}, conflicts=(Conflict,)
    ),
    f"POST {_DAG}/deploys/resume": Operation(
        "resume_deploy", DEPLOYS, {200: deploys.DeployState}, conflicts=(Conflict,)
    ),
    f"POST {_DAG}/deploys/cancel": Operation(
        "cancel_deploy", DEPLOYS, {200: deploys.DeployState}, conflicts=(Conflict,)
    ),
    f"GET {_DAG}/rollback": Operation(
        "rollback_preview", DEPLOYS, {200: deploys.RollbackPreview},
        query=user_calls.RollbackQuery,
    ),
    f"POST {_DAG}/rollback": Operation(
        "rollback", DEPLOYS, {200: deploys.RolledBack},
        body=user_calls.RollbackRequest, conflicts=(DeployUnderWay,),
    ),
    f"POST {_JOB}/backfills": Operation(
        "begin_backfill", DEPLOYS, {201: deploys.BackfillBegun}, body=user_calls.BackfillRequest
    ),
    f"GET {_DAG}/backfills": _listed("backfills", DEPLOYS, deploys.BackfillPage, PageQuery),
    f"POST {_DAG}/backfills/<number>/pause": Operation(
        "pause_backfill", DEPLOYS, {200: deploys.BackfillState}, conflicts=(Conflict,)
    ),
    f"POST {_DAG}/backfills/<number>/resume": Operation(
        "resume_backfill", DEPLOYS, {200: deploys.BackfillState}, conflicts=(Conflict,)
    ),
    f"POST {_DAG}/backfills/<number>/cancel": Operation(
        "cancel_backfill", DEPLOYS, {200: deploys.BackfillState}, conflicts=(Conflict,)
    ),
    "GET /v1/tasks": _listed("tasks", TASKS, work.TaskPage, user_calls.TasksQuery),
    "GET /v1/tasks/<task_id>": Operation("task", TASKS, {200: work.TaskDetail}),
    "GET /v1/tasks/<task_id>/attempts": _listed("attempts", TASKS, work.AttemptPage, PageQuery),
    "GET /v1/tasks/<task_id>/logs": Operation("logs", TASKS, {200: work.Logs}),
    "POST /v1/tasks/<task_id>/cancel": Operation(
        "cancel_task", TASKS, {200: work.TaskState}, conflicts=(NotCancelable,)
    ),
    "POST /v1/tasks/<task_id>/retry": Operation(
        "retry_task", TASKS, {200: work.TaskState}, conflicts=(NotRetryable,)
    ),
    "GET /v1/events": _listed("events", TASKS, work.EventPage, user_calls.EventsQuery),
    "GET /v1/datasets": _listed(
        "datasets", DATASETS, data.DatasetPage, dataset_calls.DatasetsQuery
    ),
    f"GET {_DATASET}": Operation("dataset", DATASETS, {200: data.DatasetDetail}),
    f"GET {_DATASET}/versions": _listed(
        "dataset_versions", DATASETS, data.DatasetVersionPage, PageQuery
    ),
    f"GET {_DATASET}/partitions": _listed(
        "dataset_partitions", DATASETS, data.PartitionPage, dataset_calls.PartitionsQuery
    ),
    f"PUT {_DATASET}/read-roles": Operation(
        "set_read_roles", DATASETS, {200: data.ReadRoles}, body=dataset_calls.ReadRolesRequest
    ),
    f"PUT {_DATASET}/owner": Operation(
        "set_dataset_owner", DATASETS, {200: data.Owner}, body=dataset_calls.OwnerRequest
    ),
    f"GET {_DATASET}/snapshots": _listed("snapshots", DATASETS, data.SnapshotPage, PageQuery),
    f"POST {_DATASET}/snapshots": Operation(
        "create_snapshot", DATASETS, {201: data.SnapshotMade},
        body=dataset_calls.SnapshotRequest, conflicts=(SnapshotExists, Conflict),
    ),
    f"DELETE {_DATASET}/snapshots/<snapshot>": Operation(
        "remove_snapshot", DATASETS, {200: data.SnapshotRemoved}
    ),
    f"GET {_DATASET}/head": Operation(
        "head", DATASETS, {200: data.Head}, query=dataset_calls.HeadQuery, conflicts=(Purging,)
    ),
    f"GET {_DATASET}/verify": Operation(
        "verify", DATASETS, {200: data.Verification}, query=dataset_calls.VerifyQuery,
        conflicts=(Purging,),
    ),
    f"GET {_DATASET}/purge-preview": Operation(
        "purge_preview", DATASETS, {200: data.PurgePreview}, query=dataset_calls.PurgeQuery
    ),
    f"POST {_DATASET}/purge": Operation(
        "purge", DATASETS, {202: data.PurgeMarked},
        body=dataset_calls.PurgeRequest, conflicts=(NotPurgeable,),
    ),
    f"POST {_DATASET}/purge/cancel": Operation(
        "cancel_purge", DATASETS, {200: data.PurgeMarked},
        body=dataset_calls.PurgeRequest, conflicts=(PurgeBegan,),
    ),
    f"GET {_DATASET}/lineage": Operation(
        "lineage", DATASETS, {200: data.Lineage}, query=dataset_calls.LineageQuery
    ),
    f"GET {_DATASET}/invalidations": _listed(
        "invalidations", DATASETS, data.InvalidationPage, PageQuery
    ),
    f"POST {_DATASET}/invalidations": Operation(
        "invalidate", DATASETS, {201: data.Invalidated, 200: data.Invalidated},
        body=dataset_calls.InvalidationRequest, conflicts=(KeyReused,),
    ),
    "GET /v1/storage": _listed("storage", DATASETS, data.StoragePage, dataset_calls.StorageQuery),
    "GET /v1/outbox": _listed("outbox", OPERATIONS_TAG, work.OutboxPage, user_calls.OutboxQuery),
    "POST /v1/outbox/reset": Operation(
        "reset_outbox", OPERATIONS_TAG, {200: work.OutboxDone}, body=user_calls.OutboxReset
    ),
    "GET /v1/queues": Operation("queues", OPERATIONS_TAG, {200: work.Queues}),
    "POST /v1/queues/<runtime>/redrive": Operation(
        "redrive", OPERATIONS_TAG, {200: work.Redriven}, body=user_calls.RedriveRequest
    ),
    "GET /v1/quotas": Operation("quotas", OPERATIONS_TAG, {200: work.Counters}),
    "POST /v1/quotas": Operation(
        "set_quota", OPERATIONS_TAG, {200: work.Quota}, body=user_calls.QuotaRequest
    ),
    "POST /v1/quotas/clear": Operation("clear_quota", OPERATIONS_TAG, {200: work.QuotaCleared}),
    "GET /v1/slots": Operation(
        "slots", OPERATIONS_TAG, {200: work.Slots}, query=user_calls.SlotsQuery
    ),
    f"POST {_DAG}/pools/<pool>/slots/<slot>/release": Operation(
        "release_slot", OPERATIONS_TAG, {200: work.SlotReleased}
    ),
    "GET /v1/members": _listed("members", PEOPLE, people.MemberPage, PageQuery),
    "POST /v1/members": Operation(
        "add_member", PEOPLE, {201: people.MemberAdded},
        body=identity_calls.MemberRequest, conflicts=(AlreadyMember,),
    ),
    "PUT /v1/members/<user_id>": Operation(
        "set_member_role", PEOPLE, {200: people.MemberState},
        body=identity_calls.MemberRole, conflicts=(LastAdmin,),
    ),
    "DELETE /v1/members/<user_id>": Operation(
        "remove_member", PEOPLE, {200: people.MemberRemoved}, conflicts=(LastAdmin,)
    ),
    "GET /v1/roles": _listed("roles", PEOPLE, people.RolePage, PageQuery),
    "POST /v1/roles": Operation(
        "add_role", PEOPLE, {201: people.RoleAdded, 200: people.RoleAdded},
        body=identity_calls.RoleRequest,
    ),
    "DELETE /v1/roles/<role>": Operation(
        "remove_role", PEOPLE, {200: people.RoleRemoved}, conflicts=(RoleInUse,)
    ),
    "PUT /v1/roles/<role>/members/<user_id>": Operation(
        "grant_role", PEOPLE, {200: people.RoleGrant}
    ),
    "DELETE /v1/roles/<role>/members/<user_id>": Operation(
        "revoke_role", PEOPLE, {200: people.RoleGrant}
    ),
    "GET /v1/audit": _listed("audit", PEOPLE, people.AuditPage, identity_calls.AuditQuery),
    "GET /v1/secrets": _listed("secrets", SECRETS, people.SecretPage, PageQuery),
    "PUT /v1/secrets/<name>": Operation(
        "set_secret", SECRETS, {201: people.SecretWritten, 200: people.SecretWritten},
        body=identity_calls.SecretRequest,
    ),
    "DELETE /v1/secrets/<name>": Operation("remove_secret", SECRETS, {200: people.SecretRemoved}),
    "GET /v1/worker-tokens": _listed("worker_tokens", SECRETS, people.WorkerTokenPage, PageQuery),
    "POST /v1/worker-tokens": Operation(
        "create_worker_token", SECRETS, {201: people.WorkerTokenMade},
        body=identity_calls.WorkerTokenRequest, conflicts=(TooManyWorkerTokens,),
    ),
    "DELETE /v1/worker-tokens/<token_id>": Operation(
        "revoke_worker_token", SECRETS, {200: people.WorkerTokenRevoked}
    ),
}  # fmt: skip


def user_routes() -> tuple[tuple[Route, Operation], ...]:
    """The routes of the user API in their order, each with what is said on it."""
    return tuple(
        (each, OPERATIONS[f"{each.method} {each.path}"])
        for each in ROUTES
        if each.surface is Surface.USER
    )
