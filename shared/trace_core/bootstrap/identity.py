"""The services that know who calls, wired from their parts."""

from __future__ import annotations

from datetime import timedelta

from trace_core.adapters.lite import development_issuer
from trace_core.bootstrap.parts import Parts
from trace_core.http.auth import (
    Authenticator,
    RememberedWorkers,
    bearer,
    source_check,
    user_check,
)
from trace_core.http.principal import Kind, Principal
from trace_core.identity.audit import Audit
from trace_core.identity.capability_token import CapabilityTokens
from trace_core.identity.issuer_keys import IssuerKeys
from trace_core.identity.members import AlreadyMember, Members
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.identity.orgs import Orgs
from trace_core.identity.rate_limits import RateLimits
from trace_core.identity.secret_writer import SecretWriter
from trace_core.identity.user_token import Subject, UserTokens
from trace_core.identity.webhook_sources import WebhookSources
from trace_core.identity.worker_token import WorkerTokens, hash_token, new_worker_token
from trace_core.kernel.ids import OrgId
from trace_core.kernel.limits import Timings
from trace_core.registry.read_rights import ReadRights
from trace_core.tasks.model import Fence

ISSUER = "trace"
_OWN_TOKEN_LIFETIME = timedelta(hours=1)


class IdentityServices(Parts):
    @property
    def timings(self) -> Timings:
        return self._part("timings", lambda: self.settings.timings)

    @property
    def orgs(self) -> Orgs:
        return self._part("orgs", lambda: Orgs(self.state, self.clock, self.ids))

    @property
    def members(self) -> Members:
        return self._part("members", self._build_members)

    def _build_members(self) -> Members:
        return Members(self.state, self.clock, self.ids, self.read_rights.refresh)

    @property
    def read_rights(self) -> ReadRights:
        return self._part("read_rights", lambda: ReadRights(self.state, self.clock, self.ids))

    @property
    def audit(self) -> Audit:
        return self._part("audit", lambda: Audit(self.state, self.clock, self.ids))

    @property
    def worker_tokens(self) -> WorkerTokens:
        return self._part("worker_tokens", lambda: WorkerTokens(self.state, self.clock, self.ids))

    @property
    def secret_writer(self) -> SecretWriter:
        return self._part("secret_writer", self._build_secret_writer)

    def _build_secret_writer(self) -> SecretWriter:
        return SecretWriter(self.state, self.clock, self.ids, self.secrets)

    @property
    def webhook_sources(self) -> WebhookSources:
        return self._part("webhook_sources", self._build_webhook_sources)

    def _build_webhook_sources(self) -> WebhookSources:
        return WebhookSources(self.state, self.clock, self.ids, self.secrets)

    @property
    def tokens(self) -> CapabilityTokens:
        return self._part("tokens", lambda: CapabilityTokens(self.signer, self.clock, ISSUER))

    @property
    def user_tokens(self) -> UserTokens:
        return self._part("user_tokens", self._build_user_tokens)

    def _build_user_tokens(self) -> UserTokens:
        return UserTokens(
            IssuerKeys(self.user_keys, self.clock),
            self.clock,
            issuer=self.settings.issuer_address,
            audience=self.settings.oidc_audience,
            known_as=self.issuer_name,
        )

    @property
    def issuer_name(self) -> str:
        """What users' issuer is called in the database."""
        return self.settings.oidc_issuer or development_issuer.NAME

    @property
    def authenticator(self) -> Authenticator:
        return self._part("authenticator", self._build_authenticator)

    def _build_authenticator(self) -> Authenticator:
        return Authenticator(
            {
                # Wired when such a caller comes: only the user API knows an issuer and secrets.
                Kind.USER: lambda shown: user_check(self.user_tokens, self.members)(shown),
                Kind.WORKER: bearer(
                    RememberedWorkers(self.worker_tokens.org_of, self.timings.worker_token_memory)
                ),
                Kind.TASK: bearer(self._task),
                Kind.SOURCE: lambda shown: source_check(self.webhook_sources)(shown),
            }
        )

    @property
    def rate_limits(self) -> RateLimits:
        return self._part("rate_limits", self._build_rate_limits)

    def _build_rate_limits(self) -> RateLimits:
        return RateLimits(self.state, self.clock, self.settings.request_limits)

    def _task(self, token: str) -> Principal:
        grant = self.tokens.verify(token)
        fence = Fence(grant.task_id, grant.attempt, grant.lease_token)
        return Principal(grant.org_id, None, Kind.TASK, fence, grant=grant)

    def subject(self, name: str) -> Subject:
        """Whom the users' issuer calls so."""
        return Subject(self.issuer_name, name)

    # One machine ------------------------------------------------------------------------------

    @property
    def own_org(self) -> OrgId:
        """The org that this process speaks for."""
        return self._part("own_org", lambda: self.orgs.ensure_org(self.settings.org))

    @property
    def user_token(self) -> str:
        """A token for the commands of this machine: the one they were given, or a new one."""
        if self.settings.user_token is not None:
            return self.settings.user_token.get_secret_value()
        return self.development_issuer.mint(self.local_user, _OWN_TOKEN_LIFETIME)

    @property
    def local_user(self) -> str:
        return self._part("local_user", self._build_local_user)

    def _build_local_user(self) -> str:
        """The person at this machine, who administers the org as long as nobody else does."""
        name = f"local:{self.settings.org}"
        self.orgs.first_admin(self.own_org, self.subject(name))
        return name

    def development_token(
        self, name: str | None, role: PlatformRole | None, lifetime: timedelta
    ) -> str:
        """A token for anybody, who becomes a member of the org if need be."""
        issuer = self.development_issuer
        subject = name or self.local_user
        token = issuer.mint(subject, lifetime)
        if name is not None or role is not None:
            self._ensure_member(subject, role)
        return token

    def _ensure_member(self, name: str, role: PlatformRole | None) -> None:
        who = self.subject(name)
        try:
            self.members.add(self.own_org, who, role or PlatformRole.READER, None, SYSTEM)
        except AlreadyMember:
            if role is not None:
                found = self.members.membership(who, str(self.own_org))
                self.members.set_role(self.own_org, found.user_id, role, SYSTEM)

    @property
    def worker_token(self) -> str:
        """The token of this machine's workers, registered for the one org."""
        return self._part("worker_token", self._build_worker_token)

    def _build_worker_token(self) -> str:
        token = self.home.token("worker", lambda: new_worker_token(self.ids))
        # A name for each home: machines that share a database do not use up each other's two.
        name = f"local-{hash_token(token).hex()[:8]}"
        self.worker_tokens.ensure(self.own_org, name, token, SYSTEM)
        return token
