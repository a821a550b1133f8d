"""Who may read a dataset: the one place that decides it, for people and for the inputs of jobs.

Private by default: administrators, whoever may deploy the producing DAG, and members with one of
the dataset's read roles. For everybody else there is no such dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import Row, StateDatabase, Transaction
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor, ActorKind, PlatformRole
from trace_core.identity.orgs import SQL as ORG_SQL
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.kernel.ids import DagVersionId, Ids, OrgId, UserId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.registry", "read_rights.sql")


def reader(actor: Actor) -> dict[str, Any]:
    """The parameters of every statement that includes `caller`; the platform itself reads all."""
    role = PlatformRole.ADMIN if actor.kind is ActorKind.SYSTEM else actor.platform_role
    return {
        "platform_role": role.value if role is not None else None,
        "reader_id": actor.user_id,
        "org_roles": sorted(actor.org_roles),
    }


def no_dataset(name: str) -> NotFound:
    """The same whether there is none or it is not this caller's to read."""
    return NotFound(f"No dataset {name}.", dataset=name)


class ReadRights:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._audit = Audit(state, clock, ids)

    def find(self, org_id: OrgId, dataset: str, actor: Actor) -> Row:
        """The dataset with its DAG; raises `NotFound` for whoever may not read it."""
        rows = self._state.read(SQL["find"], _named(org_id, dataset) | reader(actor))
        if not rows:
            raise no_dataset(dataset)
        return rows[0]

    def require_deploy_right(self, org_id: OrgId, dataset: str, actor: Actor) -> Row:
        """The dataset, for whoever may change its DAG."""
        found = self.find(org_id, dataset, actor)
        actor.require_deploy_right(found.dag, found.created_by, found.deploy_roles)
        return found

    def set_read_roles(
        self, org_id: OrgId, dataset: str, roles: Sequence[str], actor: Actor
    ) -> list[str]:
        wanted = sorted(set(roles))
        params = _named(org_id, dataset) | {"read_roles": wanted}
        with self._state.transaction("set_read_roles") as tx:
            # A role that is removed at the same time waits, and then finds that it is named.
            tx.one(ORG_SQL["lock_org"], params)
            before = _locked(tx, dataset, params)
            if missing := [each.role for each in tx.all(SQL["missing_roles"], params)]:
                raise Invalid(
                    f"The org has no role {', '.join(missing)}; add it first.", field="roles"
                )
            tx.run(SQL["set_read_roles"], params)
            self.refresh(tx, org_id)
            self._audit.record(
                tx, org_id, actor, "dataset.read_roles", dataset,
                roles=wanted, before=before.read_roles,
            )  # fmt: skip
        return wanted

    def set_owner(
        self, org_id: OrgId, dataset: str, owner: UserId | None, actor: Actor
    ) -> str | None:
        """Answers the owner's name. It says whom to ask, and gives no right."""
        params = _named(org_id, dataset) | {"owner": owner}
        with self._state.transaction("set_owner") as tx:
            before = _locked(tx, dataset, params)
            member = tx.one(SQL["member"], params) if owner is not None else None
            if owner is not None and member is None:
                raise Invalid(
                    "The owner is a member of the org; add the member first.", field="user_id"
                )
            tx.run(SQL["set_owner"], params)
            self._audit.record(
                tx, org_id, actor, "dataset.owner", dataset,
                owner=member.subject if member else None, before=before.owner_subject,
            )  # fmt: skip
        return member.name if member else None

    # Inputs of jobs ---------------------------------------------------------------------------

    def require_inputs(
        self, tx: Transaction, org_id: OrgId, datasets: Sequence[str], actor: Actor
    ) -> None:
        """Whoever deploys a DAG must be allowed to read what it reads of others."""
        params = {"org_id": org_id, "datasets": list(datasets), **reader(actor)}
        if missing := [row.dataset for row in tx.all(SQL["unreadable"], params)]:
            raise Invalid(
                f"There is no dataset {', '.join(missing)} that you may read. Deploy the DAG that "
                "publishes it, or ask an administrator for one of its read roles.",
                datasets=missing,
            )

    def read_as(
        self, tx: Transaction, org_id: OrgId, version: DagVersionId, user_id: UserId | None
    ) -> None:
        """From now on the jobs of a version read with the rights of the one who deployed it."""
        tx.run(SQL["reads_as"], {"dag_version_id": version, "user_id": user_id})
        self.refresh(tx, org_id)

    def refresh(self, tx: Transaction, org_id: OrgId) -> dict[UUID, bool]:
        """After any right in the org changed: the jobs that are forbidden now, or no longer."""
        rows = tx.all(SQL["refresh_forbidden"], {"org_id": org_id})
        return {row.job_id: row.forbidden for row in rows}

    def sweep(self) -> int:
        """Of all orgs, should a change have been missed; answers how many jobs it put right."""
        params = {"org_id": None}
        return len(self._state.write("sweep_rights", SQL["refresh_forbidden"], params))


def _named(org_id: OrgId, dataset: str) -> dict[str, Any]:
    return {"org_id": org_id, "dataset": dataset}


def _locked(tx: Transaction, dataset: str, params: dict[str, Any]) -> Row:
    row = tx.one(SQL["lock_publication"], params)
    if row is None:
        raise no_dataset(dataset)
    return row
