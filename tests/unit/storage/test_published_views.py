"""Which view a name gets, and what has to change for it: decisions without a database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from trace_core.dag.model import Column
from trace_core.kernel.ids import DagId, DatasetUuid, DatasetVersion, OrgId
from trace_core.storage.published_views import (
    PartTable,
    PublishedPart,
    PublishedTable,
    changes,
    view_name,
)

ORG, OTHER, DAG = OrgId(UUID(int=1)), OrgId(UUID(int=2)), DagId(UUID(int=3))
NARROW = (Column("id", "bigint"),)
WIDE = (*NARROW, Column("label", "text"))


def version(number: int) -> DatasetVersion:
    return DatasetVersion(UUID(int=100 + number))


def wanted(name: str, *versions: int) -> PublishedTable:
    return PublishedTable(
        ORG, DAG, name, tuple(PublishedPart(version(each), 1) for each in versions)
    )


def known(**columns: tuple[Column, ...]) -> dict[DatasetVersion, PartTable]:
    return {
        version(int(each[1:])): PartTable(DatasetUuid(UUID(int=9)), version(int(each[1:])), found)
        for each, found in columns.items()
    }


def recorded(name: str, *versions: int, columns: tuple[Column, ...] = NARROW) -> Any:
    return SimpleNamespace(
        org_id=ORG,
        dag_id=DAG,
        dataset_name=name,
        view_name=name,
        versions=[version(each) for each in versions],
        columns=[{"name": each.name, "type": each.type} for each in columns],
    )


def test_a_name_is_its_own_view_as_long_as_it_fits() -> None:
    assert view_name(ORG, "blocks", ()) == "blocks"
    assert view_name(ORG, "b" * 63, ()) == "b" * 63


def test_long_names_that_begin_alike_get_views_of_their_own() -> None:
    found = {view_name(ORG, "b" * 64 + end, ()) for end in ("x", "y")}
    assert len(found) == 2
    assert all(len(each.encode()) == 63 and each.startswith("b" * 50) for each in found)


def test_a_shortened_name_is_whole_letters() -> None:
    found = view_name(ORG, "ü" * 40, ())
    assert found.startswith("ü" * 26 + "_")
    assert len(found.encode()) <= 63


def test_a_taken_name_is_told_apart_by_its_org_and_never_taken_twice() -> None:
    first = view_name(ORG, "blocks", {"blocks"})
    assert first.startswith("blocks_")
    assert first != view_name(OTHER, "blocks", {"blocks"})
    assert view_name(ORG, "blocks", {"blocks", first}) not in {"blocks", first}


def test_what_is_as_it_should_be_is_left_alone() -> None:
    assert changes([wanted("x", 1)], known(v1=NARROW), [recorded("x", 1)], DAG) == []


def test_another_version_replaces_a_view_and_other_columns_drop_it_first() -> None:
    for columns, drops in ((NARROW, False), (WIDE, True)):
        (change,) = changes([wanted("x", 2)], known(v2=columns), [recorded("x", 1)], DAG)
        assert (change.view_name, change.drops) == ("x", drops)
        assert [each.dataset_version for each in change.shows] == [version(2)]


def test_names_that_are_gone_are_dropped_for_their_own_dag_only() -> None:
    (change,) = changes([], {}, [recorded("x", 1)], DAG)
    assert (change.view_name, change.shows, change.drops) == ("x", (), True)
    assert changes([], {}, [recorded("x", 1)], DagId(UUID(int=4))) == []
    assert len(changes([], {}, [recorded("x", 1)], None)) == 1


def test_a_version_without_a_table_is_left_out() -> None:
    assert changes([wanted("x", 1)], {}, [], DAG) == []
    (change,) = changes([wanted("x", 1, 2)], known(v2=NARROW), [], DAG)
    assert [each.dataset_version for each in change.shows] == [version(2)]


def test_parts_that_do_not_fit_below_each_other_have_no_view() -> None:
    assert changes([wanted("x", 1, 2)], known(v1=NARROW, v2=WIDE), [], DAG) == []


def test_views_are_always_changed_in_the_same_order() -> None:
    names = ["b", "c", "a"]
    found = changes([wanted(each, 1) for each in names], known(v1=NARROW), [], DAG)
    assert [each.view_name for each in found] == ["a", "b", "c"]
