"""Switch: one version of a DAG gives way to another, in one small transaction.

Cutover and rollback are the same act. Pointers of all datasets and the active version move
together; what may be claimed and where events go follows from them. Tasks are not touched: sweeps
cancel and re-route them afterwards, from the gaps that are noted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from trace_core.database.state import Row, Transaction, as_json
from trace_core.deploy.repoint import ask_repoint
from trace_core.deploy.statements import SQL
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict
from trace_core.kernel.ids import DagId, DagVersionId, Ids, OrgId, UserId
from trace_core.registry.purge import reclaim
from trace_core.registry.relations import settle
from trace_core.tasks.events import RUNTIMES
from trace_core.tasks.quotas import recount


class InputsMoved(Conflict):
    """A dataset of another DAG has another current version than the candidate was built on."""

    code = "InputsMoved"


@dataclass(frozen=True)
class Switch:
    """From which version to which, and on whose account."""

    org_id: OrgId
    dag_id: DagId
    dag: str
    from_version: DagVersionId | None
    to_version: DagVersionId
    deploy_id: UUID
    kind: Literal["cutover", "rollback"]
    user_id: UserId | None
    now: datetime

    @classmethod
    def of(
        cls, params: Mapping[str, Any], dag: str, kind: Literal["cutover", "rollback"]
    ) -> Switch:
        """From the parameters of a deploy's statements."""
        return cls(
            params["org_id"], params["dag_id"], dag, params["from_version"], params["to_version"],
            params["deploy_id"], kind, params["user_id"], params["now"],
        )  # fmt: skip


@dataclass(frozen=True)
class Switched:
    datasets_moved: int


def lock_for_switch(tx: Transaction, params: Mapping[str, Any]) -> list[UUID]:
    """The DAG's row is locked by the caller; then jobs, then counters, each in the order of ids."""
    tx.all(SQL["lock_jobs_of_dag"], params)
    return [row.dataset_version for row in tx.all(SQL["lock_versions"], params)]


def switch_version(tx: Transaction, ids: Ids, switch: Switch) -> Switched:
    params: dict[str, Any] = dict(vars(switch))
    versions = lock_for_switch(tx, params)
    reclaim_versions(tx, params)
    moved_inputs = tx.all(SQL["moved_external_inputs"], params)
    if moved_inputs:
        row = moved_inputs[0]
        raise InputsMoved(
            f"DAG {row.dag} has cut over {row.job_name}.{row.output_index} since this build began; "
            "cancel it and deploy again.",
            dag=switch.dag,
        )
    moved = tx.all(SQL["move_pointers"], params)
    tx.run(SQL["activate"], params)
    drop_build_limit(tx, params)
    _put_settings(tx, ids, params)
    tx.run(SQL["put_publications"], params)
    tx.run(SQL["drop_parts"], params)
    tx.run(SQL["put_parts"], params)
    settle(tx, switch.dag_id)
    if switch.from_version is not None:
        tx.run(SQL["copy_requests"], params | {"series": ids.series()})
    follow_standing(tx, params)
    tx.run(SQL["raise_epochs"], {"versions": versions})
    _tell_readers(tx, ids, switch, params, [row for row in moved if row.swap > 1])
    if switch.from_version is not None:
        # Of a first version nothing can have waited, and its sources have wake-ups of their own.
        tx.run(
            SQL["wake_dag"],
            params | {"outbox_ids": ids.many(RUNTIMES), "wake_fanout": limits.WAKE_FANOUT},
        )
    ask_repoint(tx, ids, params)
    return Switched(len(moved))


def reclaim_versions(tx: Transaction, params: Mapping[str, Any]) -> None:
    """What a version needs is not purged under it; what was purged already stops it here."""
    rows = tx.all(SQL["jobs_of_dag_version"], params)
    reclaim(tx, [row.job_id for row in rows], due_before=params["now"] - limits.PURGE_GRACE)


def follow_standing(tx: Transaction, params: dict[str, Any]) -> None:
    """After jobs entered or left: what they are, what they missed, where events go from here on."""
    tx.all(SQL["refresh_standing"], params)
    tx.run(SQL["open_gaps"], params)
    tx.run(SQL["close_gaps"], params)
    tx.run(SQL["open_history"], params)
    tx.run(SQL["drop_empty_gaps"], params)
    tx.run(SQL["refresh_routes"], params)


def drop_build_limit(tx: Transaction, params: Mapping[str, Any]) -> None:
    """A build has ended, and so has what limited it: its jobs are metered as the version says."""
    limit = tx.one(SQL["lift_build_limit"], params)
    if limit is not None:
        tx.run(SQL["drop_capacity"], {"capacity_id": limit.capacity_id})


def _tell_readers(
    tx: Transaction, ids: Ids, switch: Switch, params: dict[str, Any], swapped: list[Row]
) -> None:
    if not swapped:
        return
    tx.run(
        SQL["invalidate_readers"],
        params
        | {
            "datasets": [row.dataset_uuid for row in swapped],
            "versions": [row.dataset_version for row in swapped],
            "event_ids": ids.event_ids(len(swapped)),
            "reason": f"{switch.kind} of {switch.dag}",
            "source": switch.kind,
            "outbox_ids": ids.many(RUNTIMES),
            "wake_fanout": limits.WAKE_FANOUT,
        },
    )


def _put_settings(tx: Transaction, ids: Ids, params: dict[str, Any]) -> None:
    tx.run(SQL["put_job_settings"], params)
    row = tx.one(SQL["settings_of_version"], {"dag_version_id": params["to_version"]})
    settings: dict[str, Any] = (row.settings if row else None) or {}
    tx.all(SQL["lock_capacities_of_dag"], params)
    pools = _put_pools(tx, ids, params, {each["name"]: each for each in settings.get("pools", [])})
    _put_metering(tx, ids, params, settings.get("jobs", []), pools)


def _put_pools(
    tx: Transaction, ids: Ids, params: dict[str, Any], wanted: dict[str, Any]
) -> dict[str, tuple[UUID, UUID]]:
    found = {}
    for pool in tx.all(SQL["pools_of_dag"], params):
        found[pool.name] = (pool.pool_id, pool.capacity_id)
        slots = wanted[pool.name]["slots"] if pool.name in wanted else []
        tx.run(
            SQL["put_slots"],
            {"pool_id": pool.pool_id, "slots": as_json(slots), "slot_ids": ids.many(len(slots))},
        )
        tx.run(
            SQL["limit_capacity"],
            {
                "capacity_id": pool.capacity_id,
                "max_running": len(slots),
                "reserved_for_live": wanted.get(pool.name, {}).get("reserved_for_live", 0),
            },
        )
    return found


def _put_metering(
    tx: Transaction,
    ids: Ids,
    params: dict[str, Any],
    jobs: list[dict[str, Any]],
    pools: dict[str, tuple[UUID, UUID]],
) -> None:
    """Jobs that go on under another pool or limit; what they hold is counted anew."""
    wanted = {each["name"]: each for each in jobs}
    pool_capacities = {capacity for _, capacity in pools.values()}
    changed: set[UUID] = set()
    for job in tx.all(SQL["metering_of_version"], params):
        settings = wanted.get(job.name)
        if settings is None:
            continue
        own, limit = job.own_capacity, settings["max_concurrency"]
        if own is None and limit is not None:
            own = ids.uuid()
            tx.run(
                SQL["add_capacity"],
                params
                | {
                    "capacity_id": own,
                    "kind": "job",
                    "name": job.name,
                    "max_running": limit,
                    "reserved_for_live": 0,
                },
            )
        elif own is not None and job.own_limit != limit:
            tx.run(
                SQL["limit_capacity"],
                {"capacity_id": own, "max_running": limit, "reserved_for_live": 0},
            )
        pool_id, pool_capacity = pools.get(settings["worker_pool"] or "", (None, None))
        kept = [each for each in job.capacity_ids if each not in pool_capacities and each != own]
        capacity_ids = [*kept, *(each for each in (pool_capacity, own) if each is not None)]
        if set(capacity_ids) != set(job.capacity_ids) or pool_id != job.pool_id:
            changed |= set(capacity_ids) ^ set(job.capacity_ids)
            tx.run(
                SQL["meter_job"],
                {"job_id": job.job_id, "pool_id": pool_id, "capacity_ids": capacity_ids},
            )
    if changed:
        recount(tx, sorted(changed))
