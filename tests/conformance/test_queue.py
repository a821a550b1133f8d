"""Every queue: at least once, hidden while in flight, dead after too many receives."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.harness import LONG, NO_WAIT, QueueHarness
from trace_core.kernel.errors import Invalid, TooLarge, Unavailable
from trace_core.kernel.limits import QUEUE_MESSAGE_MAX
from trace_core.ports.queue import Message, QueueDepth


def numbers(messages: list[Message]) -> list[int]:
    return sorted(message.body["number"] for message in messages)


def send_numbers(queues: QueueHarness, count: int) -> None:
    queues.queue.send(queues.name, [{"number": number} for number in range(count)])


def wear_out(queues: QueueHarness, count: int) -> None:
    """Receive the messages as often as is allowed, and once more."""
    for _ in range(queues.max_receives):
        queues.receive_all(count, visibility=queues.visibility)
        queues.let_pass(queues.visibility * 1.1)
    assert queues.becomes(lambda: is_dead(queues, count))


def is_dead(queues: QueueHarness, count: int) -> bool:
    """A queue buries its dead when it is asked for messages, and not before."""
    return queues.receive(10) == [] and queues.queue.depth(queues.name).dead == count


def test_what_was_sent_is_received_once_and_gone_after_its_delete(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    [message] = queues.receive_all(1)
    assert (message.body, message.receive_count) == ({"number": 0}, 1)
    queues.queue.delete(queues.name, [message.receipt])
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))
    queues.let_pass(queues.visibility * 1.1)
    assert queues.receive() == []


def test_an_empty_queue_answers_nothing_at_once(queues: QueueHarness) -> None:
    started = time.monotonic()
    assert queues.receive() == []
    assert time.monotonic() - started < 2


def test_sending_nothing_is_allowed(queues: QueueHarness) -> None:
    queues.queue.send(queues.name, [])
    assert queues.receive() == []


def test_queues_do_not_see_each_others_messages(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    other = queues.other_name
    assert queues.queue.receive(other, limit=10, visibility=LONG, wait=NO_WAIT) == []
    [message] = queues.receive_all(1)
    queues.queue.delete(other, [message.receipt])
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=1, dead=0))


def test_a_batch_larger_than_one_call_arrives_whole_in_any_order(queues: QueueHarness) -> None:
    send_numbers(queues, 57)
    received = queues.receive_all(57)
    assert numbers(received) == list(range(57))
    queues.queue.delete(queues.name, [message.receipt for message in received])
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))


def test_a_receive_takes_no_more_than_its_limit(queues: QueueHarness) -> None:
    send_numbers(queues, 8)
    assert len(queues.receive(limit=3)) <= 3


def test_a_limit_below_one_is_refused(queues: QueueHarness) -> None:
    with pytest.raises(Invalid):
        queues.receive(limit=0)


def test_a_message_in_flight_is_hidden(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    queues.receive_all(1, visibility=LONG)
    assert queues.receive() == []
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=1, dead=0))


def test_a_message_not_deleted_in_time_comes_back(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    [first] = queues.receive_all(1, visibility=queues.visibility)
    queues.let_pass(queues.visibility * 1.1)
    [second] = queues.receive_all(1)
    assert second.body == first.body
    assert (first.receive_count, second.receive_count) == (1, 2)


def test_each_receive_has_a_receipt_of_its_own(queues: QueueHarness) -> None:
    send_numbers(queues, 2)
    first = queues.receive_all(2, visibility=queues.visibility)
    queues.let_pass(queues.visibility * 1.1)
    second = queues.receive_all(2)
    assert len({message.receipt for message in first + second}) == 4


def test_a_receipt_is_stale_after_the_next_receive(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    [first] = queues.receive_all(1, visibility=queues.visibility)
    queues.let_pass(queues.visibility * 1.1)
    [second] = queues.receive_all(1, visibility=LONG)
    queues.queue.delete(queues.name, [first.receipt])
    queues.queue.extend(queues.name, first.receipt, NO_WAIT)
    if queues.exact_receipts:
        assert queues.receive() == []
        assert queues.depth_becomes(QueueDepth(visible=0, in_flight=1, dead=0))
    queues.queue.delete(queues.name, [second.receipt])
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))


def test_a_delete_with_stale_and_current_receipts_takes_the_current_ones(
    queues: QueueHarness,
) -> None:
    send_numbers(queues, 3)
    first = queues.receive_all(3, visibility=queues.visibility)
    queues.let_pass(queues.visibility * 1.1)
    second = queues.receive_all(2)
    queues.queue.delete(queues.name, [message.receipt for message in first + second])
    # Deleting the two and the third, whose first receive is still its last.
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))


def test_a_stale_receipt_is_not_helped_by_a_current_one_beside_it(queues: QueueHarness) -> None:
    send_numbers(queues, 2)
    first = queues.receive_all(2, visibility=queues.visibility)
    queues.let_pass(queues.visibility * 1.1)
    second = queues.receive_all(2)
    stale = [message.receipt for message in first if message.body == {"number": 0}]
    current = [message.receipt for message in second if message.body == {"number": 1}]
    queues.queue.delete(queues.name, stale + current)
    left = 1 if queues.exact_receipts else 0
    assert queues.becomes(lambda: queues.queue.depth(queues.name).in_flight in (left, 1))


def test_deleting_twice_is_no_error(queues: QueueHarness) -> None:
    send_numbers(queues, 2)
    received = queues.receive_all(2)
    receipts = [message.receipt for message in received]
    queues.queue.delete(queues.name, receipts)
    queues.queue.delete(queues.name, receipts)
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))


def test_what_never_was_a_receipt_is_ignored(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    queues.queue.delete(queues.name, ["", "nonsense", "\0", "0" * 32 + "." + "0" * 32])
    queues.queue.extend(queues.name, "nonsense", LONG)
    assert numbers(queues.receive_all(1)) == [0]


def test_an_extended_message_stays_hidden(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    [message] = queues.receive_all(1, visibility=queues.visibility)
    queues.queue.extend(queues.name, message.receipt, LONG)
    queues.let_pass(queues.visibility * 1.1)
    assert queues.receive() == []
    queues.queue.delete(queues.name, [message.receipt])
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))


def test_a_message_extended_by_nothing_comes_back_at_once(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    [message] = queues.receive_all(1, visibility=LONG)
    queues.queue.extend(queues.name, message.receipt, NO_WAIT)
    assert numbers(queues.receive_all(1)) == [0]


def test_a_message_dies_after_its_last_allowed_receive(queues: QueueHarness) -> None:
    send_numbers(queues, 2)
    wear_out(queues, 2)
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=2))


def test_dying_messages_do_not_hide_live_ones_behind_them(queues: QueueHarness) -> None:
    send_numbers(queues, 3)
    for _ in range(queues.max_receives):
        queues.receive_all(3, visibility=queues.visibility)
        queues.let_pass(queues.visibility * 1.1)
    queues.queue.send(queues.name, [{"number": 99}])
    assert numbers(queues.receive_all(1)) == [99]


def test_a_redriven_message_gets_all_its_receives_again(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    wear_out(queues, 1)
    assert queues.becomes(lambda: queues.queue.redrive(queues.name, limit=10) == 1)
    for count in range(1, queues.max_receives + 1):
        [message] = queues.receive_all(1, visibility=queues.visibility)
        assert (message.body, message.receive_count) == ({"number": 0}, count)
        queues.let_pass(queues.visibility * 1.1)
    assert queues.becomes(lambda: is_dead(queues, 1))
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=1))


def test_a_redrive_moves_no_more_than_its_limit(queues: QueueHarness) -> None:
    send_numbers(queues, 3)
    wear_out(queues, 3)
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=3))
    assert queues.queue.redrive(queues.name, limit=2) == 2
    assert queues.depth_becomes(QueueDepth(visible=2, in_flight=0, dead=1))
    assert queues.queue.redrive(queues.name, limit=2) == 1
    assert queues.queue.redrive(queues.name, limit=2) == 0
    assert numbers(queues.receive_all(3)) == [0, 1, 2]


def test_depth_counts_what_waits_and_what_is_in_flight(queues: QueueHarness) -> None:
    send_numbers(queues, 5)
    queues.receive_all(2)
    assert queues.depth_becomes(QueueDepth(visible=3, in_flight=2, dead=0))


def test_a_long_poll_ends_when_a_message_arrives(queues: QueueHarness) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            queues.queue.receive, queues.name, limit=1, visibility=LONG, wait=timedelta(seconds=20)
        )
        time.sleep(0.3)
        assert not waiting.done()
        sent = time.monotonic()
        send_numbers(queues, 1)
        assert numbers(waiting.result(timeout=20)) == [0]
        assert time.monotonic() - sent < queues.wakes_within.total_seconds()


def test_a_long_poll_gives_up_after_its_time(queues: QueueHarness) -> None:
    wait = max(queues.visibility, timedelta(milliseconds=300))
    started = time.monotonic()
    assert queues.queue.receive(queues.name, limit=1, visibility=LONG, wait=wait) == []
    assert wait.total_seconds() * 0.9 < time.monotonic() - started < wait.total_seconds() + 2


def test_a_long_poll_sees_a_message_that_comes_back(queues: QueueHarness) -> None:
    send_numbers(queues, 1)
    queues.receive_all(1, visibility=queues.visibility)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            queues.queue.receive, queues.name, limit=1, visibility=LONG, wait=timedelta(seconds=20)
        )
        queues.let_pass(queues.visibility * 1.1)
        [message] = waiting.result(timeout=4)
    assert message.receive_count == 2


def test_several_waiting_receivers_share_what_arrives(queues: QueueHarness) -> None:
    with ThreadPoolExecutor(4) as pool:
        waiting = [
            pool.submit(
                queues.queue.receive,
                queues.name,
                limit=1,
                visibility=LONG,
                wait=timedelta(seconds=9),
            )
            for _ in range(4)
        ]
        time.sleep(0.1)
        send_numbers(queues, 4)
        received = [message for future in waiting for message in future.result(timeout=12)]
    assert numbers(received) == [0, 1, 2, 3]


def test_concurrent_receivers_never_share_a_message_in_flight(queues: QueueHarness) -> None:
    send_numbers(queues, 200)
    received: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        while True:
            messages = queues.receive(limit=7)
            with lock:
                received.extend(message.body["number"] for message in messages)
                if len(received) >= 200:
                    return
            queues.queue.delete(queues.name, [message.receipt for message in messages[::2]])

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work) for _ in range(8)]:
            future.result(timeout=30)
    assert sorted(received) == list(range(200))


def test_senders_and_receivers_at_once_lose_nothing(queues: QueueHarness) -> None:
    done: set[int] = set()
    lock = threading.Lock()

    def send(start: int) -> None:
        for number in range(start, start + 40):
            queues.queue.send(queues.name, [{"number": number}])

    def receive() -> None:
        while len(done) < 120:
            messages = queues.queue.receive(
                queues.name, limit=10, visibility=LONG, wait=timedelta(milliseconds=100)
            )
            queues.queue.delete(queues.name, [message.receipt for message in messages])
            with lock:
                done.update(message.body["number"] for message in messages)

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(send, start) for start in (0, 40, 80)]
        futures += [pool.submit(receive) for _ in range(3)]
        for future in futures:
            future.result(timeout=30)
    assert done == set(range(120))
    assert queues.depth_becomes(QueueDepth(visible=0, in_flight=0, dead=0))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": "žluťoučký 你好 🦀 \u202e \x00 \x7f \ud800 end"},
        {"nested": {"list": [1, 2.5, -0.0, None, True, {"deep": [[[[]]]]}]}},
        {"quotes": "\"'\\ %s %(now)s {} $1 ;--\n\r\t"},
        {"number": 2**53 - 1, "negative": -(2**53), "empty": ""},
        {"": "an empty name"},
    ],
)
def test_a_body_arrives_as_it_was_sent(queues: QueueHarness, body: dict[str, Any]) -> None:
    queues.queue.send(queues.name, [body])
    assert queues.receive_all(1)[0].body == body


def test_a_body_of_exactly_the_limit_is_sent(queues: QueueHarness) -> None:
    body = {"text": "x" * (QUEUE_MESSAGE_MAX - len('{"text":""}'))}
    queues.queue.send(queues.name, [body])
    assert queues.receive_all(1)[0].body == body


def test_an_oversize_body_is_refused_and_nothing_of_its_batch_is_sent(
    queues: QueueHarness,
) -> None:
    oversize = {"text": "x" * (QUEUE_MESSAGE_MAX - len('{"text":""}') + 1)}
    with pytest.raises(TooLarge):
        queues.queue.send(queues.name, [{"number": 1}, oversize, {"number": 2}])
    assert queues.receive() == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}, object()])
def test_a_body_that_is_not_json_is_refused(queues: QueueHarness, value: object) -> None:
    with pytest.raises(Invalid):
        queues.queue.send(queues.name, [{"number": 1}, {"value": value}])
    assert queues.receive() == []


@pytest.mark.parametrize("name", ["", "a b", "a\n", "a/b", "ž", "x" * 81])
def test_a_name_that_no_queue_can_have_is_refused(queues: QueueHarness, name: str) -> None:
    with pytest.raises(Invalid):
        queues.queue.send(name, [{}])
    with pytest.raises(Invalid):
        queues.queue.depth(name)


def test_an_outage_is_unavailable_and_passes(queues: QueueHarness) -> None:
    send_numbers(queues, 2)
    with queues.outage(), pytest.raises(Unavailable):
        queues.receive()

    def works_again() -> bool:
        try:
            return queues.queue.depth(queues.name).visible == 2
        except Unavailable:
            return False

    assert queues.becomes(works_again)
    assert numbers(queues.receive_all(2)) == [0, 1]


def test_a_long_poll_works_again_after_an_outage(queues: QueueHarness) -> None:
    assert queues.queue.receive(queues.name, limit=1, visibility=LONG, wait=queues.visibility) == []
    with queues.outage(), pytest.raises(Unavailable):
        queues.receive()

    def sent() -> bool:
        try:
            send_numbers(queues, 1)
        except Unavailable:
            return False
        return True

    assert queues.becomes(sent)
    received = queues.queue.receive(
        queues.name, limit=1, visibility=LONG, wait=timedelta(seconds=10)
    )
    assert numbers(received) == [0]
