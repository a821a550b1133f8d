"""Builds: a new version grows beside the current one, and takes its place when it is whole.

`Building` -> `Checking` -> `Draining` -> `Done`. Each step is one guarded statement or one short
transaction, and any number of Dispatchers may take it: whoever comes second finds it taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_core.database.state import Row, StateDatabase, Transaction, as_json
from trace_core.deploy.statements import SQL
from trace_core.deploy.switch import (
    InputsMoved,
    Switch,
    follow_standing,
    lock_for_switch,
    reclaim_versions,
    switch_version,
)
from trace_core.kernel import limits
from trace_core.kernel.ids import DagId, Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.events import RUNTIMES
from trace_core.tasks.quotas import recount

logger = logging.getLogger(__name__)
_BATCH = 1000
"""Tasks or events that one transaction of a sweep touches."""
_PASSES = 20
"""Transactions that one pass over a deploy makes at most; the next pass goes on."""

Verdicts = Sequence[Mapping[str, Any]]
"""One for each check: what was asked, whether it held, examples of what did not."""
RunChecks = Callable[[OrgId, UUID], Verdicts]
"""Runs the checks of a dag version on its candidate data."""


def no_checks(_org_id: OrgId, _dag_version: UUID) -> Verdicts:
    return ()


@dataclass(frozen=True)
class BuildReport:
    made: int = 0
    canceled: int = 0
    revived: int = 0
    released: int = 0
    cut_over: int = 0

    @property
    def total(self) -> int:
        return self.made + self.canceled + self.revived + self.released + self.cut_over

    @property
    def did_something(self) -> bool:
        return self.total > 0

    def __add__(self, other: BuildReport) -> BuildReport:
        return BuildReport(
            self.made + other.made,
            self.canceled + other.canceled,
            self.revived + other.revived,
            self.released + other.released,
            self.cut_over + other.cut_over,
        )


def begin_build(tx: Transaction, ids: Ids, params: Mapping[str, Any]) -> None:
    """The hold begins: inputs of the build are fixed, and what comes later is noted as a gap."""
    named = dict(params) | {"dag_version_id": params["to_version"]}
    versions = lock_for_switch(tx, named)
    reclaim_versions(tx, named)
    tx.run(SQL["fix_inputs"], named)
    tx.run(SQL["open_build"], named)
    if params["capacity_id"] is not None:
        tx.run(SQL["limit_build"], named)
        recount(tx, [params["capacity_id"]])
    tx.run(SQL["copy_requests"], named | {"series": ids.series()})
    follow_standing(tx, named)
    tx.run(SQL["raise_epochs"], {"versions": versions})
    tx.run(
        SQL["wake_dag"],
        named | {"outbox_ids": ids.many(RUNTIMES), "wake_fanout": limits.WAKE_FANOUT},
    )


class Builds:
    """The chore of every Dispatcher pass: take each unended deploy one step further."""

    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        waker: Waker,
        run_checks: RunChecks = no_checks,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._run_checks = run_checks

    def chore(self) -> int:
        return self.run_once().total

    def run_once(self) -> BuildReport:
        total = BuildReport(canceled=self._cancel_leases() + self._repeat(self._cancel))
        for deploy in self._state.read(SQL["unended_deploys"], {}):
            total += self._step(deploy)
        if total.did_something:
            self._waker.wake(Function.OUTBOX_RELAY)
        return total

    def _cancel_leases(self) -> int:
        """Also of claims that were under way while their version was replaced."""
        now = self._clock.now()
        return len(self._state.write("cancel_retired", SQL["cancel_retired_leases"], {"now": now}))

    def _step(self, deploy: Row) -> BuildReport:
        report = self._sweep(deploy)
        if deploy.status == "Building":
            self._look_at_build(deploy)
        elif deploy.status == "Checking":
            return report + BuildReport(cut_over=self._check_and_cut_over(deploy))
        elif deploy.status in ("Draining", "Canceled"):
            self._end(deploy)
        return report

    # Sweeps --------------------------------------------------------------------------------------

    def _sweep(self, deploy: Row) -> BuildReport:
        return BuildReport(
            made=self._repeat(lambda: self._fill(deploy)),
            revived=self._repeat(lambda: self._revive(deploy)),
            released=self._release(deploy),
        )

    @staticmethod
    def _repeat(sweep: Callable[[], int]) -> int:
        """Until it finds nothing, or so often that others should have their turn."""
        total = 0
        for _ in range(_PASSES):
            found = sweep()
            if not found:
                break
            total += found
        return total

    def _params(self, deploy: Row) -> dict[str, Any]:
        return {
            "org_id": deploy.org_id,
            "dag_id": deploy.dag_id,
            "deploy_id": deploy.deploy_id,
            "now": self._clock.now(),
            "limit": _BATCH,
            "wake_fanout": limits.WAKE_FANOUT,
        }

    def _fill(self, deploy: Row) -> int:
        """Tasks for events that a job missed, from one gap; at least 1 when there was one."""
        params = self._params(deploy)
        with self._state.transaction("fill_gap") as tx:
            gap = tx.one(SQL["lock_gap"], params)
            if gap is None:
                return 0
            params |= {name: getattr(gap, name) for name in gap._fields}
            params["priority"] = max(gap.priority, gap.job_priority)
            params["outbox_id"] = self._ids.uuid()
            if gap.latest:
                filled = tx.one(SQL["fill_scopes"], params)
                tx.run(SQL["drop_gap"], params)
            else:
                params["until"] = min(gap.up_to, gap.after_number + _BATCH)
                filled = tx.one(SQL["fill_events"], params)
                over = params["until"] >= gap.up_to
                tx.run(SQL["drop_gap" if over else "shrink_gap"], params)
            return max(1, int(filled.made) if filled else 0)

    def _cancel(self) -> int:
        """Whatever waits in replaced jobs, of every DAG: a late retry must not wait for ever."""
        params = {"now": self._clock.now(), "limit": _BATCH}
        return len(self._state.write("cancel_retired", SQL["cancel_retired"], params))

    def _revive(self, deploy: Row) -> int:
        params = self._params(deploy) | {"outbox_ids": self._ids.many(RUNTIMES)}
        return len(self._state.write("revive", SQL["revive"], params))

    def _release(self, deploy: Row) -> int:
        """What sources keep that may not run: their successors need it."""
        params = self._params(deploy) | {"outbox_ids": self._ids.many(RUNTIMES)}
        with self._state.transaction("release_kept") as tx:
            tx.all(SQL["lock_kept"], params)
            return len(tx.all(SQL["release_kept"], params))

    # Steps ---------------------------------------------------------------------------------------

    def _look_at_build(self, deploy: Row) -> None:
        params = self._params(deploy)
        (found,) = self._state.read(SQL["build_state"], params)
        if found.sources_to_move:
            self._move_sources(deploy, found.sources_to_move)
            return
        if found.waiting or found.running or found.unfilled or found.sources_behind:
            if deploy.error is not None and not found.failed:
                # Somebody has retried what failed.
                self._set_status(deploy, "Building", "Building")
            return
        if found.failed:
            error = f"{found.failed} tasks of the build failed; retry them, or cancel the deploy"
            self._set_status(deploy, "Building", "Building", error)
            return
        if self._set_status(deploy, "Building", "Checking"):
            self._waker.wake(Function.DISPATCHER)

    def _move_sources(self, deploy: Row, job_ids: Sequence[UUID]) -> None:
        params = self._params(deploy)
        with self._state.transaction("rest_sources") as tx:
            # With the DAG locked, so that whoever saw the same does not undo it.
            tx.one(SQL["lock_dag_by_id"], params)
            (found,) = tx.all(SQL["build_state"], params)
            still = sorted(set(job_ids) & set(found.sources_to_move or ()))
            tx.run(SQL["move_sources"], params | {"job_ids": still})
            tx.all(SQL["refresh_standing"], params)
            tx.run(SQL["wake_dag"], params | {"outbox_ids": self._ids.many(RUNTIMES)})
        self._waker.wake(Function.OUTBOX_RELAY)

    def _set_status(self, deploy: Row, was: str, status: str, error: str | None = None) -> bool:
        return bool(
            self._state.write(
                "deploy_status",
                SQL["set_status"],
                self._params(deploy) | {"was": was, "status": status, "error": error},
            )
        )

    def _check_and_cut_over(self, deploy: Row) -> int:
        verdicts = self._run_checks(deploy.org_id, deploy.to_version)
        params = self._params(deploy)
        self._state.write(
            "note_report",
            SQL["note_report"],
            params | {"report": as_json({"checks": list(verdicts)})},
        )
        wrong = [each for each in verdicts if not each["holds"]]
        if wrong:
            first = wrong[0]
            error = f"{len(wrong)} checks failed; first: {first['dataset']}: {first['message']}"
            self._set_status(deploy, "Checking", "ChecksFailed", error)
            return 0
        try:
            return int(self._cut_over(deploy))
        except InputsMoved as error:
            self._set_status(deploy, "Checking", "ChecksFailed", error.message)
            return 0

    def _cut_over(self, deploy: Row) -> bool:
        params = self._params(deploy)
        with self._state.transaction("cutover") as tx:
            dag = tx.one(SQL["lock_dag_by_id"], params)
            taken = tx.all(
                SQL["set_status"],
                params | {"was": "Checking", "status": "Draining", "error": None},
            )
            if not taken or dag is None or dag.active_dag_version_id != deploy.from_version:
                return False
            switched = switch_version(
                tx,
                self._ids,
                Switch(
                    deploy.org_id,
                    DagId(deploy.dag_id),
                    deploy.dag,
                    deploy.from_version,
                    deploy.to_version,
                    deploy.deploy_id,
                    "cutover",
                    None,
                    params["now"],
                ),
            )
        logger.info(
            "cut over %s to version of deploy %s: %s datasets", deploy.dag, deploy.number,
            switched.datasets_moved,
        )  # fmt: skip
        self._waker.wake(Function.OUTBOX_RELAY)
        self._waker.wake(Function.DISPATCHER)
        return True

    def _end(self, deploy: Row) -> None:
        params = self._params(deploy)
        if not self._state.read(SQL["is_draining"], params)[0].draining:
            self._state.write("deploy_end", SQL["end_deploy"], params)
