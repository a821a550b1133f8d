"""Every code that an API answers with an error. Codes are never renamed and never mean another."""

from __future__ import annotations

from trace_core.dag.filters import FilterInvalid
from trace_core.dag.problems import DagInvalid
from trace_core.http.body import NotJson
from trace_core.identity.members import AlreadyMember, LastAdmin, RoleInUse
from trace_core.identity.worker_token import TooManyWorkerTokens
from trace_core.kernel import errors
from trace_core.kernel.errors import TraceError
from trace_core.registry.purge import NotPurgeable, PurgeBegan
from trace_core.registry.reading import Purging
from trace_core.registry.snapshots import SnapshotExists
from trace_core.tasks.admin import NotCancelable, NotRetryable
from trace_core.tasks.events import ForeignOutput
from trace_core.tasks.results import ForeignLocation, StateMoved

ERRORS: tuple[type[TraceError], ...] = (
    errors.Rejected,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.NotFound,
    errors.Conflict,
    AlreadyMember,
    errors.AlreadyDeployed,
    LastAdmin,
    NotCancelable,
    NotPurgeable,
    NotRetryable,
    errors.OutcomeDiffers,
    PurgeBegan,
    Purging,
    RoleInUse,
    SnapshotExists,
    errors.StaleAttempt,
    StateMoved,
    errors.TaskCanceled,
    TooManyWorkerTokens,
    errors.TooLarge,
    NotJson,
    errors.Invalid,
    DagInvalid,
    FilterInvalid,
    ForeignLocation,
    ForeignOutput,
    errors.RateLimited,
    errors.Unavailable,
)
INTERNAL = ("Internal", 500, "Something failed inside Trace.")
OF_TASKS = frozenset(
    {
        errors.OutcomeDiffers,
        errors.StaleAttempt,
        errors.TaskCanceled,
        FilterInvalid,
        ForeignLocation,
        ForeignOutput,
        StateMoved,
    }
)
"""Those that workers and tasks are answered, and users never."""
