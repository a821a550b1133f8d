"""What people see of a webhook source, and do to it."""

from __future__ import annotations

from typing import Any

from trace_core.database.state import StateDatabase
from trace_core.deploy.lookup import locked_dag
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.identity.webhook_sources import Rotated, WebhookSources
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock


class Hooks:
    def __init__(
        self, state: StateDatabase, clock: Clock, ids: Ids, sources: WebhookSources
    ) -> None:
        self._state = state
        self._sources = sources
        self._audit = Audit(state, clock, ids)

    def show(self, org_id: OrgId, dag: str, job: str) -> dict[str, Any]:
        return self._sources.show(org_id, dag, job)

    def rotate(self, org_id: OrgId, dag: str, job: str, actor: Actor) -> Rotated:
        """A new secret, which is shown to whoever asked and to nobody again."""
        with self._state.transaction("rotate_hook") as tx:
            row = locked_dag(tx, org_id, dag)
            actor.require_deploy_right(dag, row.created_by, row.deploy_roles)
            made = self._sources.rotate(tx, row.dag_id, job)
            self._audit.record(
                tx, org_id, actor, "hook.rotate", f"{dag}.{job}", source_id=str(made.source_id)
            )
        return made
