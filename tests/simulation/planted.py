"""Bugs that the harness must catch: those of tasks here, and those of deploys beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from tests.simulation.database import SQL as SIMULATION
from tests.simulation.planted_deploys import DEPLOY_BUGS, SMALL_DEPLOY_BUGS
from tests.simulation.planting import Bug, DoesNotMatch, all_of, edit, patch, pattern
from trace_core.database.state import StateDatabase
from trace_core.deploy.registration import Registration
from trace_core.outbox.store import SQL as OUTBOX
from trace_core.outbox.store import Outbox, OutboxRow
from trace_core.tasks import complete, reaper, results
from trace_core.tasks.metering import Capacity
from trace_core.tasks.model import Outcome
from trace_core.tasks.statements import SQL as TASKS

_COMPLETES = ("complete", "complete_metered")
_ACCEPTS = ("accept", "accept_verified")
_CLAIMS = ("claim", "claim_of_job", "reserve", "reserve_of_job")


def _finish_first(take_due: Any) -> Any:
    def taken(self: Outbox, *arguments: Any) -> list[OutboxRow]:
        rows: list[OutboxRow] = take_due(self, *arguments)
        if rows:
            self.finish(rows)
        return rows

    return taken


def _in_two_transactions(write: Any) -> Any:
    """Record the events, commit, and make their tasks afterwards."""
    route = pattern("JOIN routes r ON r.dataset_version = f.dataset_version")

    def written(self: StateDatabase, name: str, sql: str, params: Any) -> list[Any]:
        if name not in (*_COMPLETES, "accept"):
            return write(self, name, sql, params)  # type: ignore[no-any-return]
        unrouted, count = route.subn(lambda match: f"{match[0]} AND false", sql)
        if not count:
            raise DoesNotMatch(f"{name} has no {route.pattern!r}")
        rows: list[Any] = write(self, name, unrouted, params)
        ids = {"event_ids": list(params["event_ids"]), "now": params["now"]}
        write(self, "route_later", SIMULATION["route_later"], ids)
        return rows

    return written


def _ends_without(outcomes: set[Outcome], **changes: Any) -> Callable[[Any], Any]:
    def make(end_leases: Any) -> Any:
        def end(tx: Any, org_id: Any, ends: Any, **rest: Any) -> Any:
            spoiled = [replace(e, **changes) if e.outcome in outcomes else e for e in ends]
            return end_leases(tx, org_id, spoiled, **rest)

        return end

    return make


def _never_counts(end_attempt: Any) -> Any:
    def end(outcome: Any, *, failures: int, **rest: Any) -> Any:
        return end_attempt(outcome, failures=min(failures, 1), **rest)

    return end


def _any_hour(free: Any) -> Any:
    def unlimited(self: Capacity, *arguments: Any) -> Any:
        return free(replace(self, max_starts_hourly=None), *arguments)

    return unlimited


def _without_quota(ensure_job: Any) -> Any:
    def ensure(self: Registration, job: Any, fingerprint: str, _quota: Any) -> None:
        ensure_job(self, job, fingerprint, None)

    return ensure


def _commits_before_sources(add_source_task: Any) -> Any:
    def add(self: Registration, job: Any) -> None:
        self._tx.run("COMMIT", {})
        self._tx.run("BEGIN", {})
        add_source_task(self, job)

    return add


_MADE = "JOIN jobs j ON j.job_id = m.job_id"
_GONE = (
    "gone AS ( DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT row_id FROM picked)) RETURNING *"
)
_COPIED = "gone AS (SELECT * FROM ready WHERE ctid = ANY (ARRAY(SELECT row_id FROM picked))"
_RELEASED = "WHERE d.metered GROUP BY c.capacity_id"
_LEASE_ORG = "AND l.org_id = %(org_id)s"

_TASK_BUGS = (
    Bug("no_fence_in_complete", "a completion needs neither attempt nor token", edit(
        TASKS, _COMPLETES,
        ("AND l.attempt = i.attempt", ""), ("AND l.lease_token = i.lease_token", ""))),
    Bug("no_outbox_row_on_route", "new tasks are queued without a wake-up", edit(
        TASKS, (*_COMPLETES, *_ACCEPTS), (_MADE, f"{_MADE} AND false"))),
    Bug("double_claim", "a claimed task stays in the queue", edit(
        TASKS, _CLAIMS, (_GONE, _COPIED))),
    Bug("slot_leak_on_failure", "an attempt that ends badly keeps its slot", edit(
        TASKS, ("end_attempts",), ("WHERE d.metered AND s.slot_id", "WHERE false AND s.slot_id"))),
    Bug("capacity_leak_on_timeout", "an expired lease keeps its share of a counter", edit(
        TASKS, ("end_attempts",),
        (_RELEASED, "WHERE d.metered AND d.outcome IS DISTINCT FROM 'LeaseExpired' "
                    "GROUP BY c.capacity_id"))),
    Bug("retry_without_wakeup", "a retry that falls due is queued without a wake-up", edit(
        TASKS, ("move_due",),
        ("JOIN jobs j ON j.job_id = g.job_id", "JOIN jobs j ON j.job_id = g.job_id AND false"))),
    Bug("release_without_wakeup", "freed capacity wakes nobody", edit(
        TASKS, ("complete_metered", "end_attempts"),
        ("WHERE j.capacity_ids && ARRAY", "WHERE false AND j.capacity_ids && ARRAY"))),
    Bug("late_completion_refused", "what the reaper gave up cannot complete", edit(
        TASKS, ("take_back",),
        ("AND lease_token = %(lease_token)s", "AND lease_token = %(lease_token)s AND false"))),
    Bug("reaper_clears_token", "the fence of the last attempt is forgotten", edit(
        TASKS, ("end_attempts",),
        ("d.lapses, d.lease_sequence, d.lease_token, d.continues",
         "d.lapses, d.lease_sequence, NULL::uuid, d.continues"))),
    Bug("dedupe_without_version", "two outputs with one scope count as one event", all_of(
        edit(TASKS, _COMPLETES, ("FROM numbered n JOIN", "FROM (SELECT DISTINCT ON "
             "(task_id, scope, revision) * FROM numbered) n JOIN")),
        edit(TASKS, _ACCEPTS, ("FROM numbered n ON",
              "FROM (SELECT DISTINCT ON (scope, revision) * FROM numbered) n ON")))),
    Bug("dedupe_without_revision", "a rewrite counts as a repetition", edit(
        TASKS, (*_COMPLETES, *_ACCEPTS), ("n.scope, n.revision, n.event_id",
                                          "n.scope, 0::bigint, n.event_id"))),
    Bug("duplicate_invoke_runs_twice", "a start token can be exchanged again", edit(
        TASKS, ("start",), ("AND l.started_at IS NULL AND l.canceled_at", "AND l.canceled_at"))),
    Bug("dead_run_never_comes_back", "a reservation nobody exchanged is never taken back", edit(
        TASKS, ("lock_expired",),
        ("WHERE (l.lease_expires_at <= %(now)s OR",
         "WHERE ((l.started_at IS NOT NULL AND l.lease_expires_at <= %(now)s) OR"))),
    Bug("lost_exchange_reply", "a runner whose answer was lost gets nothing", edit(
        TASKS, ("started_before",), ("AND l.worker_id = %(runner_id)s", "AND false"))),
    Bug("lapsed_reservation_keeps_capacity", "a lapsed reservation gives nothing back", edit(
        TASKS, ("end_attempts",), (_RELEASED, "WHERE d.metered AND d.started_at IS NOT NULL "
                                          "GROUP BY c.capacity_id"))),
    Bug("event_and_tasks_apart", "events and their tasks are two transactions", patch(
        StateDatabase, "write", _in_two_transactions)),
    Bug("cancel_extends_lease", "a canceled task lives on by its heartbeats", edit(
        TASKS, ("heartbeat",), ("AND canceled_at IS NULL", ""))),
    Bug("yield_loses_state", "a slice that yields does not keep its state", patch(
        results, "put_state", lambda _put: lambda *_arguments: None)),
    Bug("outbox_finished_before_send", "an outbox row is done before it is sent", patch(
        Outbox, "take_due", _finish_first)),
    Bug("metering_overshoot", "counters are read without a lock", edit(
        TASKS, ("lock_capacities",), ("ORDER BY c.capacity_id\n   FOR UPDATE",
                                      "ORDER BY c.capacity_id"))),
    Bug("foreign_org_accepted", "events of a task may come from any org", edit(
        TASKS, ("accept",), (_LEASE_ORG, ""))),
    Bug("foreign_org_cancels", "a task is found from any org", edit(
        TASKS, ("task_of_org",), ("AND t.org_id = %(org_id)s", ""))),
    Bug("attempts_without_end", "failures are not counted", all_of(
        patch(complete, "end_attempt", _never_counts), patch(reaper, "end_attempt", _never_counts)
    )),
    Bug("failure_ends_at_once", "an expired lease ends the task although attempts are left", patch(
        reaper, "end_leases", _ends_without({Outcome.LEASE_EXPIRED}, due_at=None))),
    Bug("outbox_never_retried", "a row that could not be sent is never due again", edit(
        OUTBOX, ("postpone",), ("available_at = d.available_at",
                                "available_at = d.available_at + interval '1 year'"))),
    Bug("quota_forgets_what_runs", "a new quota is not charged with what runs already", edit(
        TASKS, ("adopt_leases",), ("SELECT priority FROM adopted UNION ALL", ""))),
    Bug("hour_without_end", "starts in an hour are counted and not limited", patch(
        Capacity, "free", _any_hour)),
    Bug("deploy_forgets_quota", "jobs that are new are not metered by the quota", patch(
        Registration, "_ensure_job", _without_quota)),
    Bug("half_a_deploy", "sources get their task after the deploy has committed", patch(
        Registration, "_add_source_task", _commits_before_sources)),
)  # fmt: skip

BUGS = (*_TASK_BUGS, *DEPLOY_BUGS)
NAMES = tuple(bug.name for bug in BUGS)
"""What schedules must catch."""


@contextmanager
def planted(name: str) -> Iterator[Bug]:
    """The services with that bug, until the block ends."""
    bug = next(bug for bug in (*BUGS, *SMALL_DEPLOY_BUGS) if bug.name == name)
    with ExitStack() as stack:
        bug.plant(stack)
        yield bug
