"""Bugs of deploys, builds and switches that the harness must catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.database import SQL as SIMULATION
from tests.simulation.planting import Bug, all_of, edit, patch
from trace_core.deploy import builds, service
from trace_core.deploy.statements import SQL as DEPLOY
from trace_core.tasks.statements import SQL as TASKS

_ANNOUNCING = ("complete", "complete_metered", "accept", "accept_verified")
_STARTS = ("claim", "claim_of_job", "start")
_LAST = (
    "(SELECT coalesce(max(x.number), 0) FROM events x WHERE x.dataset_version = c.dataset_version)"
)
_DERIVED = "SELECT r.* FROM derived_routes r WHERE r.job_id IN (SELECT job_id FROM touched)"


class _TwoTransactions:
    """Commits before the statement that makes a version active."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    def run(self, sql: str, params: Any) -> Any:
        if sql == DEPLOY["activate"]:
            self._tx.run("COMMIT", {})
            self._tx.run("BEGIN", {})
        return self._tx.run(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def _apart(switch_version: Any) -> Any:
    return lambda tx, ids, switch: switch_version(_TwoTransactions(tx), ids, switch)


def _never(_original: Any) -> Callable[..., int]:
    return lambda *_arguments: 0


DEPLOY_BUGS = (
    Bug("number_without_lock", "numbers come from a sequence and not from a locked counter", all_of(
        edit(TASKS, _ANNOUNCING,
             ("ORDER BY dataset_version FOR UPDATE", "ORDER BY dataset_version"),
             ("last_number + row_number() OVER (PARTITION BY dataset_version ORDER BY event_id)",
              "nextval('simulation.numbers')"),
             ("SET last_number = t.last_number + a.count, readable = t.last_number + a.count, "
              "max_end = greatest(t.max_end, a.max)", "SET max_end = t.max_end "),
             ("WHERE c.dataset_version = t.dataset_version AND NOT", "WHERE false AND NOT")),
        edit(DEPLOY, ("open_gaps", "close_gaps"), ("c.last_number", _LAST)),
        edit(DEPLOY, ("open_build",), ("c.last_number, bool", f"{_LAST} AS last_number, bool"),
             ("GROUP BY i.job_id, i.dataset_version, c.last_number",
              "GROUP BY i.job_id, i.dataset_version, c.dataset_version")))),
    Bug("epoch_not_raised", "a switch does not say that routes have changed", edit(
        DEPLOY, ("raise_epochs",), ("WHERE dataset_version", "WHERE false AND dataset_version"))),
    Bug("moved_routes_ignored", "routes that were chosen before a switch count after it", edit(
        TASKS, _ANNOUNCING, ("WHERE c.epoch <> t.epoch", "WHERE false"))),
    Bug("held_tasks_not_revived", "what waited when its version left does not come back", edit(
        DEPLOY, ("revive",), ("AND a.final AND", "AND a.final AND false AND"))),
    Bug("gap_not_opened", "what a job misses after it left is not noted", edit(
        DEPLOY, ("open_gaps",), ("AND j.standing = 'retired'", "AND false"))),
    Bug("gap_not_closed", "what a job missed does not end when it is back", edit(
        DEPLOY, ("close_gaps",), ("AND g.up_to IS NULL", "AND false"))),
    Bug("gap_dropped_unfilled", "a gap is gone before it was filled", edit(
        DEPLOY, ("drop_empty_gaps",), ("g.up_to <= g.after_number", "g.up_to IS NOT NULL"))),
    Bug("candidate_events_reach_active_jobs", "events go to readers of any version", edit(
        DEPLOY, ("refresh_routes",), (_DERIVED, SIMULATION["routes_of_any_version"]))),
    Bug("live_events_reach_candidates", "a candidate gets what comes after its hold twice", edit(
        DEPLOY, ("refresh_routes",), (_DERIVED, SIMULATION["routes_of_candidates"]))),
    Bug("pointers_and_version_apart", "pointers move in a transaction of their own", all_of(
        patch(builds, "switch_version", _apart), patch(service, "switch_version", _apart))),
    Bug("hold_does_not_stop_claims", "claims do not look whether a job may run", edit(
        TASKS, ("claim", "reserve"), ("AND j.claimable", ""))),
    Bug("cancel_ends_sources", "the task of a replaced source ends with it", edit(
        DEPLOY, ("cancel_retired",), ("AND j.activation <> 'source'", ""))),
    Bug("pins_not_fixed", "a candidate reads what is newest", edit(
        TASKS, _STARTS, ("coalesce(i.pinned_at, v.readable)", "v.readable "))),
    Bug("cut_over_with_open_tasks", "a build counts as whole while its tasks run", edit(
        DEPLOY, ("build_state",),
        ("coalesce(sum(o.waiting), 0)::bigint AS waiting", "0::bigint AS waiting"),
        ("coalesce(sum(o.running), 0)::bigint AS running", "0::bigint AS running"))),
    Bug("resumed_build_starts_anew", "each deploy of a version makes tasks of its own", edit(
        DEPLOY, ("fill_scopes",), ("(left(e.event_id::text, 32) || %(route)s)::uuid",
                                   "(left(e.event_id::text,32)||right(%(deploy_id)s::text,4))::uuid"))),
    # Without the second half, what they missed is found as if they read it for the first time.
    Bug("rollback_forgets_removed_jobs", "only jobs with a successor have a gap", all_of(
        edit(DEPLOY, ("open_gaps",), ("AND j.standing = 'retired'", """AND j.standing = 'retired'
         AND EXISTS (SELECT FROM dag_version_jobs a JOIN jobs n ON n.job_id = a.job_id
                      WHERE a.dag_version_id = %(to_version)s AND n.name = j.name)""")),
        edit(DEPLOY, ("open_history",), ("AND r.triggers", "AND false AND r.triggers")))),
    Bug("replaced_leases_not_canceled", "what runs for a replaced version goes on", edit(
        DEPLOY, ("cancel_retired_leases",), ("AND l.canceled_at IS NULL RETURNING",
                                             "AND false RETURNING"))),
    Bug("settings_not_restored", "a rollback leaves settings as they are", edit(
        DEPLOY, ("put_job_settings",),
        ("WHERE v.dag_version_id = ", "WHERE %(kind)s='cutover' AND v.dag_version_id="))),
    Bug("catch_up_without_wakeup", "what a job missed is queued, and wakes nobody", all_of(
        edit(DEPLOY, ("revive",), ("JOIN jobs j ON j.job_id = q.job_id",
                                   "JOIN jobs j ON j.job_id=q.job_id AND false")),
        edit(DEPLOY, ("fill_scopes", "fill_events"), ("HAVING count(*) > 0", "HAVING false")))),
    Bug("held_source_keeps_its_slot", "a source that may not run holds on to its slot", patch(
        builds.Builds, "_release", _never)),
)  # fmt: skip

SMALL_DEPLOY_BUGS = (
    Bug("drained_too_early", "a rollback is over while its tasks still stop", edit(
        DEPLOY, ("is_draining",),
        ("l.cancel_code = 'VersionReplaced'", "false"),
        ("a.error_code = 'VersionReplaced'", "false"))),
)  # fmt: skip
"""Seldom in a schedule, and sure to be found where every order is walked."""
