"""Worker tokens: opaque secrets of which the platform keeps the hash only."""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.identity.audit import Audit
from trace_core.identity.model import Actor
from trace_core.identity.orgs import SQL as ORG_SQL
from trace_core.kernel import limits
from trace_core.kernel.errors import Conflict, NotFound, Unauthenticated
from trace_core.kernel.ids import Ids, OrgId
from trace_core.ports.clock import Clock

SQL = Statements("trace_core.identity", "worker_token.sql")
TOKEN_PREFIX = "trw_"  # noqa: S105  # what every token begins with
_TOKEN = re.compile(r"trw_[A-Za-z0-9_-]{43}")


class TooManyWorkerTokens(Conflict):
    """Two tokens of one name are valid at once, the old and the new one: revoke one first."""

    code = "TooManyWorkerTokens"


@dataclass(frozen=True)
class NewWorkerToken:
    token_id: UUID
    token: str
    """Shown once: nobody can read it again."""


def new_worker_token(ids: Ids) -> str:
    """A new token of 256 random bits; its prefix lets scanners find a leaked one."""
    return TOKEN_PREFIX + urlsafe_b64encode(ids.secret()).rstrip(b"=").decode()


def hash_token(token: str) -> bytes:
    """What is stored and looked up. The token is random, so a plain hash cannot be reversed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class WorkerTokens:
    def __init__(self, state: StateDatabase, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._audit = Audit(state, clock, ids)

    def create(
        self, org_id: OrgId, name: str, lifetime: timedelta | None, actor: Actor
    ) -> NewWorkerToken:
        made = NewWorkerToken(self._ids.uuid(), new_worker_token(self._ids))
        self._add(org_id, name, made, lifetime, actor)
        return made

    def ensure(self, org_id: OrgId, name: str, token: str, actor: Actor) -> None:
        """Register a token that was made elsewhere; nothing happens when it is known."""
        known = self._state.read(SQL["worker_token"], {"token_sha256": hash_token(token)})
        if not known:
            self._add(org_id, name, NewWorkerToken(self._ids.uuid(), token), None, actor)

    def _add(
        self,
        org_id: OrgId,
        name: str,
        made: NewWorkerToken,
        lifetime: timedelta | None,
        actor: Actor,
    ) -> None:
        now = self._clock.now()
        expires_at = now + lifetime if lifetime else None
        params = {
            "org_id": org_id,
            "token_id": made.token_id,
            "token_sha256": hash_token(made.token),
            "name": name,
            "now": now,
            "expires_at": expires_at,
        }
        with self._state.transaction("add_worker_token") as tx:
            tx.one(ORG_SQL["lock_org"], params)
            valid = tx.all(SQL["valid_worker_tokens"], params)
            if len(valid) >= limits.WORKER_TOKENS_VALID:
                raise TooManyWorkerTokens(name=name)
            if tx.run(SQL["add_worker_token"], params):
                self._audit.record(
                    tx, org_id, actor, "worker_token.create", name,
                    token_id=str(made.token_id),
                    expires_at=expires_at.isoformat() if expires_at else None,
                )  # fmt: skip

    def list(self, org_id: OrgId) -> Sequence[dict[str, Any]]:
        now = self._clock.now()
        rows = self._state.read(SQL["worker_tokens"], {"org_id": org_id})
        return [
            {
                **row._asdict(),
                "valid": row.revoked_at is None
                and (row.expires_at is None or row.expires_at > now),
            }
            for row in rows
        ]

    def revoke(self, org_id: OrgId, token_id: UUID, actor: Actor) -> None:
        """From now on it opens nothing, within the seconds that a good token is remembered."""
        params = {"org_id": org_id, "token_id": token_id, "now": self._clock.now()}
        with self._state.transaction("revoke_worker_token") as tx:
            row = tx.one(SQL["revoke_worker_token"], params)
            if row is None:
                raise NotFound
            self._audit.record(
                tx, org_id, actor, "worker_token.revoke", row.name, token_id=str(token_id)
            )

    def org_of(self, token: str) -> OrgId:
        """Raises `Unauthenticated`; what cannot be a token is not even looked up."""
        if _TOKEN.fullmatch(token) is None:
            raise Unauthenticated
        now = self._clock.now()
        params = {"token_sha256": hash_token(token), "now": now}
        rows = self._state.read(SQL["org_of_worker_token"], params)
        if not rows:
            raise Unauthenticated
        recorded = now - limits.WORKER_TOKEN_USE_RECORDED
        if rows[0].last_used_at is None or rows[0].last_used_at <= recorded:
            self._state.write(
                "use_worker_token", SQL["use_worker_token"], params | {"recorded": recorded}
            )
        return OrgId(rows[0].org_id)
