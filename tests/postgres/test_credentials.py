"""Secrets and worker tokens over real HTTP: what goes in, and what is shown once."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.served import Person, Served, audited
from trace_core.http.routes import Surface
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.kernel.errors import Unauthenticated
from trace_core.ports.secret_store import Namespace

WRITER = PlatformRole.WRITER


VALUE = "a-very-secret-value"


def test_a_secret_goes_in_and_never_comes_out(
    served: Served, admin: Person, log: io.StringIO
) -> None:
    writer = served.member("writer", WRITER)
    replies = [
        writer.call("PUT", "/v1/secrets/rpc_key", {"value": VALUE}),
        writer.call("PUT", "/v1/secrets/rpc_key", {"value": VALUE + "2"}),
        writer.call("GET", "/v1/secrets"),
        writer.call("GET", "/v1/secrets/rpc_key"),
        admin.call("GET", "/v1/audit"),
        writer.call("PUT", "/v1/secrets/Bad-Name", {"value": VALUE}),
        writer.call("PUT", "/v1/secrets/rpc_key", {"value": [VALUE]}),
        writer.call("PUT", "/v1/secrets/rpc_key", {"value": VALUE, "more": VALUE}),
        writer.call("PUT", "/v1/secrets/rpc_key", {"value": VALUE * 10_000}),
    ]
    assert [each.status for each in replies] == [201, 200, 200, 404, 200, 422, 422, 422, 422]
    assert not any(VALUE in each.text for each in replies)
    assert VALUE not in log.getvalue()
    (listed,) = replies[2].body["secrets"]
    assert (listed["name"], listed["updated_by"]) == ("rpc_key", "writer")
    org = served.app.own_org
    assert served.app.secrets.get(org, Namespace.USER, "rpc_key") == VALUE + "2"
    rows = served.app.state.read("SELECT t::text AS row FROM audit t", {})
    assert not any(VALUE in row.row for row in rows)


def test_a_multibyte_secret_over_the_limit_is_refused_and_the_old_one_stays(
    served: Served, admin: Person
) -> None:
    admin.ok("PUT", "/v1/secrets/key", {"value": "old"})
    assert admin.call("PUT", "/v1/secrets/key", {"value": "é" * 40_000}).status == 413
    assert admin.call("PUT", "/v1/secrets/key", {"value": ""}).status == 422
    assert served.app.secrets.get(served.app.own_org, Namespace.USER, "key") == "old"
    assert audited(admin, action="secret") == [("secret.set", "key")]


def test_secrets_of_the_platform_and_of_other_orgs_are_out_of_reach(
    served: Served, admin: Person
) -> None:
    org, other = served.app.own_org, served.app.orgs.ensure_org("other")
    served.app.secrets.put(org, Namespace.PLATFORM, "signing", "platform")
    served.app.secrets.put(other, Namespace.USER, "theirs", "foreign")
    assert admin.ok("GET", "/v1/secrets") == {"secrets": [], "next": None}
    for name in ("signing", "theirs"):
        assert admin.call("DELETE", f"/v1/secrets/{name}").status == 404
        admin.ok("PUT", f"/v1/secrets/{name}", {"value": "mine"})
        admin.ok("DELETE", f"/v1/secrets/{name}")
    assert served.app.secrets.get(org, Namespace.PLATFORM, "signing") == "platform"
    assert served.app.secrets.get(other, Namespace.USER, "theirs") == "foreign"


def test_a_secret_that_the_store_refuses_is_not_recorded(served: Served, admin: Person) -> None:
    folder = served.app.home.secrets
    (folder / f"{served.app.own_org}.user.json").write_text("damaged")
    assert admin.call("PUT", "/v1/secrets/key", {"value": VALUE}).status == 503
    assert audited(admin, action="secret") == []


# Worker tokens ---------------------------------------------------------------------------------


def claims(served: Served, token: str) -> int:
    body = {"worker_id": "w", "queue": "worker", "limit": 1}
    path = "/internal/task-claim"
    return served.call(token, "POST", path, body, surface=Surface.INTERNAL).status


def fresh(served: Served) -> None:
    """Forget which worker tokens were good a moment ago."""
    served.app.parts.pop("authenticator", None)


def test_worker_tokens_are_rotated_with_two_valid_at_once(
    served: Served, admin: Person, log: io.StringIO
) -> None:
    old, new = (admin.ok("POST", "/v1/worker-tokens", {"name": "farm"}) for _ in range(2))
    third = admin.call("POST", "/v1/worker-tokens", {"name": "farm"})
    assert (third.status, third.body["error"]["code"]) == (409, "TooManyWorkerTokens")
    assert [claims(served, each["token"]) for each in (old, new)] == [200, 200]
    admin.ok("DELETE", f"/v1/worker-tokens/{old['token_id']}")
    fresh(served)
    assert [claims(served, each["token"]) for each in (old, new)] == [401, 200]
    assert admin.call("DELETE", f"/v1/worker-tokens/{old['token_id']}").status == 404
    listed = admin.call("GET", "/v1/worker-tokens")
    assert [each["valid"] for each in listed.body["worker_tokens"]] == [False, True]
    for made in (old, new):
        assert made["token"] not in listed.text + log.getvalue()
        assert made["token"] not in admin.call("GET", "/v1/audit").text
    assert audited(admin, action="worker_token") == [
        ("worker_token.revoke", "farm"),
        ("worker_token.create", "farm"),
        ("worker_token.create", "farm"),
    ]


def test_a_worker_token_ends_when_it_was_said_to(
    served: Served, admin: Person, manual_clock: ManualClock
) -> None:
    body = {"name": "farm", "expires_in_days": 1}
    token = admin.ok("POST", "/v1/worker-tokens", body)["token"]
    assert claims(served, token) == 200
    manual_clock.advance(timedelta(days=1))
    fresh(served)
    assert claims(served, token) == 401
    admin.ok("POST", "/v1/worker-tokens", body)
    admin.ok("POST", "/v1/worker-tokens", body)


def test_the_use_of_a_worker_token_is_written_once_an_hour(
    served: Served, admin: Person, manual_clock: ManualClock
) -> None:
    token = admin.ok("POST", "/v1/worker-tokens", {"name": "farm"})["token"]

    def used() -> Any:
        return admin.ok("GET", "/v1/worker-tokens")["worker_tokens"][0]["last_used_at"]

    assert used() is None
    claims(served, token)
    first = used()
    for minutes in (10, 20, 29):
        manual_clock.advance(timedelta(minutes=minutes))
        fresh(served)
        claims(served, token)
        assert used() == first
    manual_clock.advance(timedelta(minutes=1))
    fresh(served)
    claims(served, token)
    assert used() > first


@pytest.mark.parametrize(
    "token", ["", "trw_", "trw_" + "A" * 43, "trw_" + "A" * 44, "x" * 47, "trw_" + "A" * 42 + "!"]
)
def test_what_is_no_worker_token_is_refused(served: Served, token: str) -> None:
    with pytest.raises(Unauthenticated):
        served.app.worker_tokens.org_of(token)


def test_a_worker_token_of_another_org_is_not_found(served: Served, admin: Person) -> None:
    other = served.app.orgs.ensure_org("other")
    made = served.app.worker_tokens.create(other, "theirs", None, SYSTEM)
    assert admin.call("DELETE", f"/v1/worker-tokens/{made.token_id}").status == 404
    assert admin.ok("GET", "/v1/worker-tokens") == {"worker_tokens": [], "next": None}
    assert served.app.worker_tokens.org_of(made.token) == other
