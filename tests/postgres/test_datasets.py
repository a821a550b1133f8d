"""Published datasets as people see them: lists, parts, versions, partitions, lineage, freshness."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.manual_clock import ManualClock
from tests.postgres.library import REPORT, Library
from tests.postgres.served import Person, audited
from trace_core.identity.model import PlatformRole
from trace_core.kernel.scopes import Scope

READER, WRITER = PlatformRole.READER, PlatformRole.WRITER


def pages(person: Person, path: str, field: str) -> list[Any]:
    """Everything of a list, asked two at a time."""
    found: list[Any] = []
    cursor = ""
    while True:
        between = "&" if "?" in path else "?"
        page = person.ok("GET", f"{path}{between}limit=2{cursor}")
        assert len(page[field]) <= 2
        found += page[field]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def test_datasets_are_listed_by_name_and_filtered(library: Library) -> None:
    library.deploy(library.admin, REPORT)
    admin = library.admin
    assert [each["name"] for each in pages(admin, "/v1/datasets", "datasets")] == [
        "daily",
        "orders",
        "totals",
    ]

    def names(query: str) -> list[str]:
        return [each["name"] for each in admin.ok("GET", f"/v1/datasets?{query}")["datasets"]]

    assert names("dag=shop") == ["orders", "totals"]
    assert names("contains=ot") == ["totals"]
    assert names("dag=shop&contains=d") == ["orders"]
    assert names("mine=true") == ["daily"]
    assert admin.call("GET", "/v1/datasets?contains=%25").status == 422
    assert admin.call("GET", "/v1/datasets?cursor=abc").status == 422


def test_a_dataset_shows_its_parts_and_where_they_lie(library: Library) -> None:
    dataset, version = library.stored_in("orders", "s3")
    archived, archive = library.stored_in("archive", "postgres")
    library.commit(version, Scope.of_range(1, 5), rows=5, size=50)
    library.commit(version, Scope.of_range(6, 9), rows=4, size=40)
    library.commit(version, Scope.of_range(1, 5), rows=6, size=60)
    shown = library.creator.ok("GET", "/v1/datasets/orders")
    assert (shown["dag"], shown["description"]) == ("shop", "What was ordered.")
    hot, cold = shown["parts"]
    assert hot["dataset_uuid"] == str(dataset)
    assert hot["location"] == f"org/{library.org_id}/dataset/{dataset}/version/{version}/"
    assert cold["location"] == f"dataset_{archived.hex}.v_{archive.hex}"
    assert (hot["number"], hot["swap"], hot["dag_version"]) == (3, 1, 1)
    assert (hot["commits"], hot["row_count"], hot["bytes"]) == (2, 10, 100)
    assert (cold["commits"], cold["row_count"]) == (0, 0)
    control = library.creator.ok("GET", "/v1/datasets/totals")["parts"][0]
    assert (control["backend"], control["location"]) == ("control", None)


def test_freshness_is_the_age_of_the_newest_announcement_of_any_part(
    library: Library, manual_clock: ManualClock
) -> None:
    def freshness() -> Any:
        shown = library.creator.ok("GET", "/v1/datasets/orders")["freshness"]
        (listed,) = library.creator.ok("GET", "/v1/datasets?contains=orders")["datasets"]
        assert listed["freshness"] == shown
        return shown

    assert freshness() == {
        "announced_at": None,
        "age_seconds": None,
        "allowed_seconds": 60,
        "fresh": False,
    }
    library.announce("orders", 1)
    manual_clock.advance(timedelta(seconds=60))
    assert (freshness()["age_seconds"], freshness()["fresh"]) == (60, True)
    manual_clock.advance(timedelta(seconds=1))
    assert freshness()["fresh"] is False
    library.announce("archive", 1)
    assert (freshness()["age_seconds"], freshness()["fresh"]) == (0, True)
    said = library.creator.ok("GET", "/v1/datasets/totals")["freshness"]
    assert (said["allowed_seconds"], said["fresh"]) == (None, None)


def test_neighbours_are_shown_as_far_as_one_may_read_them(library: Library) -> None:
    library.deploy(library.admin, REPORT)
    shown = library.admin.ok("GET", "/v1/datasets/orders")
    assert [(each["job"], each["dataset"]) for each in shown["upstream"]] == [("orders", "orders")]
    downstream = [(each["dag"], each["job"], each["dataset"]) for each in shown["downstream"]]
    assert downstream == [
        ("report", "daily", "daily"),
        ("shop", "archive", "orders"),
        ("shop", "totals", "totals"),
    ]
    bob = library.member("bob", READER, "audience")
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    seen = bob.ok("GET", "/v1/datasets/orders")["downstream"]
    # Of the other DAG nothing; of the same one the jobs, without names that are not his.
    assert [(each["dag"], each["job"], each["dataset"]) for each in seen] == [
        ("shop", "archive", "orders"),
        ("shop", "totals", None),
    ]
    library.admin.ok("PUT", "/v1/datasets/daily/read-roles", {"roles": ["audience"]})
    assert library.user_id("bob")
    upstream = bob.ok("GET", "/v1/datasets/daily")["upstream"]
    assert [(each["dag"], each["dataset"]) for each in upstream] == [("shop", "orders")] * 2
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": []})
    assert bob.ok("GET", "/v1/datasets/daily")["upstream"] == []


def test_versions_say_what_they_are_and_what_they_hold(library: Library) -> None:
    _, first = library.stored_in("totals")
    library.commit(first, Scope(), rows=7, size=70)
    library.commit(first, Scope(), rows=8, size=80)
    second = library.next_version("totals")
    third = library.next_version("totals", cut_over=False)
    found = pages(library.creator, "/v1/datasets/totals/versions", "versions")
    assert [(each["dataset_version"], each["standing"]) for each in found] == [
        (str(third), "candidate"),
        (str(second), "current"),
        (str(first), "rollback_target"),
    ]
    oldest = found[-1]
    assert (oldest["dag_version"], oldest["number"], oldest["commits"]) == (1, 2, 1)
    assert (oldest["row_count"], oldest["bytes"], oldest["superseded_bytes"]) == (8, 80, 70)
    assert [each["dag_version"] for each in found] == [3, 2, 1]
    assert found[0]["current_since"] is None
    # A deploy that was given up leaves nothing but a version that nobody needs.
    library.change("UPDATE deploys SET status = 'Canceled' WHERE status = 'Building'")
    found = library.creator.ok("GET", "/v1/datasets/totals/versions")["versions"]
    assert found[0]["standing"] == "retired"


def test_partitions_are_live_commits_part_by_part(library: Library) -> None:
    _, hot = library.stored_in("orders")
    _, cold = library.stored_in("archive")
    for start in (1, 11, 21):
        library.commit(hot, Scope.of_range(start, start + 9))
    library.commit(hot, Scope.of_range(11, 20), rows=3)
    library.commit(cold, Scope(partition_key="old"))
    library.commit(cold, Scope(cursor=7))
    found = pages(library.creator, "/v1/datasets/orders/partitions", "partitions")
    assert [(each["part"], each["number"], each["scope"]) for each in found] == [
        (0, 4, {"partition_key": "11-20", "start": 11, "end": 20}),
        (0, 3, {"partition_key": "21-30", "start": 21, "end": 30}),
        (0, 1, {"partition_key": "1-10", "start": 1, "end": 10}),
        (1, 2, {"cursor": 7}),
        (1, 1, {"partition_key": "old"}),
    ]
    of_cold = library.creator.ok("GET", "/v1/datasets/orders/partitions?part=1")["partitions"]
    assert [each["number"] for each in of_cold] == [2, 1]
    for scope, number in (("11-20", 4), ("7", 2), ("old", 1)):
        path = f"/v1/datasets/orders/partitions?scope={scope}"
        (one,) = library.creator.ok("GET", path)["partitions"]
        assert one["number"] == number
    wrong = "/v1/datasets/orders/partitions?cursor=WyJhOmIiXQ"
    assert library.creator.call("GET", wrong).status == 422


def test_partitions_of_a_dataset_without_rows_are_its_announcements(library: Library) -> None:
    library.announce("totals", 4, 5, 6)
    found = pages(library.creator, "/v1/datasets/totals/partitions", "partitions")
    assert [each["scope"]["cursor"] for each in found] == [6, 5, 4]
    assert found[0]["row_count"] is None


def test_storage_lists_every_version_with_what_it_holds(library: Library) -> None:
    _, first = library.stored_in("totals")
    library.commit(first, Scope(), size=70)
    library.commit(first, Scope(), size=80)
    second = library.next_version("totals")
    library.commit(second, Scope(), size=90)
    found = pages(library.creator, "/v1/storage?dag=shop", "versions")
    of_totals = [each for each in found if each["dataset"] == "totals"]
    assert [(each["standing"], each["bytes"], each["superseded_bytes"]) for each in of_totals] == [
        ("rollback_target", 80, 70),
        ("current", 90, 0),
    ]
    assert [each["objects"] for each in of_totals] == [2, 1]


def test_a_snapshot_pins_all_parts_and_never_advances(library: Library) -> None:
    _, hot = library.stored_in("orders")
    library.stored_in("archive")
    library.commit(hot, Scope(cursor=1))
    bob = library.member("bob", WRITER, "audience")
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    path = "/v1/datasets/orders/snapshots"
    made = bob.ok("POST", path, {"snapshot": "q3-report", "description": "For the board."})
    assert [(each["part"], each["number"]) for each in made["pins"]] == [(0, 1), (1, 0)]
    library.commit(hot, Scope(cursor=2))
    library.next_version("orders")
    again = bob.call("POST", path, {"snapshot": "q3-report"})
    assert (again.status, again.body["error"]["code"]) == (409, "SnapshotExists")
    bob.ok("POST", path, {"snapshot": "q3-later"})
    later, earlier = library.creator.ok("GET", path)["snapshots"]
    assert (earlier["pins"], earlier["created_by"]) == (made["pins"], "bob")
    assert later["pins"][0]["swap"] == 2
    shown = library.creator.ok("GET", "/v1/datasets/orders")["snapshots"]
    assert [each["snapshot"] for each in shown] == ["q3-later", "q3-report"]
    assert pages(bob, path, "snapshots") == [later, earlier]


def test_what_goes_cannot_be_named(library: Library) -> None:
    _, version = library.stored_in("totals")
    library.change(
        "UPDATE dataset_versions SET purge_marked_at = created_at WHERE dataset_version = %(v)s",
        v=version,
    )
    path = "/v1/datasets/totals/snapshots"
    assert library.creator.call("POST", path, {"snapshot": "late"}).status == 409
    assert library.creator.ok("GET", path)["snapshots"] == []


def test_a_snapshot_is_deleted_by_its_maker_or_a_deployer(library: Library) -> None:
    library.admin.ok("POST", "/v1/roles", {"role": "audience"})
    library.admin.ok("PUT", "/v1/datasets/orders/read-roles", {"roles": ["audience"]})
    bob, eve = (library.member(name, WRITER, "audience") for name in ("bob", "eve"))
    path = "/v1/datasets/orders/snapshots"
    for name in ("one", "two"):
        bob.ok("POST", path, {"snapshot": name})
    assert eve.call("DELETE", f"{path}/one").status == 403
    assert bob.ok("DELETE", f"{path}/one") == {"snapshot": "one", "removed": True}
    assert bob.call("DELETE", f"{path}/one").status == 404
    # By another dataset's name it is not found.
    assert library.creator.call("DELETE", "/v1/datasets/totals/snapshots/two").status == 404
    library.creator.ok("DELETE", f"{path}/two")
    assert audited(library.admin, action="snapshot") == [
        ("snapshot.remove", "two"),
        ("snapshot.remove", "one"),
        ("snapshot.create", "two"),
        ("snapshot.create", "one"),
    ]
