"""Rows of datasets for people: the first ones at a pin, and objects compared with what was
committed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.manual_clock import ManualClock
from tests.postgres.library import COLUMNS, Library, order
from tests.postgres.served import audited
from trace_core.dag.model import UpdateStrategy
from trace_core.database.data import DataDatabase, DataRole
from trace_core.database.state import as_json
from trace_core.identity.model import SYSTEM
from trace_core.kernel import limits
from trace_core.kernel.ids import DatasetUuid, DatasetVersion
from trace_core.kernel.scopes import Scope
from trace_core.registry import head
from trace_core.registry.head import plain
from trace_core.registry.verification import BUDGET_SECONDS, Verifications
from trace_core.storage.model import schema_name, table_name
from trace_core.storage.versions import VersionTable, VersionTables

HEAD = "/v1/datasets/totals/head"
VERIFY = "/v1/datasets/totals/verify"


@pytest.fixture
def stored(library: Library, data_dsn: str) -> Iterator[tuple[Library, UUID]]:
    """`totals` with rows of ids 1 to 6 in two partitions."""
    data = DataDatabase(data_dsn, role=DataRole.READER)
    library.served.app.parts["data_reader"] = data
    _, version = library.stored_in("totals")
    library.write(version, Scope.of_range(1, 3), [order(each) for each in (1, 2, 3)])
    library.write(version, Scope.of_range(4, 6), [order(each) for each in (4, 5, 6)])
    yield library, version
    data.close()


def ids(answer: Any) -> list[int]:
    return [row[0] for row in answer["rows"]]


def test_the_first_rows_are_shown_exactly_with_their_pins(stored: tuple[Library, UUID]) -> None:
    library, version = stored
    found = library.creator.ok("GET", f"{HEAD}?limit=4")
    assert ids(found) == [1, 2, 3, 4]
    assert found["cut"] is True
    assert [each["name"] for each in found["columns"]] == ["id", "buyer", "amount", "at", "hash"]
    assert found["rows"][0] == [
        1,
        "buyer 1",
        str(2**256 - 1),
        "2026-01-15T12:00:01+00:00",
        "0x01ff",
    ]
    (pin,) = found["pins"]
    assert (pin["dataset_version"], pin["number"]) == (str(version), 2)
    whole = library.creator.ok("GET", HEAD)
    assert (ids(whole), whole["cut"]) == ([1, 2, 3, 4, 5, 6], False)
    assert library.creator.call("GET", f"{HEAD}?limit=501").status == 422


def test_a_pin_shows_the_same_rows_after_a_rewrite_and_a_cutover(
    stored: tuple[Library, UUID],
) -> None:
    library, version = stored
    library.creator.ok("POST", "/v1/datasets/totals/snapshots", {"snapshot": "q3"})
    library.write(version, Scope.of_range(1, 3), [order(2, buyer="another")])
    assert sorted(ids(library.creator.ok("GET", HEAD))) == [2, 4, 5, 6]
    library.next_version("totals")
    assert library.creator.ok("GET", HEAD)["rows"] == []
    at = f"{HEAD}?version={version}"
    assert sorted(ids(library.creator.ok("GET", f"{at}&number=2"))) == [1, 2, 3, 4, 5, 6]
    assert ids(library.creator.ok("GET", f"{at}&number=1")) == [1, 2, 3]
    assert library.creator.ok("GET", f"{at}&number=0")["rows"] == []
    assert sorted(ids(library.creator.ok("GET", at))) == [2, 4, 5, 6]
    assert ids(library.creator.ok("GET", f"{HEAD}?snapshot=q3")) == [1, 2, 3, 4, 5, 6]


def test_a_moment_that_never_was_is_refused(stored: tuple[Library, UUID]) -> None:
    library, version = stored
    person = library.creator
    assert person.call("GET", f"{HEAD}?version={version}&number=3").status == 422
    assert person.call("GET", f"{HEAD}?number=1").status == 422
    assert person.call("GET", f"{HEAD}?version={version}&snapshot=q3").status == 422
    assert person.call("GET", f"{HEAD}?snapshot=q3").status == 404
    other = library.version("orders")[1]
    assert person.call("GET", f"{HEAD}?version={other}").status == 404
    # A candidate was never current: nobody may rely on what it holds.
    candidate = library.next_version("totals", cut_over=False)
    assert person.call("GET", f"{HEAD}?version={candidate}").status == 404


def test_a_dataset_without_rows_says_so(library: Library) -> None:
    refused = library.creator.call("GET", HEAD)
    assert refused.status == 422
    assert "announcements and no rows" in refused.text


def test_a_version_that_goes_takes_no_new_reader(stored: tuple[Library, UUID]) -> None:
    library, version = stored
    library.next_version("totals")
    library.next_version("totals")
    body = {"versions": [str(version)]}
    library.admin.ok("POST", "/v1/datasets/totals/purge", body)
    refused = library.creator.call("GET", f"{HEAD}?version={version}")
    assert (refused.status, refused.body["error"]["code"]) == (409, "Purging")


def test_rows_end_at_a_limit_of_bytes(
    stored: tuple[Library, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _ = stored
    monkeypatch.setattr(limits, "HEAD_BYTES_MAX", 400)
    found = library.creator.ok("GET", HEAD)
    assert (ids(found), found["cut"]) == ([1, 2], True)


def test_rows_of_commits_that_were_not_read_are_not_said_to_be_missing(
    stored: tuple[Library, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _ = stored
    monkeypatch.setattr(head, "_ENTRIES", 1)
    found = library.creator.ok("GET", HEAD)
    assert (ids(found), found["cut"]) == ([1, 2, 3], True)
    monkeypatch.setattr(head, "_ENTRIES", 2)
    assert library.creator.ok("GET", HEAD)["cut"] is False


def test_hot_rows_that_a_cold_part_covers_are_shown_once(
    stored: tuple[Library, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _ = stored
    _, hot = library.stored_in("orders")
    _, cold = library.stored_in("archive")
    library.write(hot, Scope.of_range(1, 3), [order(each, buyer="hot") for each in (1, 2, 3)])
    library.write(hot, Scope.of_range(4, 5), [order(each, buyer="hot") for each in (4, 5)])
    library.write(cold, Scope.of_range(1, 3), [order(each, buyer="cold") for each in (1, 2, 3)])
    found = library.creator.ok("GET", "/v1/datasets/orders/head")
    assert sorted(row[:2] for row in found["rows"]) == [
        [1, "cold"],
        [2, "cold"],
        [3, "cold"],
        [4, "hot"],
        [5, "hot"],
    ]
    assert [each["part"] for each in found["pins"]] == [0, 1]
    # Also by those of its commits whose rows are too many to be shown.
    monkeypatch.setattr(head, "_ENTRIES", 1)
    for first, last in ((4, 5), (1, 3)):
        rows = [order(each, buyer="cold") for each in range(first, last + 1)]
        library.write(cold, Scope.of_range(first, last), rows)
    found = library.creator.ok("GET", "/v1/datasets/orders/head")
    assert {row[1] for row in found["rows"]} == {"cold"}


def test_reads_of_personal_columns_are_written_down(stored: tuple[Library, UUID]) -> None:
    library, _ = stored
    library.creator.ok("GET", HEAD)
    assert audited(library.admin, action="dataset") == []
    library.change("UPDATE publications SET pii = '{buyer,phone}' WHERE dataset_name = 'totals'")
    library.creator.ok("GET", f"{HEAD}?limit=2")
    (entry,) = library.admin.ok("GET", "/v1/audit?action=dataset")["entries"]
    assert (entry["action"], entry["actor_name"]) == ("dataset.read_pii", "carla")
    assert entry["detail"] == {"columns": ["buyer"], "rows": 2}


def test_values_are_exact_in_json() -> None:
    assert plain(2**53) == 2**53
    assert plain(2**53 + 1) == str(2**53 + 1)
    assert plain(-(2**63)) == str(-(2**63))
    assert plain(True) is True
    assert plain(float("nan")) == "nan"
    assert plain(float("-inf")) == "-inf"
    assert plain(0.5) == 0.5


# Verification ---------------------------------------------------------------------------------


def test_what_is_as_it_was_committed_is_found_so(stored: tuple[Library, UUID]) -> None:
    library, _ = stored
    found = library.creator.ok("GET", VERIFY)
    assert (found["partitions"], found["partitions_in_all"], found["objects"]) == (2, 2, 2)
    assert found["bytes"] > 0
    assert (found["findings"], found["next"], found["unverifiable"]) == ([], None, [])


def test_altered_missing_and_extra_objects_are_named(stored: tuple[Library, UUID]) -> None:
    library, version = stored
    objects = library.served.app.objects
    manifests = [each for each in library.keys(version) if each.endswith("manifest.json")]
    first, second = [each for each in library.keys(version) if each.endswith(".parquet")]
    data = bytearray(objects.read(first))
    data[20] ^= 1
    objects.replace(first, bytes(data))
    objects.delete(second)
    extra = second.replace("rows_", "more_")
    objects.create(extra, b"?")
    objects.replace(manifests[1], b"{}")
    found = library.creator.ok("GET", VERIFY)["findings"]
    assert [(each["number"], each["problem"], each["key"]) for each in found] == [
        (1, "altered", first),
        (2, "altered", manifests[1]),
        (2, "missing", second),
        (2, "extra", extra),
    ]
    assert found[0]["scope"] == {"partition_key": "1-3", "start": 1, "end": 3}
    only = library.creator.ok("GET", f"{VERIFY}?scope=1-3")
    assert (only["partitions"], len(only["findings"])) == (1, 1)
    assert library.creator.call("GET", f"{VERIFY}?scope=7-9").status == 404


def test_an_answer_ends_with_its_time_and_the_next_goes_on(stored: tuple[Library, UUID]) -> None:
    library, _ = stored
    app = library.served.app
    ticks = count(0.0, BUDGET_SECONDS + 1)
    slow = Verifications(app.state, app.read_rights, app.objects, monotonic=lambda: next(ticks))
    first = slow.verify(library.org_id, "totals", SYSTEM)
    assert (first.partitions, first.partitions_in_all, first.after) == (1, 2, (0, 1))
    second = slow.verify(library.org_id, "totals", SYSTEM, after=first.after)
    assert (second.partitions, second.partitions_in_all, second.after) == (1, None, None)


def test_parts_without_objects_are_named_as_such(stored: tuple[Library, UUID]) -> None:
    library, _ = stored
    library.stored_in("orders", "postgres")
    found = library.creator.ok("GET", "/v1/datasets/orders/verify")
    assert (found["unverifiable"], found["partitions"]) == ([0, 1], 0)


# Rows in Postgres -------------------------------------------------------------------------------


@pytest.fixture
def in_postgres(library: Library, data_dsn: str) -> Iterator[tuple[Library, UUID]]:
    """`totals` as a table with the ids 1 and 2, the second of which a later commit closed."""
    app = library.served.app
    owner, reader = DataDatabase(data_dsn), DataDatabase(data_dsn, role=DataRole.READER)
    app.parts |= {"data": owner, "data_reader": reader}
    dataset, version = library.stored_in("totals", "postgres")
    table = VersionTable(
        DatasetUuid(dataset), DatasetVersion(version), COLUMNS, UpdateStrategy.REPLACE
    )
    VersionTables(owner).ensure_version(table)
    library.change(
        "UPDATE dataset_versions SET columns = %(columns)s WHERE dataset_version = %(version)s",
        columns=as_json([{"name": each.name, "type": each.type} for each in COLUMNS]),
        version=version,
    )
    for scope in (Scope(cursor=1), Scope(cursor=2), Scope(cursor=2)):
        library.commit(version, scope)
    rows = [(1, 1, None), (2, 2, 3), (22, 3, None)]
    with psycopg.connect(data_dsn) as connection:
        for number, valid_from, valid_to in rows:
            connection.execute(
                f"INSERT INTO {schema_name(dataset)}.{table_name(version)}"  # noqa: S608
                " (id, amount, hash, _from, _to, _scope) VALUES (%s, 2::numeric ^ 70, '\\x01', %s,"
                " %s, 'c1')",
                (number, valid_from, valid_to),
            )
    yield library, version
    owner.close()
    reader.close()


def test_rows_of_a_table_are_shown_at_a_pin(in_postgres: tuple[Library, UUID]) -> None:
    library, version = in_postgres
    found = library.creator.ok("GET", HEAD)
    assert sorted(ids(found)) == [1, 22]
    assert (found["rows"][0][2], found["rows"][0][4]) == (str(2**70), "0x01")
    at = library.creator.ok("GET", f"{HEAD}?version={version}&number=2")
    assert sorted(ids(at)) == [1, 2]
    one = library.creator.ok("GET", f"{HEAD}?limit=1")
    assert (len(one["rows"]), one["cut"]) == (1, True)


def test_a_purge_drops_the_table(
    in_postgres: tuple[Library, UUID], manual_clock: ManualClock, data_dsn: str
) -> None:
    library, version = in_postgres
    dataset = library.version("totals")[0]
    for _ in range(2):
        library.next_version("totals")
    library.admin.ok("POST", "/v1/datasets/totals/purge", {"versions": [str(version)]})
    manual_clock.advance(limits.PURGE_GRACE)
    assert library.served.app.purges.run_once().purged == 1
    with psycopg.connect(data_dsn) as connection:
        left = connection.execute(
            "SELECT to_regclass(%s)", (f"{schema_name(dataset)}.{table_name(version)}",)
        ).fetchone()
    assert left == (None,)
