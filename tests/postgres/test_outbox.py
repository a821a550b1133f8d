"""The outbox: sent at least once, postponed on failure, given up with an alarm, never stranded."""

from __future__ import annotations

from collections.abc import Sequence

from tests.factories import World
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Denied, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.outbox.model import OutboxStatus
from trace_core.outbox.relay import Relay
from trace_core.outbox.store import OutboxRow
from trace_core.ports.waker import Function


class Sends:
    def __init__(self) -> None:
        self.rows: list[OutboxRow] = []
        self.broken = False

    def __call__(self, _org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        if self.broken:
            raise Unavailable
        self.rows += rows


def test_a_sent_row_is_gone(chain: World) -> None:
    sends = Sends()
    relay = chain.relay(worker=sends)
    assert relay.run_once().sent == 1
    assert chain.count("outbox") == 0
    assert relay.run_once().sent == 0


def test_a_row_that_another_relay_holds_is_left_alone(chain: World) -> None:
    taken = chain.outbox.take_due(chain.clock.now(), 10)
    assert len(taken) == 1
    assert chain.relay(worker=Sends()).run_once().sent == 0
    chain.pass_time(seconds=31)
    assert chain.relay(worker=Sends()).run_once().sent == 1
    chain.outbox.finish(taken)


def test_a_slow_relay_does_not_remove_what_another_took_since(chain: World) -> None:
    slow = chain.outbox.take_due(chain.clock.now(), 10)
    chain.pass_time(seconds=31)
    chain.outbox.take_due(chain.clock.now(), 10)
    chain.outbox.finish(slow)
    assert chain.count("outbox") == 1


def test_a_row_is_given_up_after_its_last_try_and_the_sweep_wakes_the_work(chain: World) -> None:
    sends = Sends()
    sends.broken = True
    relay = chain.relay(worker=sends)
    failed = 0
    for _ in range(20):
        failed += relay.run_once().failed
        chain.pass_time(minutes=8)
    assert failed == 1
    assert chain.views.backlog().outbox_failed == 1
    sends.broken = False
    assert relay.run_once().sent == 0
    assert chain.dispatcher.run_once().swept == 1
    assert relay.run_once().sent == 1
    assert len(chain.claim(1)) == 1


def test_a_row_whose_send_was_denied_is_given_up_at_once(chain: World) -> None:
    def denied(_org_id: OrgId, _rows: Sequence[OutboxRow]) -> None:
        raise Denied

    assert chain.relay(worker=denied).run_once().failed == 1
    assert chain.views.backlog().outbox_failed == 1


def test_the_sweep_wakes_nothing_that_is_on_its_way_or_young(chain: World) -> None:
    chain.pass_time(minutes=5)
    assert chain.dispatcher.run_once().swept == 0
    chain.clear_outbox()
    assert chain.dispatcher.run_once().swept == 1
    assert chain.dispatcher.run_once().swept == 0
    chain.relay(worker=Sends()).run_once()
    chain.feed(1)
    chain.clear_outbox()
    assert chain.dispatcher.run_once().swept == 0


def test_a_sweep_row_that_failed_is_reset_not_added_again(chain: World) -> None:
    chain.clear_outbox()
    chain.pass_time(minutes=5)
    chain.dispatcher.run_once()
    chain.state.write("test", "UPDATE outbox SET status = 'Failed', attempts = 20", {})
    assert chain.dispatcher.run_once().swept == 1
    (row,) = chain.rows("SELECT status, attempts FROM outbox")
    assert (row.status, row.attempts) == ("Pending", 0)


def test_given_up_rows_can_be_sent_again_by_hand(chain: World) -> None:
    chain.state.write("test", "UPDATE outbox SET status = 'Failed'", {})
    assert chain.outbox_admin.reset(chain.org, SYSTEM) == 1
    assert chain.waker.woken[-1] is Function.OUTBOX_RELAY
    assert chain.relay(worker=Sends()).run_once().sent == 1


def test_a_reset_touches_only_the_rows_that_fit_and_only_those_of_the_org(chain: World) -> None:
    other = chain.another_org()
    chain.deploy(org=other)
    chain.state.write("test", "UPDATE outbox SET status = 'Failed', attempts = 20", {})
    reset = chain.outbox_admin.reset
    (row,) = chain.outbox_admin.rows(chain.org)
    assert (row["kind"], row["target"], row["tasks"], row["attempts"]) == ("wake", "worker", 1, 20)
    assert reset(chain.org, SYSTEM, target="lambda") == 0
    assert reset(chain.org, SYSTEM, kind="start") == 0
    assert reset(chain.org, SYSTEM, status=OutboxStatus.PENDING) == 0
    assert reset(other, SYSTEM, outbox_ids=[row["outbox_id"]]) == 0
    assert reset(chain.org, SYSTEM, outbox_ids=[chain.ids.uuid()]) == 0
    assert (
        reset(chain.org, SYSTEM, outbox_ids=[row["outbox_id"]], kind="wake", target="worker") == 1
    )
    (row,) = chain.outbox_admin.rows(chain.org)
    assert (row["status"], row["attempts"]) == ("Pending", 0)
    (others,) = chain.outbox_admin.rows(other)
    assert others["status"] == "Failed"


def test_postponed_rows_can_be_sent_ahead_of_time_and_their_holder_still_finishes_them(
    chain: World,
) -> None:
    held = chain.outbox.take_due(chain.clock.now(), 10)
    assert chain.outbox_admin.reset(chain.org, SYSTEM) == 0
    assert chain.outbox_admin.reset(chain.org, SYSTEM, status=OutboxStatus.PENDING) == 1
    assert chain.outbox_admin.reset(chain.org, SYSTEM, status=OutboxStatus.PENDING) == 0
    chain.outbox.finish(held)
    assert chain.count("outbox") == 0


def test_rows_are_listed_a_page_at_a_time_the_oldest_first(chain: World) -> None:
    for cursor in range(3):
        chain.pass_time(seconds=1)
        chain.feed(cursor) if cursor == 0 else chain.state.write(
            "test",
            "INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at,"
            " available_at) SELECT %(id)s, org_id, kind, 'lambda', task_ids, %(now)s, available_at"
            " FROM outbox LIMIT 1",
            {"id": chain.ids.uuid(), "now": chain.clock.now()},
        )
    everything = chain.outbox_admin.rows(chain.org)
    assert len(everything) == 4
    assert [each["created_at"] for each in everything] == sorted(
        each["created_at"] for each in everything
    )
    first = chain.outbox_admin.rows(chain.org, limit=2)
    rest = chain.outbox_admin.rows(chain.org, after=first[-1]["outbox_id"])
    assert first + rest == everything
    assert len(chain.outbox_admin.rows(chain.org, target="lambda")) == 2


def test_one_target_that_breaks_does_not_hold_back_another(chain: World) -> None:
    def broken(_org_id: OrgId, _rows: Sequence[OutboxRow]) -> None:
        raise ZeroDivisionError

    chain.state.write(
        "test",
        "INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)"
        " SELECT %(id)s, org_id, 'wake', 'lambda', task_ids, created_at, available_at FROM outbox",
        {"id": chain.ids.uuid()},
    )
    sends = Sends()
    report = chain.relay(**{"lambda": broken, "worker": sends}).run_once()
    assert (report.sent, report.postponed) == (1, 1)
    assert chain.rows("SELECT last_error FROM outbox")[0].last_error == "ZeroDivisionError"


def test_a_row_goes_to_the_sender_of_its_kind_and_an_unknown_kind_is_postponed(
    chain: World,
) -> None:
    chain.state.write("test", "UPDATE outbox SET kind = 'repoint', target = 'dag'", {})
    worker, repoint = Sends(), Sends()
    assert chain.relay(worker=worker, dag=worker).run_once().postponed == 1
    chain.pass_time(minutes=1)
    relay = Relay(chain.outbox, chain.clock, {"dag": worker}, kinds={"repoint": repoint})
    assert relay.run_once().sent == 1
    assert [row.target for row in repoint.rows] == ["dag"]
    assert worker.rows == []


def test_wake_ups_go_before_what_may_take_its_time(chain: World) -> None:
    sent: list[str] = []

    def note(_org_id: OrgId, rows: Sequence[OutboxRow]) -> None:
        sent.extend(row.kind for row in rows)

    chain.state.write("test", "UPDATE outbox SET kind = 'repoint', target = 'dag'", {})
    chain.feed(1)
    Relay(chain.outbox, chain.clock, {"worker": note}, kinds={"repoint": note}).run_once()
    assert sent == ["wake", "repoint"]
