"""Backfills: a bounded range of one job, computed again; it can rest, go on and be given up.

All scopes are written down when it begins, so that it knows how far it is; tasks are made a window
at a time, below live work. A crash anywhere leaves scopes without a task; the next pass makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, Invalid, NotFound
from trace_core.kernel.ids import Ids, OrgId, TaskId
from trace_core.ports.clock import Clock
from trace_core.ports.waker import Function, Waker
from trace_core.tasks.admin import NotCancelable, TaskAdmin

SQL = Statements("trace_core.deploy", "backfills.sql")
_LAST = 2**31 - 1


@dataclass(frozen=True)
class Begun:
    number: int
    scopes: int


class Backfills:
    def __init__(
        self, state: StateDatabase, clock: Clock, ids: Ids, waker: Waker, tasks: TaskAdmin
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._waker = waker
        self._tasks = tasks
        self._audit = Audit(state, clock, ids)

    def begin(
        self,
        org_id: OrgId,
        dag: str,
        job: str,
        start: int,
        end: int,
        actor: Actor,
        *,
        reason: str = "",
        window: int = limits.BACKFILL_WINDOW,
    ) -> Begun:
        if end < start:
            raise Invalid("The range ends before it starts; both ends belong to it.", field="end")
        with self._state.transaction("begin_backfill") as tx:
            found = tx.one(SQL["job_to_backfill"], {"org_id": org_id, "dag": dag, "job": job})
            if found is None:
                raise NotFound(f"No job {job} in the active version of a DAG {dag}.", job=job)
            actor.require_deploy_right(dag, found.created_by, found.deploy_roles)
            if found.activation == "source":
                raise Invalid(
                    f"Job {job} is a source: ask it for the range by `trace dag trigger`.", job=job
                )
            params = {
                "backfill_id": self._ids.uuid(),
                "org_id": org_id,
                "dag_id": found.dag_id,
                "job_id": found.job_id,
                "range_start": start,
                "range_end": end,
                "window_size": window,
                "reason": reason,
                "user_id": actor.user_id,
                "now": self._clock.now(),
            }
            added = tx.one(SQL["add_backfill"], params)
            assert added is not None  # noqa: S101  the statement always answers one row
            scopes = tx.run(SQL["add_scopes"], params)
            if not scopes:
                raise Invalid(
                    f"Nothing that triggers {job} lies between {start} and {end}.", field="start"
                )
            self._audit.record(
                tx, org_id, actor, "dag.backfill", f"{dag}.{job}", number=added.number,
                start=start, end=end, scopes=scopes,
            )  # fmt: skip
        self._waker.wake(Function.DISPATCHER)
        return Begun(added.number, scopes)

    def pause(self, org_id: OrgId, dag: str, number: int, actor: Actor) -> None:
        """No more tasks are made; those that are made run on."""
        self._set(org_id, dag, number, actor, "Running", "Paused")

    def resume(self, org_id: OrgId, dag: str, number: int, actor: Actor) -> None:
        self._set(org_id, dag, number, actor, "Paused", "Running")
        self._waker.wake(Function.DISPATCHER)

    def cancel(self, org_id: OrgId, dag: str, number: int, actor: Actor) -> int:
        """Give it up; what is done stays. Answers how many open tasks were canceled."""
        found = self._set(org_id, dag, number, actor, None, "Canceled")
        canceled = 0
        rows = self._state.read(SQL["open_tasks_of_backfill"], {"backfill_id": found.backfill_id})
        for row in rows:
            try:
                self._tasks.cancel(org_id, TaskId(row.task_id), actor)
                canceled += 1
            except NotCancelable:
                continue  # It has ended meanwhile.
        return canceled

    def _set(
        self, org_id: OrgId, dag: str, number: int, actor: Actor, was: str | None, status: str
    ) -> Row:
        params: dict[str, Any] = {"org_id": org_id, "dag": dag, "number": number}
        with self._state.transaction("set_backfill") as tx:
            found = tx.one(SQL["backfill_by_number"], params)
            if found is None:
                raise NotFound(f"No backfill {number} of a DAG {dag}.", dag=dag)
            actor.require_deploy_right(dag, found.created_by, found.deploy_roles)
            if found.status == status:
                return found
            params |= {
                "backfill_id": found.backfill_id,
                "status": status,
                "was": was or found.status,
                "now": self._clock.now(),
            }
            if not tx.all(SQL["set_backfill_status"], params):
                raise Conflict(f"Backfill {number} of {dag} is {found.status}.", dag=dag)
            self._audit.record(tx, org_id, actor, f"backfill.{status.lower()}", dag, number=number)
        return found

    def list(
        self, org_id: OrgId, dag: str, *, limit: int = 20, before: int | None = None
    ) -> list[dict[str, Any]]:
        params = {"org_id": org_id, "dag": dag, "limit": limit, "before": before or _LAST}
        return [
            {**row._asdict(), **self._progress(row.backfill_id)._asdict()}
            for row in self._state.read(SQL["list_backfills"], params)
        ]

    def _progress(self, backfill_id: UUID) -> Row:
        return self._state.read(SQL["backfill_progress"], {"backfill_id": backfill_id})[0]

    # The chore of the Dispatcher -----------------------------------------------------------------

    def chore(self) -> int:
        return sum(
            self._step(row)
            for row in self._state.read(SQL["running_backfills"], {})
            if row.standing == "active"
        )

    def _step(self, backfill: Row) -> int:
        params: dict[str, Any] = {
            "backfill_id": backfill.backfill_id,
            "org_id": backfill.org_id,
            "job_id": backfill.job_id,
            "runtime": backfill.runtime,
            "now": self._clock.now(),
            "wake_fanout": limits.WAKE_FANOUT,
            "outbox_id": self._ids.uuid(),
        }
        with self._state.transaction("backfill") as tx:
            if tx.one(SQL["lock_backfill"], params) is None:
                return 0
            at = tx.one(SQL["backfill_progress"], params)
            assert at is not None  # noqa: S101  an aggregate always answers
            still_open = at.made - at.completed - at.failed - at.canceled
            if at.made == at.scopes and not still_open:
                tx.run(SQL["end_backfill"], params)
                return 1
            room = min(backfill.window_size - still_open, at.scopes - at.made)
            if room <= 0:
                return 0
            task_ids = self._ids.event_ids(room)
            made = tx.all(
                SQL["make_backfill_tasks"],
                params | {"task_ids": [_with_route(each, backfill.route) for each in task_ids]},
            )
        self._waker.wake(Function.OUTBOX_RELAY)
        return len(made)


def _with_route(event_id: UUID, route: str) -> UUID:
    """As the task of an event has it, so that one id is read like the other."""
    return UUID(int=event_id.int | int(route, 16))
