"""Webhook sources over real HTTP: a signed call is a request, once, and nothing else gets in."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.lite_app import SilentWaker
from tests.postgres.served import Person, Reply, Served
from trace_core import telemetry
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.http.routes import Surface
from trace_core.identity import webhook_signature
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.kernel.ids import Ids
from trace_core.ports.secret_store import Namespace
from trace_core.settings import Settings

DAG = """
version: 1
name: hooked
jobs:
  - name: orders
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: webhook, path: /orders }
    outputs: 1
  - name: asked
    activation: source
    runtime: dispatcher
    operator: range_request
    source: { kind: manual }
    outputs: 1
"""
BODY = b'{"start": 0, "end": 9}'


class Hook:
    """A caller who knows the address and a secret."""

    def __init__(self, served: Served, clock: ManualClock, path: str, secret: str) -> None:
        self.served, self.clock, self.path, self.secret = served, clock, path, secret

    def headers(self, event: str, body: bytes = BODY, seconds: int = 0) -> dict[str, str]:
        timestamp = str(int(self.clock.now().timestamp()) + seconds)
        signature = webhook_signature.sign(self.secret, event, timestamp, body)
        return {
            "webhook-id": event,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{signature}",
            "content-type": "application/json",
        }

    def send(self, event: str, body: bytes = BODY, **changed: str) -> Reply:
        headers = self.headers(event, body) | {
            name.replace("_", "-"): value for name, value in changed.items()
        }
        return self.served.send(Surface.USER, "POST", self.path, body, headers)


@pytest.fixture
def served(state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids) -> Iterator[Served]:
    state = StateDatabase(state_dsn, size=8)
    settings = Settings(home=tmp_path / "home")
    app = App(settings, state=state, clock=manual_clock, ids=ids, waker=SilentWaker())
    with (tmp_path / "log").open("w") as log, telemetry.redirected(log):
        found = Served(app)
        app.orgs.first_admin(app.own_org, app.subject("ada"))
        yield found
        found.stop()
    state.close()


@pytest.fixture
def admin(served: Served) -> Person:
    person = Person(served, "ada")
    person.ok("POST", "/v1/dags", {"text": DAG})
    return person


SECRET = "/v1/dags/hooked/jobs/orders/hook/secret"


@pytest.fixture
def hook(served: Served, admin: Person, manual_clock: ManualClock) -> Hook:
    made = admin.ok("POST", SECRET)
    return Hook(served, manual_clock, made["path"], made["secret"])


def requests(served: Served) -> list[Any]:
    return served.app.state.read(
        "SELECT t.number, t.request, t.event_key FROM triggers t ORDER BY t.number", {}
    )


def test_a_signed_call_becomes_a_request_and_a_repeat_makes_nothing(
    served: Served, hook: Hook
) -> None:
    first = hook.send("evt_1")
    assert (first.status, first.body) == (202, {"number": 1})
    again = hook.send("evt_1", b'{"start": 5, "end": 6}')
    assert (again.status, again.body) == (200, {"number": 1})
    assert hook.send("evt_2").body == {"number": 2}
    assert [(row.number, row.request, row.event_key) for row in requests(served)] == [
        (1, {"start": 0, "end": 9}, "evt_1"),
        (2, {"start": 0, "end": 9}, "evt_2"),
    ]
    served.app.dispatcher.run_once()
    task = Person(served, "ada").ok("GET", "/v1/tasks?job=orders")["tasks"][0]["task_id"]
    events = Person(served, "ada").ok("GET", f"/v1/tasks/{task}")["events"]
    assert len(events) == 2


def test_the_example_of_the_standard_has_the_signature_it_says() -> None:
    signature = webhook_signature.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    assert signature == "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_source_without_a_secret_lets_nobody_in(
    served: Served, admin: Person, manual_clock: ManualClock
) -> None:
    shown = admin.ok("GET", "/v1/dags/hooked/jobs/orders/hook")
    assert shown["secrets"] == []
    for secret in ("", "whsec_", "whsec_AAAA"):
        assert Hook(served, manual_clock, shown["path"], secret).send("evt").status == 401


def test_two_secrets_sign_after_a_rotation_and_the_old_one_ends_after_a_day(
    served: Served, admin: Person, hook: Hook, manual_clock: ManualClock
) -> None:
    first = hook.secret
    second, third = (admin.ok("POST", SECRET) for _ in range(2))
    assert second["path"] == third["path"] == hook.path
    assert second["former_until"] is not None

    def good(secret: str, event: str) -> bool:
        return Hook(served, manual_clock, hook.path, secret).send(event).status == 202

    assert [good(each, f"a{n}") for n, each in enumerate((first, second["secret"]))] == [
        False,
        True,
    ]
    assert good(third["secret"], "b")
    manual_clock.advance(timedelta(hours=24))
    assert not good(second["secret"], "c")
    assert good(third["secret"], "d")
    shown = admin.call("GET", "/v1/dags/hooked/jobs/orders/hook")
    assert len(shown.body["secrets"]) == 1
    audit = admin.call("GET", "/v1/audit?action=hook")
    assert len(audit.body["entries"]) == 3
    for secret in (first, second["secret"], third["secret"]):
        assert secret not in shown.text + audit.text


def test_one_good_signature_among_several_is_enough(hook: Hook) -> None:
    good = hook.headers("evt")["webhook-signature"]
    others = f"v1,AAAA v1a,{'B' * 88} {good} v2,x"
    assert hook.send("evt", webhook_signature=others).status == 202
    crowd = " ".join(["v1,AAAA"] * 10 + [good])
    assert hook.send("evt2", webhook_signature=crowd).status == 401


def test_a_clock_may_be_five_minutes_off(served: Served, hook: Hook) -> None:
    for seconds, status in ((300, 202), (-300, 202), (301, 401), (-301, 401)):
        headers = hook.headers(f"evt{seconds}", BODY, seconds)
        reply = served.send(Surface.USER, "POST", hook.path, BODY, headers)
        assert reply.status == status, seconds


def test_a_good_signature_under_another_source_or_another_orgs_is_refused(
    served: Served, admin: Person, hook: Hook
) -> None:
    admin.ok("POST", "/v1/dags", {"text": DAG.replace("hooked", "other")})
    other = admin.ok("POST", "/v1/dags/other/jobs/orders/hook/secret")
    hook.path = other["path"]
    assert hook.send("evt").status == 401
    hook.path = f"/v1/hooks/{uuid4()}"
    assert hook.send("evt").status == 401
    assert requests(served) == []


def test_a_body_that_is_too_large_or_means_nothing_to_the_operator_makes_nothing(
    served: Served, hook: Hook
) -> None:
    assert hook.send("a", b'{"x": "' + b"x" * 256 * 1024 + b'"}').status == 413
    assert hook.send("b", b'{"start": 9, "end": 0}').status == 422
    assert hook.send("c", b"[1]").status == 422
    assert hook.send("d", b"no JSON").status == 422
    assert hook.send("e", b'{"start": 0, "end": 1, "x": "\\u0000"}').status == 422
    assert hook.send("f", content_type="text/plain").status == 415
    assert requests(served) == []


def test_secrets_of_webhooks_are_the_platforms_and_no_member_can_reach_them(
    served: Served, admin: Person, hook: Hook
) -> None:
    org = served.app.own_org
    (name,) = served.app.secrets.names(org, Namespace.PLATFORM)
    assert served.app.secrets.get(org, Namespace.PLATFORM, name) == hook.secret
    assert admin.ok("GET", "/v1/secrets") == {"secrets": [], "next": None}
    admin.ok("PUT", f"/v1/secrets/{name}", {"value": "whsec_AAAA"})
    assert hook.send("evt").status == 202


def test_only_those_who_may_deploy_the_dag_get_its_secret(served: Served, admin: Person) -> None:
    writer = served.member("writer", PlatformRole.WRITER)
    assert writer.call("POST", SECRET).status == 403
    assert writer.call("GET", "/v1/dags/hooked/jobs/orders/hook").status == 200
    for path in (SECRET.replace("orders", "asked"), SECRET.replace("hooked", "nope")):
        assert admin.call("POST", path).status == 404


def test_a_webhook_of_another_org_is_not_found(served: Served, admin: Person) -> None:
    other = served.app.orgs.ensure_org("other")
    text = DAG.replace("hooked", "theirs")
    served.app.deploys.deploy(other, text, "theirs.yaml", SYSTEM)
    for method, path in (("POST", SECRET), ("GET", SECRET.removesuffix("/secret"))):
        assert admin.call(method, path.replace("hooked", "theirs")).status == 404
    assert served.app.hooks.show(other, "theirs", "orders")["secrets"] == []


def test_a_webhook_is_not_triggered_by_hand(admin: Person) -> None:
    body = {"request": {"start": 0, "end": 1}}
    reply = admin.call("POST", "/v1/dags/hooked/jobs/orders/trigger", body)
    assert (reply.status, "not a manual source" in reply.text) == (422, True)


def test_the_same_event_sent_many_times_at_once_is_one_request(served: Served, hook: Hook) -> None:
    replies: list[Reply] = []
    threads = [threading.Thread(target=lambda: replies.append(hook.send("evt"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.status for each in replies) == [200] * 7 + [202]
    assert len(requests(served)) == 1
    assert json.loads(replies[0].text) == {"number": 1}
