"""Claim: give ready tasks to one runner each, within what meters them.

Unmetered jobs are claimed in one statement that touches no counter. A metered job is claimed in a
short transaction that locks its counters first, so that they are never exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from trace_core.dag.model import Runtime
from trace_core.database.arrays import Uuids
from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.kernel import limits
from trace_core.kernel.errors import Busy
from trace_core.kernel.ids import (
    ROUTE_BITS,
    Ids,
    JobId,
    LeaseToken,
    OrgId,
    TaskId,
    uuid_of,
)
from trace_core.kernel.scopes import Scope
from trace_core.ports.clock import Clock
from trace_core.tasks.api import StartRequest
from trace_core.tasks.metering import Capacity, allowance
from trace_core.tasks.model import Fence, NotClaimed, Priority
from trace_core.tasks.room import InLine, orgs_in_line, within
from trace_core.tasks.statements import SQL

_BOTH = [Priority.LIVE.value, Priority.BACKFILL.value]
_SHARE_OF_BUILDS = 3
"""Bits: one claim in eight serves builds that hold live work before all live work of others."""


@dataclass(frozen=True)
class Trigger:
    """The event that made a task."""

    event_id: UUID
    producer_task_id: TaskId
    dataset_version: UUID
    scope: Scope
    revision: int


@dataclass(frozen=True)
class InputPin:
    """One input as the lease reads it: a version as it was after one commit."""

    input_index: int
    dataset_version: UUID
    number: int
    swap: int


@lru_cache(maxsize=1024)
def _pins(text: str) -> tuple[InputPin, ...]:
    """As the claim writes them; the tasks of a batch mostly have the same."""
    found = []
    for each in text.split(","):
        index, version, number, swap = each.split(" ")
        found.append(InputPin(int(index), UUID(version), int(number), int(swap)))
    return tuple(found)


@dataclass(frozen=True)
class Claimed:
    """A lease (or a reservation, with its start token) and what made the task."""

    org_id: OrgId
    task_id: TaskId
    job_id: JobId
    attempt: int
    lease_sequence: int
    lease_token: LeaseToken | None
    start_token: UUID | None
    started_at: datetime
    """Of a reservation: when it was made."""
    lease_expires_at: datetime
    slot_id: UUID | None
    trigger: Trigger | None
    pins: tuple[InputPin, ...] = ()
    """What it reads, fixed when it was started; a reservation has none yet."""

    @property
    def fence(self) -> Fence:
        if self.lease_token is None:
            raise ValueError("a reservation has no fence before its exchange")
        return Fence(self.task_id, self.attempt, self.lease_token)


@dataclass(frozen=True)
class Refused:
    task_id: TaskId
    reason: NotClaimed


_ROUTE_MASK = 2**128 - 2**ROUTE_BITS


def claimed_from(
    row: Row, org_id: OrgId, *, started_at: datetime, lease_expires_at: datetime
) -> Claimed:
    trigger = None
    if row.producer_task_id is not None:
        trigger = Trigger(
            # A task carries its route in the low bits of the id of the event that made it.
            uuid_of(row.task_id.int & _ROUTE_MASK),
            row.producer_task_id,
            row.dataset_version,
            Scope.parse(row.scope, row.range_start, row.range_end),
            row.revision,
        )
    return Claimed(
        org_id, row.task_id, row.job_id, row.attempt, row.lease_sequence, row.lease_token,
        row.start_token, started_at, lease_expires_at, row.slot_id, trigger,
        _pins(row.pins) if row.pins else (),
    )  # fmt: skip


class Claims:
    """Hands ready tasks to workers, and reservations to runners that are started by us."""

    def __init__(
        self,
        state: StateDatabase,
        clock: Clock,
        ids: Ids,
        timings: limits.Timings = limits.DEFAULT_TIMINGS,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._timings = timings

    def claim(self, org_id: OrgId, runtime: Runtime, limit: int, worker_id: str) -> list[Claimed]:
        """The most urgent ready tasks of a runtime: live before backfill, then the oldest."""
        found: list[Claimed] = []
        self._take_into(found, "claim", org_id, runtime, limit, worker_id)
        return found

    def reserve(
        self, org_id: OrgId, runtime: Runtime, limit: int, *, concurrency: int | None = None
    ) -> list[Claimed]:
        """As `claim`, but the attempt begins only when the runner exchanges its start token.

        Within a `concurrency`, all orgs together never hold more of the runtime than that: raises
        `Busy` when they do already.
        """
        found: list[Claimed] = []
        try:
            self._take_into(found, "reserve", org_id, runtime, limit, "reserved", concurrency)
        except Busy:
            if not found:
                raise
        return found

    def in_line(self, runtime: Runtime) -> list[InLine]:
        """The orgs that have ready tasks of a runtime."""
        return orgs_in_line(self._state, runtime)

    def _take_into(
        self,
        found: list[Claimed],
        verb: str,
        org_id: OrgId,
        runtime: Runtime,
        limit: int,
        worker_id: str,
        concurrency: int | None = None,
    ) -> None:
        skipped: list[UUID] = []
        builds_first = self._ids.bits(_SHARE_OF_BUILDS) == 0
        while True:
            params = self._lease_params(verb, org_id, worker_id, limit - len(found))
            lanes = {
                **params, "runtime": runtime.value, "skipped_jobs": Uuids(skipped),
                "builds_first": builds_first,
            }  # fmt: skip
            if concurrency is None:
                rows = self._state.write(verb, SQL[verb], lanes)
            else:
                with self._state.transaction(verb) as tx:
                    lanes["limit"] = within(tx, runtime, concurrency, lanes["limit"])
                    rows = tx.all(SQL[verb], lanes)
            metered: Row | None = None
            for row in rows:
                if row.task_id is None:
                    metered = row
                else:
                    found.append(self._claimed(row, params))
            if metered is None or len(found) >= limit:
                return
            # One transaction for each job: counters of several would be locked out of order.
            with self._state.transaction(f"{verb}_metered") as tx:
                room = within(tx, runtime, concurrency, limit - len(found))
                taken = self._take_of_job(
                    tx, verb, org_id, metered.job_id, room, worker_id,
                    priorities=[metered.priority],
                )  # fmt: skip
            found += taken
            if len(found) >= limit:
                return
            skipped.append(metered.job_id)

    def claim_ids(
        self, org_id: OrgId, task_ids: Sequence[TaskId], worker_id: str
    ) -> list[Claimed | Refused]:
        """The tasks that a wake-up named, each claimed or refused with the reason.

        Only those that workers run: the others are started by the platform, not claimed.
        """
        located = {row.task_id: row for row in self._locate(org_id, task_ids)}
        claimed: dict[TaskId, Claimed] = {}
        by_job: dict[JobId, list[TaskId]] = {}
        for task_id, row in located.items():
            if row.is_ready and row.claimable and not row.forbidden:
                by_job.setdefault(row.job_id, []).append(task_id)
        for job_id, wanted in sorted(by_job.items()):
            with self._state.transaction("claim_metered") as tx:
                for claim in self._take_of_job(
                    tx, "claim", org_id, job_id, len(wanted), worker_id, task_ids=wanted
                ):
                    claimed[claim.task_id] = claim
        return [
            claimed.get(task_id) or Refused(task_id, self._reason(located.get(task_id)))
            for task_id in task_ids
        ]

    def start(self, request: StartRequest) -> Claimed | Refused:
        """Exchange a start token for the lease: once, and again for the same runner."""
        task_id = TaskId(request.task_id)
        params = {
            "task_id": request.task_id,
            "start_token": request.start_token,
            "runner_id": request.runner_id,
            "lease_token": self._ids.token(),
            "now": self._clock.now(),
            "lease": self._timings.lease,
        }
        owner = self._state.read(SQL["org_of_start_token"], params)
        if not owner:
            return Refused(task_id, NotClaimed.NOT_FOUND)
        rows = self._state.write("start", SQL["start"], params)
        if rows:
            return self._claimed(rows[0], {**params, "org_id": owner[0].org_id})
        before = self._state.read(SQL["started_before"], params)
        if before:
            # Read again: the owner above may be from before the exchange.
            (lease,) = self._state.read(SQL["org_of_start_token"], params)
            return claimed_from(
                before[0],
                lease.org_id,
                started_at=lease.started_at,
                lease_expires_at=lease.lease_expires_at,
            )
        if owner[0].canceled:
            return Refused(task_id, NotClaimed.CANCELED)
        if owner[0].started_at is None and owner[0].forbidden:
            return Refused(task_id, NotClaimed.FORBIDDEN)
        if owner[0].started_at is None and owner[0].retired:
            return Refused(task_id, NotClaimed.HELD)
        return Refused(task_id, NotClaimed.ALREADY_RUNNING)

    def _take_of_job(
        self,
        tx: Transaction,
        verb: str,
        org_id: OrgId,
        job_id: JobId,
        limit: int,
        worker_id: str,
        *,
        priorities: list[int] | None = None,
        task_ids: list[TaskId] | None = None,
    ) -> list[Claimed]:
        now = self._clock.now()
        capacities = [
            Capacity(**{name: getattr(row, name) for name in Capacity.__dataclass_fields__})
            for row in tx.all(SQL["lock_capacities"], {"job_id": job_id})
        ]
        kept = tx.one(SQL["kept_capacity"], {"job_id": job_id}) if capacities else None
        slot_ids: list[UUID | None] = []
        if kept is not None:
            limit, slot_ids = 1, [kept.slot_id]
        elif capacities:
            # By id, live and backfill may mix: the stricter allowance holds for all of them.
            strictest = Priority(max(priorities or _BOTH))
            limit = allowance(capacities, strictest, limit, now)
            if limit and self._has_pool(tx, job_id):
                slots = tx.all(SQL["free_slots"], {"job_id": job_id, "limit": limit, "now": now})
                slot_ids = [row.slot_id for row in slots]
                limit = len(slot_ids)
        if limit <= 0:
            return []
        params = self._lease_params(verb, org_id, worker_id, limit)
        rows = tx.all(
            SQL[f"{verb}_of_job"],
            {
                **params,
                "job_id": job_id,
                "priorities": priorities or _BOTH,
                "task_ids": task_ids,
                "slot_ids": slot_ids,
                "capacity_ids": Uuids([capacity.capacity_id for capacity in capacities]),
            },
        )
        if rows and capacities and kept is None:
            self._charge(tx, capacities, rows, now)
        return [self._claimed(row, params) for row in rows]

    @staticmethod
    def _claimed(row: Row, params: dict[str, Any]) -> Claimed:
        now = params["now"]
        return claimed_from(
            row, params["org_id"], started_at=now, lease_expires_at=now + params["lease"]
        )

    def _has_pool(self, tx: Transaction, job_id: JobId) -> bool:
        row = tx.one(SQL["pool_of_job"], {"job_id": job_id})
        return row is not None and row.pool_id is not None

    def _charge(
        self, tx: Transaction, capacities: list[Capacity], rows: list[Row], now: datetime
    ) -> None:
        held = [(row.slot_id, row.task_id) for row in rows if row.slot_id is not None]
        if held:
            tx.run(
                SQL["hold_slots"],
                {"slot_ids": [slot for slot, _ in held], "task_ids": [task for _, task in held]},
            )
        backfill = sum(row.priority == Priority.BACKFILL for row in rows)
        tx.run(
            SQL["charge_capacities"],
            {
                "capacity_ids": [capacity.capacity_id for capacity in capacities],
                "taken": len(rows),
                "taken_backfill": backfill,
                "now": now,
            },
        )

    def _lease_params(self, verb: str, org_id: OrgId, worker_id: str, limit: int) -> dict[str, Any]:
        return {
            "org_id": org_id,
            "worker_id": worker_id,
            "limit": limit,
            "lease_tokens": Uuids(self._ids.tokens(limit)),
            "now": self._clock.now(),
            "lease": self._timings.lease if verb == "claim" else self._timings.reservation,
        }

    def _locate(self, org_id: OrgId, task_ids: Sequence[TaskId]) -> list[Row]:
        return self._state.read(
            SQL["locate"],
            {
                "org_id": org_id,
                "task_ids": list(task_ids),
                "runtime": Runtime.WORKER.value,
            },
        )

    @staticmethod
    def _reason(row: Row | None) -> NotClaimed:
        if row is None:
            return NotClaimed.NOT_FOUND
        if row.final_outcome is not None:
            finals = {"Completed": NotClaimed.COMPLETED, "Canceled": NotClaimed.CANCELED}
            return finals.get(row.final_outcome, NotClaimed.FAILED)
        if row.is_leased:
            return NotClaimed.ALREADY_RUNNING
        if row.due_at is not None:
            return NotClaimed.NOT_DUE
        if row.forbidden:
            return NotClaimed.FORBIDDEN
        if not row.claimable:
            return NotClaimed.HELD
        # Ready when it was located: another claim was faster, or a counter is full.
        return NotClaimed.NO_CAPACITY if row.is_ready else NotClaimed.ALREADY_RUNNING
