"""Who may read a dataset: every route against every kind of member, and the inputs of jobs."""

from __future__ import annotations

import pytest

from tests.postgres.library import REPORT, Library
from tests.postgres.served import Person, audited
from trace_core.http.routes import ROUTES, Route, Surface
from trace_core.identity.model import SYSTEM, Actor, ActorKind, PlatformRole
from trace_core.kernel.errors import Invalid

READER, WRITER, ADMIN = PlatformRole.READER, PlatformRole.WRITER, PlatformRole.ADMIN
OF_A_DATASET = [
    each for each in ROUTES if each.surface is Surface.USER and "<dataset>" in each.path
]
NO_ID = "00000000-0000-7000-8000-000000000000"
# Good enough to be taken; what it names is not there, so that nothing is changed.
BODIES: dict[str, object] = {
    "PUT read-roles": {"roles": ["nobody_has_it"]},
    "PUT owner": {"user_id": NO_ID},
    "POST snapshots": {"snapshot": "taken"},
    "POST invalidations": {"reason": "wrong", "key": "one", "cursor": 1},
    "POST purge": {"versions": [NO_ID]},
    "POST cancel": {"versions": [NO_ID]},
}
# Who, with which platform role, and whether it may read `orders`.
KINDS = {
    "admin": (ADMIN, True),
    "creator": (WRITER, True),
    "creator who only reads now": (READER, False),
    "writer with a deploy role": (WRITER, True),
    "reader with a deploy role": (READER, False),
    "reader with a read role": (READER, True),
    "writer with a read role": (WRITER, True),
    "writer": (WRITER, False),
    "reader": (READER, False),
}


@pytest.fixture
def people(library: Library) -> dict[str, Person]:
    """One member of each kind, and an administrator of another org."""
    app, org = library.served.app, library.org_id
    found = {"admin": library.admin, "creator": library.creator}
    roles = {
        "writer with a deploy role": "crew",
        "reader with a deploy role": "crew",
        "reader with a read role": "audience",
        "writer with a read role": "audience",
    }
    for number, (kind, (role, _)) in enumerate(KINDS.items()):
        if kind not in found:
            named = [roles[kind]] if kind in roles else []
            found[kind] = library.member(f"member-{number}", role, *named)
    other = app.orgs.ensure_org("other")
    app.members.add(other, app.subject("stranger"), ADMIN, None, SYSTEM)
    found["administrator elsewhere"] = Person(library.served, "stranger")
    library.admin.ok("PUT", "/v1/dags/shop/deploy-roles", {"roles": ["crew"]})
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    # `made` was deployed by somebody who may only read by now; its dataset has the same readers.
    demoted = found["creator who only reads now"]
    app.members.set_role(org, library.user_id(demoted.name), WRITER, SYSTEM)
    library.deploy(demoted, SHOP_OF_DEMOTED)
    app.members.set_role(org, library.user_id(demoted.name), READER, SYSTEM)
    return found


SHOP_OF_DEMOTED = """
version: 1
name: made
jobs:
  - {name: things, activation: source, runtime: worker, operator: emit_cursors, outputs: 1,
     source: {kind: always_on}, update_strategy: replace}
publish:
  things:
    from: {job: things, output: 0}
"""


def _path(route: Route, dataset: str) -> str:
    path = route.path.replace("<dataset>", dataset)
    return path.replace("<snapshot>", "none")


def _expected(route: Route, role: PlatformRole, may_read: bool) -> set[int]:
    assert route.role is not None
    if not role.covers(route.role):
        return {403}
    if not may_read:
        return {404}
    # Whatever the route says about what it was asked, it does not say that there is no dataset.
    return {200, 201, 202, 403, 404, 409, 422}


@pytest.mark.parametrize("route", OF_A_DATASET, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_against_every_kind_of_member(
    library: Library, people: dict[str, Person], route: Route
) -> None:
    last = route.path.rsplit("/", 1)[-1]
    for kind, person in people.items():
        role, may_read = KINDS.get(kind, (ADMIN, False))
        dataset = "things" if kind == "creator who only reads now" else "orders"
        body = BODIES.get(f"{route.method} {last}")
        reply = person.call(route.method, _path(route, dataset), body)
        assert reply.status in _expected(route, role, may_read), (kind, reply)
        hidden = reply.status == 404 and f"No dataset {dataset}." in reply.text
        assert hidden is (role.covers(route.role or ADMIN) and not may_read), (kind, reply)
        absent = person.call(route.method, _path(route, "absent"), body)
        if hidden:
            # To the letter as if there were none.
            assert reply.text.replace(dataset, "absent") == absent.text


def test_lists_leave_out_what_one_may_not_read(library: Library, people: dict[str, Person]) -> None:
    seen = {
        kind: [each["name"] for each in person.ok("GET", "/v1/datasets")["datasets"]]
        for kind, person in people.items()
    }
    assert seen == {
        "admin": ["orders", "things", "totals"],
        "creator": ["orders", "totals"],
        "creator who only reads now": [],
        "writer with a deploy role": ["orders", "totals"],
        "reader with a deploy role": [],
        "reader with a read role": ["orders"],
        "writer with a read role": ["orders"],
        "writer": [],
        "reader": [],
        "administrator elsewhere": [],
    }
    stored = {
        kind: {each["dataset"] for each in person.ok("GET", "/v1/storage")["versions"]}
        for kind, person in people.items()
    }
    assert {kind: sorted(names) for kind, names in stored.items()} == seen


def test_a_right_that_is_taken_away_is_gone_with_the_next_request(library: Library) -> None:
    bob = library.member("bob", READER, "audience")
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    assert bob.call("GET", "/v1/datasets/orders").status == 200
    library.admin.ok("DELETE", f"/v1/roles/audience/members/{library.user_id('bob')}")
    assert bob.call("GET", "/v1/datasets/orders").status == 404


def test_read_roles_must_exist_and_stay_as_long_as_they_are_named(library: Library) -> None:
    admin = library.admin
    path = "/v1/datasets/orders/read-roles"
    missing = admin.call("PUT", path, {"roles": ["analysts"]})
    assert missing.status == 422
    assert "no role analysts" in missing.text
    admin.ok("POST", "/v1/roles", {"role": "analysts"})
    assert admin.ok("PUT", path, {"roles": ["analysts", "analysts"]}) == {
        "dataset": "orders",
        "read_roles": ["analysts"],
    }
    refused = admin.call("DELETE", "/v1/roles/analysts")
    assert (refused.status, refused.body["error"]["code"]) == (409, "RoleInUse")
    assert refused.body["error"]["datasets"] == ["orders"]
    admin.ok("PUT", path, {"roles": []})
    admin.ok("DELETE", "/v1/roles/analysts")
    assert audited(admin, action="dataset") == [("dataset.read_roles", "orders")] * 2


def test_a_dataset_has_an_owner_who_gets_no_right_by_it(library: Library) -> None:
    bob, admin = library.member("bob", READER), library.admin
    assert admin.ok("GET", "/v1/datasets/orders")["owner"] == "carla"
    body = {"user_id": str(library.user_id("bob"))}
    assert admin.ok("PUT", "/v1/datasets/orders/owner", body)["owner"] == "bob"
    assert admin.ok("GET", "/v1/datasets/orders")["owner"] == "bob"
    assert bob.call("GET", "/v1/datasets/orders").status == 404
    assert admin.call("PUT", "/v1/datasets/orders/owner", {"user_id": NO_ID}).status == 422
    assert library.creator.ok("GET", "/v1/datasets?mine=true")["datasets"][0]["name"] == "totals"
    assert admin.ok("PUT", "/v1/datasets/orders/owner", {"user_id": None})["owner"] is None
    assert audited(admin, action="dataset.owner") == [("dataset.owner", "orders")] * 2


def test_a_hidden_name_is_there_for_administrators_only(library: Library) -> None:
    library.change("UPDATE publications SET hidden_at = now() WHERE dataset_name = 'orders'")
    assert library.creator.call("GET", "/v1/datasets/orders").status == 404
    assert library.admin.ok("GET", "/v1/datasets/orders")["hidden_at"]
    names = [each["name"] for each in library.admin.ok("GET", "/v1/datasets")["datasets"]]
    assert names == ["totals"]
    hidden = library.admin.ok("GET", "/v1/datasets?hidden=true")["datasets"]
    assert [each["name"] for each in hidden] == ["orders"]
    assert library.creator.ok("GET", "/v1/datasets?hidden=true")["datasets"] == []


# Inputs of jobs ---------------------------------------------------------------------------------


def _reading(library: Library, deployer: str) -> None:
    """The DAG `report`, deployed by that member, reads `orders`."""
    app = library.served.app
    library.deploy(library.admin, REPORT)
    version = library.rows("SELECT active_dag_version_id AS id FROM dags WHERE name = 'report'")[
        0
    ].id
    with app.state.transaction("test") as tx:
        app.read_rights.read_as(tx, library.org_id, version, library.user_id(deployer))


def _forbidden(library: Library) -> list[str]:
    return [row.name for row in library.rows("SELECT name FROM jobs WHERE forbidden ORDER BY 1")]


def test_whoever_deploys_a_dag_must_be_allowed_to_read_its_inputs(library: Library) -> None:
    app, org = library.served.app, library.org_id
    library.member("bob", WRITER, "audience")

    def check(name: str, *datasets: str) -> None:
        actor = app.members.membership(app.subject(name), None)
        who = Actor(ActorKind.USER, name, actor.user_id, actor.platform_role, actor.org_roles)
        with app.state.transaction("test") as tx:
            app.read_rights.require_inputs(tx, org, datasets, who)

    check("ada", "orders", "totals")
    check("carla", "orders")
    with pytest.raises(Invalid) as refused:
        check("bob", "totals", "orders", "absent")
    # The same for what is not there and for what is not to be read.
    assert refused.value.fields["datasets"] == ["totals", "orders", "absent"]
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    check("bob", "orders")


def test_a_job_is_forbidden_as_soon_as_its_deployer_loses_the_right(library: Library) -> None:
    library.member("bob", WRITER, "audience")
    bob, admin = library.user_id("bob"), library.admin
    path = "/v1/datasets/orders/read-roles"
    admin.ok("PUT", path, {"roles": ["audience"]})
    _reading(library, "bob")
    assert _forbidden(library) == []
    admin.ok("PUT", path, {"roles": []})
    assert _forbidden(library) == ["daily"]
    admin.ok("PUT", path, {"roles": ["audience"]})
    assert _forbidden(library) == []
    admin.ok("DELETE", f"/v1/roles/audience/members/{bob}")
    assert _forbidden(library) == ["daily"]
    admin.ok("PUT", f"/v1/members/{bob}", {"role": "admin"})
    assert _forbidden(library) == []
    admin.ok("PUT", f"/v1/members/{bob}", {"role": "writer"})
    admin.ok("PUT", f"/v1/roles/audience/members/{bob}")
    assert _forbidden(library) == []
    admin.ok("DELETE", f"/v1/members/{bob}")
    assert _forbidden(library) == ["daily"]
    admin.ok("POST", "/v1/members", {"subject": "bob", "role": "admin"})
    assert _forbidden(library) == []


def test_jobs_of_the_platform_and_of_the_same_dag_are_never_forbidden(library: Library) -> None:
    library.deploy(library.admin, REPORT)
    library.change("UPDATE jobs SET reads_as = NULL")
    app = library.served.app
    assert app.read_rights.sweep() == 0
    library.change(
        "UPDATE jobs SET reads_as = %(bob)s",
        bob=(library.member("bob", READER), library.user_id("bob"))[1],
    )
    # Only what reads another DAG: `totals` reads `orders` of its own.
    assert app.read_rights.sweep() == 1
    assert _forbidden(library) == ["daily"]
    assert app.read_rights.sweep() == 0


def test_a_hidden_name_keeps_the_readers_that_jobs_read_it_with(library: Library) -> None:
    library.member("bob", WRITER, "audience")
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    _reading(library, "bob")
    library.change("UPDATE publications SET hidden_at = now()")
    assert library.served.app.read_rights.sweep() == 0
    assert _forbidden(library) == []
