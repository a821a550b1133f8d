"""Parts of datasets declared invalid through the API: by whom, once, and what became of it."""

from __future__ import annotations

from tests.postgres.library import Library
from tests.postgres.served import audited
from trace_core.identity.model import PlatformRole

PATH = "/v1/datasets/orders/invalidations"
WRONG = {"reason": "The provider sent wrong amounts.", "key": "ticket-7", "start": 5, "end": 9}


def test_a_deployer_declares_a_range_invalid_once(library: Library) -> None:
    first = library.creator.call("POST", PATH, WRONG)
    assert first.status == 201
    # Each part has its event; the jobs that read the first one do their work again.
    assert (len(first.body["parts"]), first.body["tasks_made"]) == (2, 2)
    again = library.creator.call("POST", PATH, WRONG)
    assert (again.status, again.body["repeated"], again.body["tasks_made"]) == (200, True, 0)
    assert again.body["parts"] == first.body["parts"]
    other = library.creator.call("POST", PATH, {**WRONG, "end": 10})
    assert (other.status, other.body["error"]["code"]) == (409, "KeyReused")
    assert audited(library.admin, action="dataset.invalidate") == [("dataset.invalidate", "orders")]


def test_readers_see_what_was_declared_and_may_not_declare(library: Library) -> None:
    bob = library.member("bob", PlatformRole.WRITER, "audience")
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    assert bob.call("POST", PATH, WRONG).status == 403
    library.creator.ok("POST", PATH, WRONG)
    library.creator.ok("POST", PATH, {"reason": "All of it.", "key": "ticket-8"})
    page = bob.ok("GET", f"{PATH}?limit=3")
    rest = bob.ok("GET", f"{PATH}?limit=3&cursor={page['next']}")
    found = page["invalidations"] + rest["invalidations"]
    assert (len(found), rest["next"]) == (4, None)
    oldest = found[-1]
    assert oldest["scope"] == {"partition_key": "5-9", "start": 5, "end": 9}
    assert (oldest["declared_by"], oldest["source"]) == ("carla", "person")
    assert {(each["job"], each["status"]) for each in oldest["tasks"]} == {
        ("archive", "Queued"),
        ("totals", "Queued"),
    }
    assert not oldest["processed"]


def test_a_scope_is_one_thing(library: Library) -> None:
    for wrong in ({"start": 5}, {"start": 9, "end": 5}, {"cursor": 1, "partition_key": "a"}):
        body = {"reason": "wrong", "key": "k", **wrong}
        assert library.creator.call("POST", PATH, body).status == 422
