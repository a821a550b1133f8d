"""The secret writer: members put secrets in, and no call ever hands one out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.kernel.errors import NotFound
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock
from trace_core.ports.secret_store import Namespace, SecretStore, check_secret

SQL = Statements("trace_core.identity", "secret_writer.sql")


class SecretWriter:
    """Writes to the namespace of users only: the platform's own secrets have no way in here."""

    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids, store: SecretStore) -> None:
        self._state = state
        self._clock = clock
        self._store = store
        self._audit = Audit(state, clock, ids)

    def set(self, org_id: OrgId, name: str, value: str, actor: Actor) -> bool:
        """Whether it is new."""
        check_secret(name, value)
        params = {
            "org_id": org_id,
            "name": name,
            "now": self._clock.now(),
            "user_id": actor.user_id,
        }
        with self._state.transaction("set_secret") as tx:
            row = tx.one(SQL["put_secret"], params)
            created = row is not None and bool(row.created)
            self._audit.record(tx, org_id, actor, "secret.set", name, created=created)
            # Last: when the store refuses, nothing was recorded. A commit that fails after it is
            # answered with an error, and the caller writes the value again.
            self._store.put(org_id, Namespace.USER, name, value)
        return created

    def list(self, org_id: OrgId) -> Sequence[dict[str, Any]]:
        """Names, and who wrote each when; a secret that was put there by hand has neither."""
        rows = self._state.read(SQL["secrets"], {"org_id": org_id})
        written = {row.name: row for row in rows}
        found = []
        for name in self._store.names(org_id, Namespace.USER):
            row = written.get(name)
            found.append(
                {
                    "name": name,
                    "updated_at": row.updated_at if row else None,
                    "updated_by": row.updated_by if row else None,
                }
            )
        return found

    def remove(self, org_id: OrgId, name: str, actor: Actor) -> None:
        if name not in self._store.names(org_id, Namespace.USER):
            raise NotFound
        with self._state.transaction("remove_secret") as tx:
            tx.run(SQL["remove_secret"], {"org_id": org_id, "name": name})
            self._audit.record(tx, org_id, actor, "secret.remove", name)
            self._store.delete(org_id, Namespace.USER, name)
