"""What the client makes of answers that a real node gives on a bad day only."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trace_chain import errors
from trace_chain.rpc import Rpc

Reply = Callable[[BaseHTTPRequestHandler, Any], None]


class Played:
    """A server that answers as the test says; it counts connections and requests."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[Any] = []
        self.replies: list[Reply] = []
        played = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                played.connections += 1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                played.requests.append(body)
                (played.replies.pop(0) if played.replies else echo)(self, body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/secret-token"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


def send(handler: BaseHTTPRequestHandler, status: int, data: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def answer(value: Any) -> Reply:
    return lambda handler, _: send(handler, 200, json.dumps(value).encode())


def status(code: int, **headers: str) -> Reply:
    return lambda handler, _: send(handler, code, b"no", **headers)


def echo(handler: BaseHTTPRequestHandler, body: Any) -> None:
    calls = body if isinstance(body, list) else [body]
    found = [{"jsonrpc": "2.0", "id": each["id"], "result": each["method"]} for each in calls]
    # A batch may be answered in any order.
    send(handler, 200, json.dumps(found[::-1] if isinstance(body, list) else found[0]).encode())


def hang_up(handler: BaseHTTPRequestHandler, _: Any) -> None:
    handler.close_connection = True


def late(handler: BaseHTTPRequestHandler, body: Any) -> None:
    time.sleep(0.5)
    handler.close_connection = True


@pytest.fixture
def played() -> Iterator[Played]:
    server = Played()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def rpc(played: Played) -> Iterator[Rpc]:
    with Rpc(played.url, timeout=0.3, answer_max=1000) as client:
        yield client


def test_answers_of_a_batch_are_put_in_order_over_one_connection(played: Played, rpc: Rpc) -> None:
    for _ in range(3):
        assert rpc.batch([("a", ()), ("b", ()), ("c", ())]) == ["a", "b", "c"]
    assert rpc.call("d") == "d"
    assert rpc.batch([]) == []
    assert played.connections == 1


def error(code: int, message: str) -> Reply:
    return answer({"id": 0, "error": {"code": code, "message": message}})


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (status(429), errors.RateLimited),
        (error(-32005, "slow down"), errors.RateLimited),
        (error(-32000, "Too Many Requests"), errors.RateLimited),
        (error(-32601, "no such"), errors.MethodMissing),
        (error(-32000, "the method eth_x does not exist"), errors.MethodMissing),
        (error(-32000, "header not found"), errors.Lagging),
        (error(-32000, "block #0x5 does not exist"), errors.Lagging),
        (error(-32000, "out of cheese"), errors.RpcFailed),
        (status(401), errors.RpcFailed),
        (status(413), errors.AnswerTooLarge),
        (status(503), errors.NodeAway),
        (hang_up, errors.NodeAway),
        (late, errors.NodeAway),
        (answer("x" * 2000), errors.AnswerTooLarge),
        (answer([]), errors.Malformed),
        (answer({"id": 0}), errors.Malformed),
        (answer([{"id": 7, "result": 1}]), errors.Malformed),
        (answer([{"id": [0], "result": 1}]), errors.Malformed),
        (answer({"id": {}, "result": 1}), errors.Malformed),
        (answer({"id": False, "result": 1}), errors.Malformed),
        (lambda handler, _: send(handler, 200, b"<html>"), errors.Malformed),
    ],
)  # fmt: skip
def test_each_fault_has_a_type_of_its_own_and_the_next_call_works(
    played: Played, rpc: Rpc, reply: Reply, kind: type[errors.ChainError]
) -> None:
    played.replies = [reply]
    with pytest.raises(errors.ProviderFault) as caught:
        rpc.call("first")
    assert type(caught.value) is kind
    assert caught.value.retryable
    assert "secret-token" not in str(caught.value)
    assert rpc.call("second") == "second"


def test_an_answer_of_boxes_in_boxes_is_malformed(played: Played) -> None:
    played.replies = [lambda handler, _: send(handler, 200, b"[" * 100_000)]
    with Rpc(played.url, timeout=5) as client, pytest.raises(errors.Malformed):
        client.call("first")


def test_patience_that_is_asked_for_is_told(played: Played, rpc: Rpc) -> None:
    played.replies = [status(429, Retry_After="7")]
    with pytest.raises(errors.RateLimited) as caught:
        rpc.call("x")
    assert caught.value.retry_after == 7


def test_one_error_may_stand_for_a_whole_batch(played: Played, rpc: Rpc) -> None:
    played.replies = [error(-32005, "batch limit")]
    with pytest.raises(errors.RateLimited):
        rpc.batch([("a", ()), ("b", ())])


def test_an_error_in_a_batch_can_be_looked_at(played: Played, rpc: Rpc) -> None:
    played.replies = [
        answer([{"id": 0, "result": 1}, {"id": 1, "error": {"code": -32601, "message": "no"}}])
    ]
    good, bad = rpc.try_batch([("a", ()), ("b", ())])
    assert good == 1
    assert isinstance(bad, errors.MethodMissing)


def test_a_connection_that_was_closed_while_idle_is_opened_anew(played: Played, rpc: Rpc) -> None:
    assert rpc.call("a") == "a"
    played.replies = [hang_up]
    assert rpc.call("b") == "b"
    assert [each["method"] for each in played.requests] == ["a", "b", "b"]


def test_a_node_that_is_not_there_is_said_without_its_address(played: Played) -> None:
    played.server.shutdown()
    played.server.server_close()
    with Rpc(played.url, timeout=0.3) as rpc, pytest.raises(errors.NodeAway) as caught:
        rpc.call("a")
    assert "secret-token" not in str(caught.value)


def test_reading_ahead_keeps_order_and_stops_at_the_first_error(rpc: Rpc) -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 5:
            raise errors.NodeAway("gone")
        return number

    got = []
    with pytest.raises(errors.NodeAway):
        for each in rpc.ahead(work, range(1000)):
            got.append(each)
    assert got == [0, 1, 2, 3, 4]
    assert len(begun) < 20
