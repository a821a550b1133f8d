"""One platform for the wall: every kind of principal, and an issuer of users over real HTTP."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives import serialization

from tests.manual_clock import START, ManualClock
from tests.postgres.lite_app import CHAIN, OPERATORS, UNLIMITED, SilentWaker
from tests.postgres.served import Reply, Served
from tests.unit.identity.forgeries import Forge
from tests.unit.identity.issuers import Private, ec_key, jwk, rsa_key
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.bootstrap import App
from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase
from trace_core.http.routes import Surface
from trace_core.identity import webhook_signature
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.kernel.ids import Ids, OrgId
from trace_core.settings import Settings

HOOKED = """
version: 1
name: hooked
jobs:
  - {name: orders, activation: source, runtime: dispatcher, operator: range_request, outputs: 1,
     source: {kind: webhook, path: /orders}}
"""
RUN = """
version: 1
name: run
jobs:
  - {name: numbers, activation: source, runtime: lambda, operator: emit_cursors, outputs: 1,
     source: {kind: always_on}, update_strategy: replace}
"""
KEYS: dict[str, Private] = {"r1": rsa_key(1), "e1": ec_key(1), "e2": ec_key(2)}
NOW = int(START.timestamp())
SIGNED = "signed"
"""Stands for the signature of a webhook, which depends on what is sent."""


class Wall:
    """Everything stands still: no call of the wall may change anything."""

    def __init__(self, dsn: str, home: Path) -> None:
        self._issuer = LocalServer("issuer", self._issue, 0)
        self._issuer.start()
        self.issuer = self._issuer.url
        self.clock = ManualClock()
        self._state = StateDatabase(dsn, size=8)
        app = App(
            Settings(
                home=home, operator_modules=(OPERATORS,), oidc_issuer=self.issuer, **UNLIMITED
            ),
            state=self._state,
            clock=self.clock,
            ids=Ids(self.clock.now, random.Random(1).getrandbits),  # noqa: S311
            waker=SilentWaker(),
        )
        self.app, self.served = app, Served(app)
        self.org, self.other = app.own_org, app.orgs.ensure_org("other")
        for role in PlatformRole:
            app.members.add(self.org, app.subject(role.value), role, None, SYSTEM)
        app.members.add(self.other, app.subject("stranger"), PlatformRole.ADMIN, None, SYSTEM)
        self.worker = self._worker(self.org, "ours")
        self.stranger_worker = self._worker(self.other, "theirs")
        revoked = app.worker_tokens.create(self.org, "old", None, SYSTEM)
        app.worker_tokens.revoke(self.org, revoked.token_id, SYSTEM)
        self.revoked_worker = revoked.token
        for text in (CHAIN, RUN):
            app.deploys.deploy(self.org, text, "dag.yaml", SYSTEM)
        self.capability, self.fence, self.start_token = self._tasks()
        self.source_id, self.secret = self._hook(self.org)
        self.other_source_id, self.other_secret = self._hook(self.other)

    def close(self) -> None:
        self.served.stop()
        self._issuer.stop()
        self._state.close()

    def _issue(self, event: dict[str, Any], _context: Any) -> dict[str, Any]:
        documents = {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
            },
            "/keys": {"keys": [jwk(key, kid) for kid, key in KEYS.items()]},
        }
        found = documents.get(event["path"])
        return {"statusCode": 200 if found else 404, "body": json.dumps(found)}

    def _worker(self, org_id: OrgId, name: str) -> str:
        token = self.app.worker_tokens.create(org_id, name, None, SYSTEM).token
        # Its first use is written down; the calls of the wall then write nothing.
        self.app.worker_tokens.org_of(token)
        return token

    def _hook(self, org_id: OrgId) -> tuple[UUID, str]:
        self.app.deploys.deploy(org_id, HOOKED, "hooked.yaml", SYSTEM)
        made = self.app.hooks.rotate(org_id, "hooked", "orders", SYSTEM)
        return made.source_id, made.secret

    def _tasks(self) -> tuple[str, dict[str, Any], str]:
        """A running task with its capability token, and the start token of a reserved one."""
        claims = self.app.claims.claim(self.org, Runtime.WORKER, 10, "w")
        payload = self.app.payloads.build(claims)[0]
        fence = claims[0].fence
        reserved = self.app.claims.reserve(self.org, Runtime.LAMBDA, 1)
        return (
            str(payload["capability_token"]),
            {
                "task_id": str(fence.task_id),
                "attempt": fence.attempt,
                "lease_token": str(fence.lease_token),
            },
            str(self.app.payloads.build(reserved)[0]["start_token"]),
        )

    # What callers show ------------------------------------------------------------------------

    def user_forge(self, subject: str, kid: str = "r1") -> Forge:
        others = {name: key for name, key in KEYS.items() if name != kid}
        algorithm = "RS256" if kid.startswith("r") else "ES256"
        return Forge(KEYS[kid], kid, algorithm, NOW, self.issuer, "trace", subject, others)

    def user(self, subject: str) -> str:
        return self.user_forge(subject).good()

    def capability_forge(self) -> Forge:
        """Signs with the platform's own key, so that only the checks stand in the way."""
        pem = (self.app.home.keys / "task.pem").read_bytes()
        key: Any = serialization.load_pem_private_key(pem, password=None)
        body = self.capability.split(".")[1]
        claims = json.loads(_decoded(body))
        named = ("iss", "aud", "sub", "iat", "nbf", "exp")
        more = {name: value for name, value in claims.items() if name not in named}
        kid = self.app.signer.jwks()["keys"][0]["kid"]
        sub, aud = claims["sub"], claims["aud"]
        return Forge(key, kid, "ES256", NOW, claims["iss"], aud, sub, more=more)

    def principals(self) -> dict[str, dict[str, str]]:
        """Headers of each, by name; `SIGNED` where a signature goes."""
        ours = {"x-trace-org": "local"}

        def bearer(token: str) -> dict[str, str]:
            return {"authorization": f"Bearer {token}"}

        return {
            "nobody": {},
            "reader": bearer(self.user("reader")),
            "writer": bearer(self.user("writer")) | ours,
            "admin": bearer(self.user("admin")),
            "stranger": bearer(self.user("stranger")) | ours,
            "somebody without an org": bearer(self.user("nobody-knows")),
            "worker": bearer(self.worker),
            "revoked worker": bearer(self.revoked_worker),
            "task": bearer(self.capability),
            "start": bearer(self.start_token),
            "source": {SIGNED: self.secret},
            "other source": {SIGNED: self.other_secret},
        }

    def send(
        self,
        surface: Surface,
        method: str,
        path: str,
        body: bytes | None,
        shown: Mapping[str, str],
    ) -> Reply:
        headers = {"content-type": "application/json", **shown}
        secret = headers.pop(SIGNED, None)
        if secret is not None:
            headers |= self.signature(secret, body or b"")
        return self.served.send(surface, method, path, body, headers)

    def signature(self, secret: str, body: bytes, event: str = "evt") -> dict[str, str]:
        return {
            "webhook-id": event,
            "webhook-timestamp": str(NOW),
            "webhook-signature": "v1," + webhook_signature.sign(secret, event, str(NOW), body),
        }


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def forged_worker_tokens(token: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """What comes in the header `Authorization`, by what is wrong with it."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place in range(4, len(token)):
        other = chance.choice([each for each in letters if each != token[place]])
        yield f"another letter at {place}", f"Bearer {token[:place]}{other}{token[place + 1 :]}"
    random_part = token.removeprefix("trw_")
    yield from {
        "no scheme": token,
        "another scheme": f"Basic {token}",
        "a scheme of ours": f"Worker {token}",
        "capitals": f"BEARER {token}",
        "no blank": f"Bearer{token}",
        "a tab": f"Bearer\t{token}",
        "nothing": "Bearer ",
        "twice": f"Bearer {token}, Bearer {token}",
        "two tokens": f"Bearer {token} {token}",
        "quoted": f'Bearer "{token}"',
        "in capitals": f"Bearer {token.upper()}",
        "in small letters": f"Bearer {token.lower()}",
        "no prefix": f"Bearer {random_part}",
        "another prefix": f"Bearer trx_{random_part}",
        "the prefix twice": f"Bearer trw_{token}",
        "the prefix alone": "Bearer trw_",
        "a letter less": f"Bearer {token[:-1]}",
        "a letter more": f"Bearer {token}A",
        "padded": f"Bearer {token}=",
        "backwards": f"Bearer trw_{random_part[::-1]}",
        "zeros": f"Bearer trw_{'A' * 43}",
        "very long": f"Bearer trw_{'A' * 16_000}",
        "over the limit": f"Bearer trw_{'A' * 17_000}",
        "a wildcard": "Bearer trw_%",
        "a quote": "Bearer trw_' OR '1'='1",
        "a path": "Bearer ../../tokens/worker.token",
        "an id": "Bearer 00000000-0000-0000-0000-000000000000",
        "null": "Bearer null",
    }.items()


def forged_calls(wall: Wall, body: bytes) -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
    """Name, path, body and headers of calls that a webhook must not believe."""
    path = f"/v1/hooks/{wall.source_id}"
    good = wall.signature(wall.secret, body)
    value = good["webhook-signature"].removeprefix("v1,")

    def changed(**headers: str) -> dict[str, str]:
        return good | {name.replace("_", "-"): text for name, text in headers.items()}

    for name in good:
        yield f"no {name}", path, body, {k: v for k, v in good.items() if k != name}
        yield f"empty {name}", path, body, good | {name: ""}
    yield "nothing", path, body, {}
    yield "another body", path, body + b" ", good
    yield "no body", path, b"", good
    yield "another id", path, body, changed(webhook_id="evt2")
    for bad in ("a.b", "a b", "é", "x" * 129, "a, a", "evt\t", ".", "evt.1"):
        signed = wall.signature(wall.secret, body, bad)
        yield f"the id {bad[:9]!r}", path, body, signed
    for bad in (
        str(NOW + 1), str(NOW - 301), str(NOW + 301), "0", "-1", f"+{NOW}", f"{NOW}.0",
        f"0{NOW}", hex(NOW), "now", "1e9", str(NOW * 1000), "9" * 30, f"{NOW}, {NOW}", "\u00b2",
    ):  # fmt: skip
        yield f"the time {bad[:12]!r}", path, body, changed(webhook_timestamp=bad)
        again = webhook_signature.sign(wall.secret, "evt", bad, body)
        if bad != str(NOW + 1):
            resigned = changed(webhook_timestamp=bad, webhook_signature=f"v1,{again}")
            yield f"the time {bad[:12]!r}, signed", path, body, resigned
    for bad in (
        value, f"v1 {value}", f"v1={value}", f"v1,{value[:-1]}", f"v1,{value}A", f"v1,{value[1:]}",
        f"v1,{value.lower()}", f"v2,{value}", f"v1a,{value}", f"V1,{value}", f"v1,,{value}",
        f"v1,{value},", f"v1,{value}=", "v1,", ",", "v1", f"v0,{value}", "none", "v1,none",
        f"v1,{value.replace('=', '')}", " ".join(["v1,AAAA"] * 11 + [f"v1,{value}"]),
        f"v1,{'A' * 5000} v1,{value}", f"v1,{value[::-1]}",
    ):  # fmt: skip
        yield f"the signature {bad[:20]!r}", path, body, changed(webhook_signature=bad)
    for name, secret in {
        "another source's": wall.other_secret,
        "an empty": "whsec_",
        "a known": "whsec_AAAA",
    }.items():
        yield f"{name} secret", path, body, wall.signature(secret, body)
    for name, other in {
        "another source": str(wall.other_source_id),
        "no source": "00000000-0000-4000-8000-000000000000",
        "no id": "orders",
    }.items():
        yield f"at {name}", f"/v1/hooks/{other}", body, good
    yield "a token instead", path, body, {"authorization": f"Bearer {wall.user('admin')}"}
    yield "the secret as a token", path, body, {"authorization": f"Bearer {wall.secret}"}
