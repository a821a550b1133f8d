"""Views of published names: always one cut of a DAG, up to what is readable, and never back."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.factories import World
from tests.postgres.data_world import Crash, Frozen
from tests.postgres.published_world import BOTH, LOOK, PublishedWorld
from trace_core.database.data import DataDatabase
from trace_core.deploy.repoint import Repoints
from trace_core.kernel.errors import Unavailable
from trace_core.storage.published_views import PublishedViews

SWITCHES = 50


def test_a_first_commit_leads_to_a_view_within_a_pass(shop: PublishedWorld) -> None:
    shop.follow()
    assert shop.view_names() == []
    shop.write("b", "one", 1, 2)
    shop.follow()
    # The other dataset has no table yet.
    assert shop.view_names() == ["orders"]
    assert shop.read("SELECT * FROM published.orders ORDER BY id") == [(1, "one"), (2, "one")]
    shop.write("c", "one", 1)
    shop.follow()
    assert shop.read(BOTH) == [("one", "one")]
    assert shop.asked() == []


def test_rows_appear_up_to_the_readable_pin_and_no_further(shop: PublishedWorld) -> None:
    shop.write("b", "first", 1)
    shop.follow()
    number = shop.write("b", "second", 1, 2, register=False)
    shop.follow()
    assert shop.read("SELECT * FROM published.orders") == [(1, "first")]
    shop.register("b", number)
    shop.follow()
    assert shop.labels("orders") == ["second"]
    # Neither an old number nor a process that begins anew takes it back.
    shop.register("b", number - 1)
    shop.another(shop.data.data).chore()
    assert shop.labels("orders") == ["second"]


def test_readers_may_read_and_nobody_else(forward: PublishedWorld) -> None:
    assert forward.read(LOOK) == [("lines", "lines"), ("orders", "orders")]
    for role, statement in (
        ("trace_data_writer", "SELECT * FROM published.orders"),
        ("trace_data_reader", "SELECT * FROM trace.published_pins"),
        ("trace_data_reader", "DELETE FROM trace.published_views"),
        ("trace_data_reader", "CREATE VIEW published.mine AS SELECT 1"),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            forward.read(statement, role)


def test_cutover_and_rollback_move_both_views(forward: PublishedWorld) -> None:
    assert forward.read(BOTH) == [("two", "two")] * 2
    forward.roll_back()
    (row,) = forward.asked()
    assert (row.target, row.sweep_key) == (
        str(forward.dag_id()),
        f"repoint:{forward.dag_id()}",
    )
    assert forward.read(BOTH) == [("two", "two")] * 2
    forward.sender.run_once()
    assert forward.read(BOTH) == [("one", "one")] * 2
    assert forward.asked() == []


class Reader(threading.Thread):
    """Reads both views in one transaction, again and again: joined, and one after the other."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self.over = threading.Event()
        self.seen: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self._dsn) as connection:
                while not self.over.is_set():
                    for views in (("orders", "lines"), ("lines", "orders")):
                        self._read(connection, views)
        except BaseException as error:
            self.error = error

    def _read(self, connection: psycopg.Connection[Any], views: Sequence[str]) -> None:
        with connection.transaction():
            apart = set()
            for view in views:
                one = sql.SQL("SELECT DISTINCT label FROM published.{}")
                apart |= set(connection.execute(one.format(sql.Identifier(view))).fetchall())
        with connection.transaction():
            joined = {label for row in connection.execute(BOTH) for label in row}
        (_same,), (label,) = apart, joined
        self.seen.append(label)

    def wait_for(self, label: str) -> None:
        """Until it has seen this last: what it read may be older than what was switched since."""
        ends_at = time.monotonic() + 30
        while self.seen[-1:] != [label]:
            assert self.error is None, self.error
            assert time.monotonic() < ends_at, f"{label} was never seen"
            time.sleep(0.001)


def test_who_reads_both_views_in_one_transaction_never_sees_a_mix(
    forward: PublishedWorld,
) -> None:
    reader = Reader(forward.data.dsn)
    reader.start()
    try:
        reader.wait_for("two")
        for label in ("one", "two") * (SWITCHES // 2):
            forward.roll_back()
            # It holds one view while it wants the other: not every try comes through.
            while asked := forward.asked():
                assert asked[0].status == "Pending"
                forward.sender.run_once()
                forward.pass_time(minutes=8)
            reader.wait_for(label)
    finally:
        reader.over.set()
        reader.join(10)
    assert reader.error is None, reader.error
    switches = sum(a != b for a, b in pairwise(reader.seen))
    assert switches == SWITCHES
    assert set(reader.seen) == {"one", "two"}


def test_an_old_row_that_runs_late_moves_nothing_back(forward: PublishedWorld) -> None:
    forward.roll_back()
    old = forward.outbox.take_due(forward.clock.now(), 10)
    assert [row.kind for row in old if row.kind == "repoint"] == ["repoint"]
    forward.roll_back()
    forward.roll_back()
    # Its relay had read the pointers before: what it finishes is not the row of the last switch.
    forward.outbox.finish(old)
    assert [row.status for row in forward.asked()] == ["Pending"]
    forward.sender.run_once()
    assert forward.read(BOTH) == [("one", "one")] * 2
    forward.repoints.send(forward.org, [row for row in old if row.kind == "repoint"])
    assert forward.read(BOTH) == [("one", "one")] * 2


def test_of_two_relays_at_once_the_second_reads_the_pointers_after_the_first(
    forward: PublishedWorld,
) -> None:
    frozen = Frozen("repoint:before_commit")
    first = forward.relay_with(forward.another(forward.data.session(crash_points=frozen)))
    forward.roll_back()
    with frozen.running(first.run_once):
        forward.roll_back()
        second = threading.Thread(target=forward.sender.run_once)
        second.start()
        forward.data.wait_until_blocked()
        forward.roll_back()
    second.join(10)
    assert frozen.error is None
    # What both were sent for is not current any more; what was asked for last is still to come.
    assert forward.read(BOTH) == [("one", "one")] * 2
    assert len(forward.asked()) == 1
    forward.sender.run_once()
    assert forward.read(BOTH) == [("one", "one")] * 2
    assert forward.asked() == []


@pytest.mark.parametrize(
    ("point", "between"),
    [("repoint:before_commit", "two"), ("repoint:after_commit", "one")],
)
def test_a_crash_around_the_commit_is_repeated_harmlessly(
    forward: PublishedWorld, point: str, between: str
) -> None:
    def crash(name: str) -> None:
        if name == point:
            raise Crash

    forward.roll_back()
    dying = forward.relay_with(forward.another(forward.data.session(crash_points=crash)))
    with pytest.raises(Crash):
        dying.run_once()
    assert forward.read(BOTH) == [(between, between)] * 2
    assert len(forward.asked()) == 1
    forward.pass_time(seconds=31)
    forward.sender.run_once()
    assert forward.read(BOTH) == [("one", "one")] * 2
    assert forward.asked() == []


def test_a_row_that_was_given_up_is_reset_as_long_as_views_are_wrong(
    forward: PublishedWorld,
) -> None:
    def away(_name: str) -> None:
        raise Unavailable

    broken = forward.relay_with(forward.another(forward.data.session(crash_points=away)))
    forward.roll_back()
    for _ in range(20):
        broken.run_once()
        forward.pass_time(minutes=8)
    assert [(row.status, row.attempts) for row in forward.asked()] == [("Failed", 20)]
    assert forward.views.backlog().outbox_failed == 1
    forward.sender.run_once()
    assert forward.read(BOTH) == [("two", "two")] * 2
    assert forward.repoints.chore() == 1
    forward.sender.run_once()
    assert forward.read(BOTH) == [("one", "one")] * 2
    forward.pass_time(minutes=2)
    assert forward.repoints.chore() == 0
    assert forward.asked() == []


def test_somebody_who_reads_for_long_postpones_the_switch_and_is_not_disturbed(
    forward: PublishedWorld,
) -> None:
    forward.roll_back()
    with psycopg.connect(forward.data.dsn) as reader:
        assert reader.execute("SELECT DISTINCT label FROM published.orders").fetchall() == [
            ("two",)
        ]
        assert forward.sender.run_once().postponed == 1
        assert forward.rows("SELECT last_error FROM outbox WHERE kind = 'repoint'")[0][0] == "InUse"
        # Neither view has moved.
        assert reader.execute(BOTH).fetchall() == [("two", "two")] * 2
    forward.pass_time(minutes=1)
    forward.sender.run_once()
    assert forward.read(BOTH) == [("one", "one")] * 2


def test_nothing_is_asked_of_the_data_database_while_nothing_moves(
    forward: PublishedWorld,
) -> None:
    passed: list[str] = []
    repoints = forward.another(forward.data.session(crash_points=passed.append))
    repoints.chore()
    assert "advance_pins:begin" in passed and "stale_views:begin" in passed
    passed.clear()
    assert repoints.chore() == 0
    assert passed == []
    forward.write("b", "two", 1, 2, 3)
    repoints.chore()
    assert "advance_pins:begin" in passed and "stale_views:begin" not in passed
    assert forward.read("SELECT count(*) FROM published.orders") == [(3,)]
    forward.pass_time(minutes=2)
    passed.clear()
    repoints.chore()
    assert "stale_views:begin" in passed and "advance_pins:begin" not in passed


def test_a_dag_without_rows_in_postgres_asks_for_nothing(chain: World) -> None:
    """Its data database need not be there."""
    nowhere = DataDatabase("host=/nowhere dbname=nothing")
    repoints = Repoints(chain.state, PublishedViews(nowhere), chain.clock, chain.ids, chain.waker)
    assert repoints.chore() == 0
    assert chain.rows("SELECT FROM outbox WHERE kind <> 'wake'") == []
