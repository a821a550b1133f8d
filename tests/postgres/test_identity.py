"""Members, roles, rights on DAGs, the audit, secrets and worker tokens, over real HTTP."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.postgres.lite_app import CHAIN
from tests.postgres.served import HOUR, Person, Served, audited
from trace_core.bootstrap import App
from trace_core.identity.model import SYSTEM, PlatformRole
from trace_core.kernel.errors import Invalid
from trace_core.settings import Profile, Settings

READER, WRITER, ADMIN = PlatformRole
DAG = {"text": CHAIN, "filename": "chain.yaml"}


def user_id(admin: Person, subject: str) -> str:
    members = admin.ok("GET", "/v1/members")["members"]
    return str(next(each["user_id"] for each in members if each["subject"] == subject))


# Orgs ------------------------------------------------------------------------------------------


def test_the_first_administrator_is_made_once_and_by_nobody_after(served: Served) -> None:
    app = served.app
    assert app.orgs.first_admin(app.own_org, app.subject("ada")) is not None
    assert app.orgs.first_admin(app.own_org, app.subject("eve")) is None
    assert Person(served, "ada").ok("GET", "/v1/me")["role"] == "admin"
    token = app.development_issuer.mint("eve", HOUR)
    assert served.call(token, "GET", "/v1/me").status == 403


def test_a_user_names_one_of_its_orgs_or_has_only_one(served: Served, admin: Person) -> None:
    assert admin.call("GET", "/v1/me").status == 200
    other = served.app.orgs.ensure_org("other")
    foreign = served.app.orgs.ensure_org("foreign")
    served.app.members.add(other, served.app.subject("ada"), READER, None, SYSTEM)
    assert admin.call("GET", "/v1/me").status == 422
    me = admin.call("GET", "/v1/me", org="other").body
    assert (me["org_id"], me["role"]) == (str(other), "reader")
    assert admin.call("GET", "/v1/me", org=str(other)).body == me
    assert admin.call("GET", "/v1/audit", org="other").status == 403
    for org in ("foreign", str(foreign), "no-such-org", str(uuid4()), "", "other, local", "OTHER"):
        reply = admin.call("GET", "/v1/me", org=org)
        assert (reply.status, reply.body["error"]["code"]) == (403, "Forbidden"), org


# Members ---------------------------------------------------------------------------------------


def test_members_come_change_and_go_and_it_is_written_down(served: Served, admin: Person) -> None:
    made = admin.ok("POST", "/v1/members", {"subject": "bob", "role": "reader", "name": "Bob"})
    bob = Person(served, "bob")
    assert bob.ok("GET", "/v1/me")["role"] == "reader"
    assert bob.call("POST", "/v1/dags", DAG).status == 403
    again = admin.call("POST", "/v1/members", {"subject": "bob", "role": "admin"})
    assert (again.status, again.body["error"]["code"]) == (409, "AlreadyMember")
    path = f"/v1/members/{made['user_id']}"
    assert admin.ok("PUT", path, {"role": "writer"})["role"] == "writer"
    assert bob.call("POST", "/v1/dags", DAG).status == 201
    token = served.app.development_issuer.mint("bob", HOUR)
    admin.ok("DELETE", path)
    assert served.call(token, "GET", "/v1/me").status == 403
    assert admin.call("DELETE", path).status == 404
    assert audited(admin, action="member", target="bob") == [
        ("member.remove", "bob"),
        ("member.set_role", "bob"),
        ("member.add", "bob"),
    ]
    entry = admin.ok("GET", "/v1/audit?action=member.set_role")["entries"][0]
    assert entry["detail"] == {"role": "writer", "before": "reader"}
    assert entry["actor_name"] == "ada"
    assert entry["request_id"].startswith("user_api-")


def test_the_last_administrator_stays(served: Served, admin: Person) -> None:
    own = f"/v1/members/{user_id(admin, 'ada')}"
    for method, body in (("DELETE", None), ("PUT", {"role": "writer"})):
        reply = admin.call(method, own, body)
        assert (reply.status, reply.body["error"]["code"]) == (409, "LastAdmin")
    served.member("second", ADMIN)
    admin.ok("PUT", own, {"role": "writer"})


def test_two_administrators_cannot_remove_each_other_at_once(served: Served, admin: Person) -> None:
    second = served.member("second", ADMIN)
    people = {"ada": second, "second": admin}
    ids = {name: user_id(admin, name) for name in people}
    statuses: list[int] = []

    def remove(name: str) -> None:
        statuses.append(people[name].call("DELETE", f"/v1/members/{ids[name]}").status)

    threads = [threading.Thread(target=remove, args=(name,)) for name in people]
    with psycopg.connect(served.app.state.dsn) as connection:
        # Whoever changes members waits for the org; without that, both would be through by now.
        connection.execute("SELECT org_id FROM orgs FOR NO KEY UPDATE")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(0.5)
        assert statuses == []
    for thread in threads:
        thread.join()
    # The loser came too late as a member, or as the last administrator.
    assert sorted(statuses) in ([200, 403], [200, 409])
    rows = served.app.state.read("SELECT count(*) FROM memberships WHERE platform_role='admin'", {})
    assert rows[0].count == 1


def test_members_of_another_org_are_not_found(served: Served, admin: Person) -> None:
    other = served.app.orgs.ensure_org("other")
    stranger = served.app.members.add(other, served.app.subject("zoe"), READER, None, SYSTEM)
    admin.ok("POST", "/v1/roles", {"role": "ops"})
    for method, path, body in (
        ("PUT", f"/v1/members/{stranger}", {"role": "admin"}),
        ("DELETE", f"/v1/members/{stranger}", None),
        ("PUT", f"/v1/roles/ops/members/{stranger}", None),
        ("DELETE", f"/v1/roles/ops/members/{stranger}", None),
        ("DELETE", f"/v1/worker-tokens/{uuid4()}", None),
        ("PUT", "/v1/members/not-an-id", {"role": "admin"}),
    ):
        assert admin.call(method, path, body).status == 404, path
    assert served.app.members.list(other)[0]["role"] == "reader"


# Rights on DAGs --------------------------------------------------------------------------------

STEER: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/v1/dags", DAG),
    ("POST", "/v1/dags/chain/pause", None),
    ("POST", "/v1/dags/chain/resume", None),
    ("POST", "/v1/dags/chain/jobs/history/trigger", {"request": {"start": 0, "end": 9}}),
)


def steers(person: Person) -> list[int]:
    return [person.call(*each).status for each in STEER]


def test_a_dag_is_its_creators_and_administrators_until_roles_open_it(
    served: Served, admin: Person
) -> None:
    creator, writer = served.member("creator", WRITER), served.member("writer", WRITER)
    reader = served.member("reader", READER)
    assert creator.call("POST", "/v1/dags", DAG).status == 201
    assert steers(creator) == [200, 200, 200, 202]
    assert steers(admin) == [200, 200, 200, 202]
    assert steers(writer) == steers(reader) == [403] * 4
    task = admin.ok("GET", "/v1/tasks?job=numbers")["tasks"][0]["task_id"]
    assert writer.call("POST", f"/v1/tasks/{task}/cancel").status == 403
    assert writer.call("POST", f"/v1/tasks/{task}/retry").status == 403

    # A role opens nothing before the DAG names it, and nothing to a reader after.
    admin.ok("POST", "/v1/roles", {"role": "ops"})
    for person in (writer, reader):
        admin.ok("PUT", f"/v1/roles/ops/members/{user_id(admin, person.name)}")
    assert steers(writer) == [403] * 4
    assert creator.call("PUT", "/v1/dags/chain/deploy-roles", {"roles": ["ops"]}).status == 403
    missing = admin.call("PUT", "/v1/dags/chain/deploy-roles", {"roles": ["nope"]})
    assert (missing.status, "nope" in missing.text) == (422, True)
    admin.ok("PUT", "/v1/dags/chain/deploy-roles", {"roles": ["ops"]})
    assert steers(writer) == [200, 200, 200, 202]
    assert steers(reader) == [403] * 4
    assert steers(creator) == [200, 200, 200, 202]

    assert admin.call("DELETE", "/v1/roles/ops").body["error"]["code"] == "RoleInUse"
    admin.ok("DELETE", f"/v1/roles/ops/members/{user_id(admin, 'writer')}")
    assert steers(writer) == [403] * 4
    admin.ok("PUT", "/v1/dags/chain/deploy-roles", {"roles": []})
    admin.ok("DELETE", "/v1/roles/ops")
    assert admin.ok("GET", "/v1/roles")["roles"] == []
    assert audited(admin, action="role") == [
        ("role.remove", "ops"),
        ("role.revoke", "ops"),
        ("role.grant", "ops"),
        ("role.grant", "ops"),
        ("role.add", "ops"),
    ]


# Audit -----------------------------------------------------------------------------------------


def test_what_people_do_is_in_the_audit_and_what_is_refused_is_not(
    served: Served, admin: Person
) -> None:
    for each in STEER:
        admin.ok(*each)
    writer = served.member("writer", WRITER)
    before = audited(admin, action="dag")
    assert before == [
        ("dag.trigger", "chain.history"),
        ("dag.resume", "chain"),
        ("dag.pause", "chain"),
        ("dag.deploy", "chain"),
    ]
    assert steers(writer) == [403] * 4
    assert admin.call("POST", "/v1/dags/chain/jobs/history/trigger", {"x": 1}).status == 422
    assert admin.ok("POST", "/v1/dags", DAG)["created"] is False
    assert audited(admin, action="dag") == before


def test_the_audit_is_filtered_and_paged(served: Served, admin: Person) -> None:
    for number in range(7):
        admin.ok("POST", "/v1/roles", {"role": f"role_{number}"})
    served.member("bob", ADMIN)
    Person(served, "bob").ok("POST", "/v1/roles", {"role": "bobs"})
    asked = "/v1/audit?action=role.add&actor=ada&limit=5"
    first = admin.ok("GET", asked)
    rest = admin.ok("GET", f"{asked}&cursor={first['next']}")
    assert rest["next"] is None
    assert [each["target"] for each in first["entries"] + rest["entries"]] == [
        f"role_{n}" for n in reversed(range(7))
    ]
    assert audited(admin, actor="bob") == [("role.add", "bobs")]
    assert audited(admin, since="2026-01-15T13:00:00Z") == []
    assert audited(admin, target="role_3") == [("role.add", "role_3")]
    for query in ("limit=0", "limit=501", "cursor=x", "since=yesterday", "action=DROP", "x=1"):
        assert admin.call("GET", f"/v1/audit?{query}").status == 422, query


def test_audit_rows_cannot_be_changed_or_deleted(served: Served, admin: Person) -> None:
    admin.ok("POST", "/v1/roles", {"role": "ops"})
    before = admin.ok("GET", "/v1/audit")
    with psycopg.connect(served.app.state.dsn, autocommit=True) as connection:
        for statement in ("UPDATE audit SET target = 'x'", "DELETE FROM audit", "TRUNCATE audit"):
            with pytest.raises(psycopg.errors.RaiseException):
                connection.execute(statement.encode())
    assert admin.ok("GET", "/v1/audit") == before


# Issuers ---------------------------------------------------------------------------------------


def test_with_an_issuer_of_ones_own_the_development_issuer_is_gone(
    served: Served, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "own", oidc_issuer="https://login.example")
    app = App(settings, state=served.app.state)
    for ask in (
        lambda: app.development_issuer,
        lambda: app.user_token,
        lambda: app.development_token("ada", ADMIN, HOUR),
    ):
        with pytest.raises(Invalid, match="TRACE_OIDC_ISSUER"):
            ask()


def test_on_aws_there_is_no_development_issuer(served: Served) -> None:
    settings = served.app.settings.model_copy(update={"profile": Profile.AWS})
    served.app.settings, before = settings, served.app.settings
    try:
        with pytest.raises(Invalid):
            served.app.development_issuer  # noqa: B018
        with pytest.raises(Invalid):
            served.app.user_token  # noqa: B018
    finally:
        served.app.settings = before
