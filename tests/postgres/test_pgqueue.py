"""What the queue of the profile `lite` promises beyond its port: plans, vacuum, quiet waiting."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from tests.manual_clock import ManualClock
from trace_core.adapters.lite.pgqueue import PgQueue
from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import Ids
from trace_core.ports.queue import QueueDepth

LONG = timedelta(minutes=5)
NO_WAIT = timedelta(0)
STATEMENTS = Statements("trace_core.adapters.lite", "pgqueue.sql")


@pytest.fixture
def queue(state_database: StateDatabase, manual_clock: ManualClock, ids: Ids) -> Iterator[PgQueue]:
    queue = PgQueue(state_database, manual_clock, ids)
    yield queue
    queue.close()


def test_a_message_has_ten_receives_by_default(queue: PgQueue, manual_clock: ManualClock) -> None:
    queue.send("tasks", [{}])
    for _ in range(10):
        assert len(queue.receive("tasks", limit=1, visibility=LONG, wait=NO_WAIT)) == 1
        manual_clock.advance(LONG)
    assert queue.receive("tasks", limit=1, visibility=LONG, wait=NO_WAIT) == []
    assert queue.depth("tasks") == QueueDepth(visible=0, in_flight=0, dead=1)


def test_a_waiting_receiver_does_not_poll(
    state_dsn: str, manual_clock: ManualClock, ids: Ids
) -> None:
    calls: Counter[str] = Counter()
    database = StateDatabase(state_dsn, crash_points=lambda name: calls.update([name]))
    queue = PgQueue(database, manual_clock, ids)
    try:
        wait = timedelta(seconds=1.5)
        assert queue.receive("tasks", limit=1, visibility=LONG, wait=wait) == []
    finally:
        queue.close()
        database.close()
    # At the start, when the listener connects, after a second, at the end.
    assert calls["pgqueue_receive:before_commit"] <= 4


def test_what_another_process_sends_ends_the_wait(
    queue: PgQueue, state_dsn: str, manual_clock: ManualClock
) -> None:
    database = StateDatabase(state_dsn)
    other = PgQueue(database, manual_clock, Ids(manual_clock.now, random.Random(2).getrandbits))  # noqa: S311
    latencies = []
    try:
        with ThreadPoolExecutor() as pool:
            for _ in range(5):
                waiting = pool.submit(
                    queue.receive, "tasks", limit=1, visibility=LONG, wait=timedelta(seconds=9)
                )
                time.sleep(0.05)
                sent = time.monotonic()
                other.send("tasks", [{}])
                assert len(waiting.result(timeout=9)) == 1
                latencies.append(time.monotonic() - sent)
    finally:
        other.close()
        database.close()
    assert min(latencies) < 0.1


def test_a_closed_queue_still_receives(queue: PgQueue) -> None:
    queue.close()
    queue.close()
    queue.send("tasks", [{}])
    wait = timedelta(milliseconds=50)
    assert len(queue.receive("tasks", limit=1, visibility=LONG, wait=wait)) == 1
    assert queue.receive("tasks", limit=1, visibility=LONG, wait=wait) == []


def test_a_late_delete_never_removes_a_message_received_again(
    state_database: StateDatabase, manual_clock: ManualClock, ids: Ids
) -> None:
    """The delete begins while the new receive is not committed yet, and waits for its row."""
    queue = PgQueue(state_database, manual_clock, ids)
    for _ in range(10):
        queue.send("tasks", [{}])
        [first] = queue.receive("tasks", limit=1, visibility=LONG, wait=NO_WAIT)
        manual_clock.advance(LONG)
        with psycopg.connect(state_database.dsn) as other:
            other.execute(
                STATEMENTS["receive"],
                {
                    "queue": "tasks",
                    "limit": 1,
                    "max_receives": 10,
                    "receive_token": ids.token(),
                    "now": manual_clock.now(),
                    "visible_at": manual_clock.now() + LONG,
                },
            )
            late = threading.Thread(target=queue.delete, args=("tasks", [first.receipt]))
            late.start()
            time.sleep(0.02)
        late.join()
        assert queue.depth("tasks").in_flight == 1
        state_database.write("clear", "DELETE FROM pgqueue_messages", {})


def test_a_receiver_neither_waits_for_another_nor_takes_from_it(
    state_database: StateDatabase, queue: PgQueue, manual_clock: ManualClock, ids: Ids
) -> None:
    queue.send("tasks", [{"number": number} for number in range(5)])
    with psycopg.connect(state_database.dsn) as other:
        other.execute(
            STATEMENTS["receive"],
            {
                "queue": "tasks",
                "limit": 2,
                "max_receives": 10,
                "receive_token": ids.token(),
                "now": manual_clock.now(),
                "visible_at": manual_clock.now() + LONG,
            },
        )
        started = time.monotonic()
        with ThreadPoolExecutor() as pool:
            receive = pool.submit(queue.receive, "tasks", limit=5, visibility=LONG, wait=NO_WAIT)
            time.sleep(0.2)
            done_while_the_other_is_open = receive.done()
            other.commit()
            assert len(receive.result(timeout=5)) == 3
    assert done_while_the_other_is_open
    assert time.monotonic() - started < 2


def test_dying_messages_are_passed_over_in_the_same_receive(
    queue: PgQueue, manual_clock: ManualClock
) -> None:
    queue.send("tasks", [{"number": number} for number in range(3)])
    for _ in range(10):
        assert len(queue.receive("tasks", limit=3, visibility=LONG, wait=NO_WAIT)) == 3
        manual_clock.advance(LONG)
    queue.send("tasks", [{"number": 99}])
    [message] = queue.receive("tasks", limit=1, visibility=LONG, wait=NO_WAIT)
    assert message.body == {"number": 99}
    assert queue.depth("tasks") == QueueDepth(visible=0, in_flight=1, dead=3)


@pytest.mark.parametrize("statement", ["receive", "next_visible_at", "extend", "delete", "redrive"])
def test_no_statement_reads_the_whole_table(
    state_database: StateDatabase, queue: PgQueue, ids: Ids, statement: str
) -> None:
    for _ in range(10):
        queue.send("tasks", [{"number": number} for number in range(500)])
        queue.send("others", [{"number": number} for number in range(500)])
    params = {
        "queue": "tasks",
        "limit": 10,
        "max_receives": 10,
        "receive_token": ids.token(),
        "message_id": ids.uuid(),
        "message_ids": ids.many(10),
        "receive_tokens": [ids.token() for _ in range(10)],
        "now": ids._now(),
        "visible_at": ids._now() + LONG,
        "channel": "test",
    }
    plan = state_database.read(f"EXPLAIN {STATEMENTS[statement]}", params)
    text = "\n".join(row[0] for row in plan)
    assert "Seq Scan on pgqueue_messages" not in text, text
    if statement == "receive":
        assert "Index Scan using pgqueue_messages_visible" in text, text
        assert "Sort" not in text, text


def test_dead_rows_are_cleaned_up_early(state_database: StateDatabase) -> None:
    rows = state_database.read(
        "SELECT reloptions FROM pg_class WHERE relname = 'pgqueue_messages'", {}
    )
    assert "autovacuum_vacuum_scale_factor=0.0" in rows[0].reloptions
    assert "autovacuum_vacuum_threshold=1000" in rows[0].reloptions


def test_the_time_comes_from_the_clock_alone(queue: PgQueue, manual_clock: ManualClock) -> None:
    manual_clock.advance(timedelta(days=-365 * 20))
    queue.send("tasks", [{}])
    [message] = queue.receive("tasks", limit=1, visibility=LONG, wait=NO_WAIT)
    assert queue.receive("tasks", limit=1, visibility=LONG, wait=NO_WAIT) == []
    assert queue.depth("tasks") == QueueDepth(visible=0, in_flight=1, dead=0)
    queue.delete("tasks", [message.receipt])
    assert queue.depth("tasks") == QueueDepth(visible=0, in_flight=0, dead=0)


def test_no_statement_asks_the_database_for_time_or_randomness() -> None:
    for text in STATEMENTS.all.values():
        for function in ("now()", "current_timestamp", "clock_timestamp", "random", "uuid("):
            assert function not in text.lower()
