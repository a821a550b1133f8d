"""The orgs that a deployment names: made, with administrators and the token of their workers."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from trace_core.identity.model import SYSTEM
from trace_core.identity.orgs import Orgs
from trace_core.identity.user_token import Subject
from trace_core.identity.worker_token import TOKEN_PREFIX, WorkerTokens
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace, SecretStore

WORKER_TOKEN = "worker_token"  # noqa: S105  # the name of the secret, not the secret
"""A platform secret of each org, made with its queue."""


class ProvisionedOrg(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")
    org_id: UUID
    administrators: tuple[str, ...] = ()


class Provision(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    orgs: tuple[ProvisionedOrg, ...]


def provisioned_token(secrets: SecretStore, org_id: OrgId) -> str:
    """The worker token of an org. Its secret may hold the random part alone, as CDK makes it."""
    value = secrets.get(org_id, Namespace.PLATFORM, WORKER_TOKEN)
    return value if value.startswith(TOKEN_PREFIX) else TOKEN_PREFIX + value


class Provisioning:
    def __init__(
        self, orgs: Orgs, worker_tokens: WorkerTokens, secrets: SecretStore, issuer: str
    ) -> None:
        self._orgs = orgs
        self._worker_tokens = worker_tokens
        self._secrets = secrets
        self._issuer = issuer

    def provision(self, wanted: Provision) -> None:
        """May be repeated; takes nothing away. A token that was replaced is revoked by hand.

        An administrator is made only where there is none: all others are added by people.
        """
        for org in wanted.orgs:
            org_id = OrgId(org.org_id)
            self._orgs.create_org(org_id, org.name)
            for subject in org.administrators:
                self._orgs.first_admin(org_id, Subject(self._issuer, subject))
            token = provisioned_token(self._secrets, org_id)
            self._worker_tokens.ensure(org_id, "worker", token, SYSTEM)
