"""Which names have views, what those are called, and which columns they have."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgres.published_world import BOTH, COLUMNS, EDITED, LOOK, SHOP, PublishedWorld
from trace_core.dag.model import Column
from trace_core.kernel.ids import DatasetUuid, DatasetVersion

WIDER = (*COLUMNS, Column("more", "jsonb"))


def test_a_name_that_is_hidden_loses_its_view_and_gets_it_back(forward: PublishedWorld) -> None:
    forward.publish(EDITED[: EDITED.index("  lines:")])
    forward.sender.run_once()
    assert forward.view_names() == ["orders"]
    forward.roll_back()
    forward.sender.run_once()
    assert forward.view_names() == ["lines", "orders"]
    assert forward.read(BOTH) == [("two", "two")] * 2


def test_a_long_name_is_shortened(shop: PublishedWorld) -> None:
    long = "orders_" + "x" * 80
    shop.publish(SHOP.replace("orders:", f"{long}:"))
    shop.write("b", "one", 1)
    shop.follow()
    ((name, view),) = shop.read(LOOK)
    assert name == long
    assert view.startswith("orders_xxx")
    assert len(view.encode()) <= 63
    assert shop.labels(view) == ["one"]


def test_two_orgs_have_views_of_their_own_for_one_name(shop: PublishedWorld) -> None:
    other = shop.another_org()
    shop.publish(SHOP, other)
    for org, label in ((shop.org, "ours"), (other, "theirs")):
        shop.write("b", label, 1, org=org)
        shop.follow()
    (ours, theirs) = (view for _, view in shop.read(LOOK))
    assert ours == "orders"
    assert theirs.startswith("orders_")
    assert (shop.labels(ours), shop.labels(theirs)) == (["ours"], ["theirs"])


def test_other_columns_make_another_view(shop: PublishedWorld) -> None:
    shop.write("b", "one", 1)
    shop.publish(EDITED)
    shop.write("b", "two", 1, columns=WIDER)
    shop.follow()
    assert shop.read("SELECT * FROM published.orders") == [(1, "two", None)]
    shop.roll_back()
    shop.follow()
    assert shop.read("SELECT * FROM published.orders") == [(1, "one")]


MINE = "CREATE VIEW mine AS SELECT label FROM published.orders"


def test_what_others_built_on_a_view_stays_while_its_columns_do(forward: PublishedWorld) -> None:
    forward.data.run(MINE)
    forward.roll_back()
    forward.sender.run_once()
    assert forward.data.one("SELECT DISTINCT label FROM mine") == "one"


def test_what_others_built_on_a_view_is_not_dropped_with_it(shop: PublishedWorld) -> None:
    shop.write("b", "one", 1)
    shop.follow()
    shop.data.run(MINE)
    shop.publish(EDITED)
    shop.write("b", "two", 1, columns=WIDER)
    shop.follow()
    assert shop.labels("orders") == ["one"]
    (row,) = shop.rows("SELECT last_error FROM outbox WHERE kind = 'repoint'")
    assert row.last_error == "DependentObjectsStillExist"
    shop.data.run("DROP VIEW mine")
    shop.pass_time(minutes=8)
    shop.sender.run_once()
    assert shop.labels("orders") == ["two"]


PARTS = SHOP[: SHOP.index("publish:")] + (
    "publish:\n  all_rows: {from: [{job: b, output: 0}, {job: c, output: 0}]}\n"
)
"""One name over both outputs."""


def keep(shop: PublishedWorld, job: str, backend: str) -> None:
    _, version = shop.output(job)
    shop.state.write(
        "test",
        "UPDATE dataset_versions SET backend = %(backend)s WHERE dataset_version = %(version)s",
        {"backend": backend, "version": version},
    )


def test_several_parts_are_one_view_and_those_without_a_table_come_later(
    shop: PublishedWorld,
) -> None:
    shop.publish(PARTS)
    shop.write("b", "hot", 2)
    shop.follow()
    assert shop.read("SELECT * FROM published.all_rows") == [(2, "hot")]
    shop.write("c", "cold", 1)
    shop.follow()
    assert shop.read("SELECT * FROM published.all_rows ORDER BY id") == [(1, "cold"), (2, "hot")]
    assert shop.view_names() == ["all_rows"]


def test_parts_with_other_columns_or_elsewhere_have_no_view(shop: PublishedWorld) -> None:
    shop.publish(PARTS)
    shop.write("b", "hot", 2)
    shop.write("c", "cold", 1)
    shop.follow()
    assert shop.view_names() == ["all_rows"]
    keep(shop, "c", "s3")
    shop.pass_time(minutes=2)
    shop.follow()
    assert shop.view_names() == []
    keep(shop, "c", "postgres")
    shop.publish(PARTS.replace("operator: work", "operator: rework"))
    shop.write("b", "hot", 2)
    shop.write("c", "cold", 1, columns=WIDER)
    shop.pass_time(minutes=2)
    shop.follow()
    assert shop.view_names() == []


def test_a_deleted_version_takes_its_pin_along(forward: PublishedWorld) -> None:
    dataset, version = forward.output("b")
    forward.roll_back()
    pins = "SELECT count(*) FROM trace.published_pins"
    # A view still shows it.
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        forward.data.tables.delete_version(DatasetUuid(dataset), DatasetVersion(version))
    forward.sender.run_once()
    assert forward.data.one(pins) == 4
    forward.data.tables.delete_version(DatasetUuid(dataset), DatasetVersion(version))
    assert forward.data.one(pins) == 3
