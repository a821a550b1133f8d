"""Every code that an API answers with an error. Codes are never renamed and never mean another."""

from __future__ import annotations

from trace_core.dag.filters import FilterInvalid
from trace_core.dag.problems import DagInvalid
from trace_core.http.body import NotJson
from trace_core.identity.members import AlreadyMember, LastAdmin, RoleInUse
from trace_core.identity.worker_token import TooManyWorkerTokens
from trace_core.kernel import errors
from trace_core.kernel.errors import TraceError
from trace_core.registry.commits import CommitDiffers
from trace_core.registry.model import ColumnsDiffer, OutputsOverlap
from trace_core.registry.purge import NotPurgeable, PurgeBegan
from trace_core.registry.reading import Purging
from trace_core.registry.snapshots import SnapshotExists
from trace_core.storage.errors import ManifestInvalid, PartialOverlap
from trace_core.tasks.admin import NotCancelable, NotRetryable
from trace_core.tasks.announcements import ForeignOutput, UncommittedScope
from trace_core.tasks.invalidations import KeyReused
from trace_core.tasks.outputs import CommitUnknown, ForeignLocation
from trace_core.tasks.results import StateMoved

ERRORS: tuple[type[TraceError], ...] = (
    errors.Rejected,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.NotFound,
    errors.Conflict,
    AlreadyMember,
    CommitDiffers,
    errors.DeployUnderWay,
    errors.PlanStale,
    KeyReused,
    LastAdmin,
    NotCancelable,
    NotPurgeable,
    NotRetryable,
    errors.OutcomeDiffers,
    PurgeBegan,
    Purging,
    PartialOverlap,
    RoleInUse,
    SnapshotExists,
    errors.StaleAttempt,
    StateMoved,
    errors.Superseded,
    errors.TaskCanceled,
    TooManyWorkerTokens,
    errors.TooLarge,
    NotJson,
    errors.Invalid,
    ColumnsDiffer,
    CommitUnknown,
    DagInvalid,
    FilterInvalid,
    ForeignLocation,
    ForeignOutput,
    ManifestInvalid,
    OutputsOverlap,
    UncommittedScope,
    errors.RateLimited,
    errors.Unavailable,
)
INTERNAL = ("Internal", 500, "Something failed inside Trace.")
OF_TASKS = frozenset(
    {
        errors.OutcomeDiffers,
        errors.StaleAttempt,
        errors.Superseded,
        errors.TaskCanceled,
        ColumnsDiffer,
        CommitDiffers,
        CommitUnknown,
        FilterInvalid,
        ForeignLocation,
        ForeignOutput,
        ManifestInvalid,
        OutputsOverlap,
        PartialOverlap,
        StateMoved,
        UncommittedScope,
    }
)
"""Those that workers and tasks are answered, and users never."""
