"""The client's methods about members, roles, secrets, tokens, webhooks and the audit."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from trace_client.calls import Calls, part
from trace_core.http import identity_answers as answers
from trace_core.identity.model import PlatformRole


class PeopleCalls(Calls):
    def me(self) -> answers.Me:
        return self._call(answers.Me, "GET", "/v1/me")

    def members(self, *, limit: int | None = None, cursor: str | None = None) -> answers.MemberPage:
        query = {"limit": limit, "cursor": cursor}
        return self._call(answers.MemberPage, "GET", "/v1/members", query=query)

    def add_member(
        self, subject: str, role: PlatformRole, name: str | None = None
    ) -> answers.MemberAdded:
        body = {"subject": subject, "role": role, "name": name}
        return self._call(answers.MemberAdded, "POST", "/v1/members", body=body)

    def set_member_role(self, user_id: UUID, role: PlatformRole) -> answers.MemberState:
        path = f"/v1/members/{part(user_id)}"
        return self._call(answers.MemberState, "PUT", path, body={"role": role})

    def remove_member(self, user_id: UUID) -> answers.MemberRemoved:
        return self._call(answers.MemberRemoved, "DELETE", f"/v1/members/{part(user_id)}")

    def roles(self, *, limit: int | None = None, cursor: str | None = None) -> answers.RolePage:
        query = {"limit": limit, "cursor": cursor}
        return self._call(answers.RolePage, "GET", "/v1/roles", query=query)

    def add_role(self, role: str) -> answers.RoleAdded:
        return self._call(answers.RoleAdded, "POST", "/v1/roles", body={"role": role})

    def remove_role(self, role: str) -> answers.RoleRemoved:
        return self._call(answers.RoleRemoved, "DELETE", f"/v1/roles/{part(role)}")

    def grant_role(self, role: str, user_id: UUID) -> answers.RoleGrant:
        path = f"/v1/roles/{part(role)}/members/{part(user_id)}"
        return self._call(answers.RoleGrant, "PUT", path)

    def revoke_role(self, role: str, user_id: UUID) -> answers.RoleGrant:
        path = f"/v1/roles/{part(role)}/members/{part(user_id)}"
        return self._call(answers.RoleGrant, "DELETE", path)

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        since: datetime | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> answers.AuditPage:
        query = {
            "actor": actor,
            "action": action,
            "target": target,
            "since": since.isoformat() if isinstance(since, datetime) else since,
            "limit": limit,
            "cursor": cursor,
        }
        return self._call(answers.AuditPage, "GET", "/v1/audit", query=query)

    # Secrets, tokens, webhooks ----------------------------------------------------------------

    def secrets(self, *, limit: int | None = None, cursor: str | None = None) -> answers.SecretPage:
        query = {"limit": limit, "cursor": cursor}
        return self._call(answers.SecretPage, "GET", "/v1/secrets", query=query)

    def set_secret(self, name: str, value: str) -> answers.SecretWritten:
        path = f"/v1/secrets/{part(name)}"
        return self._call(answers.SecretWritten, "PUT", path, body={"value": value})

    def remove_secret(self, name: str) -> answers.SecretRemoved:
        return self._call(answers.SecretRemoved, "DELETE", f"/v1/secrets/{part(name)}")

    def worker_tokens(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> answers.WorkerTokenPage:
        query = {"limit": limit, "cursor": cursor}
        return self._call(answers.WorkerTokenPage, "GET", "/v1/worker-tokens", query=query)

    def create_worker_token(
        self, name: str, expires_in_days: int | None = None
    ) -> answers.WorkerTokenMade:
        body = {"name": name, "expires_in_days": expires_in_days}
        return self._call(answers.WorkerTokenMade, "POST", "/v1/worker-tokens", body=body)

    def revoke_worker_token(self, token_id: UUID | str) -> answers.WorkerTokenRevoked:
        path = f"/v1/worker-tokens/{part(token_id)}"
        return self._call(answers.WorkerTokenRevoked, "DELETE", path)

    def hook(self, dag: str, job: str) -> answers.Hook:
        return self._call(answers.Hook, "GET", f"/v1/dags/{part(dag)}/jobs/{part(job)}/hook")

    def rotate_hook_secret(self, dag: str, job: str) -> answers.HookSecret:
        path = f"/v1/dags/{part(dag)}/jobs/{part(job)}/hook/secret"
        return self._call(answers.HookSecret, "POST", path)
