"""The local server: what reaches the handler, and what is refused before."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from trace_core.adapters.lite import http_server
from trace_core.adapters.lite.http_server import LocalServer, PortTaken
from trace_core.kernel import limits


def echo(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    if event["path"] == "/fail":
        raise RuntimeError("secret")
    seen = {
        "method": event["httpMethod"],
        "path": event["path"],
        "query": event["queryStringParameters"],
        "headers": event["headers"],
        "size": len(event["body"] or ""),
    }
    headers = {"Content-Type": ["application/json"], "X-Answer": ["yes"]}
    return {"statusCode": 200, "multiValueHeaders": headers, "body": json.dumps(seen)}


@pytest.fixture
def server() -> Iterator[LocalServer]:
    server = LocalServer("echo", echo, 0)
    server.start()
    yield server
    server.stop()


def raw(server: LocalServer, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(65_536):
            answer += more
    return answer


def test_several_requests_travel_over_one_connection(server: LocalServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    for number in range(3):
        connection.request("POST", f"/a%20b?n={number}&n=9", b"{}", {"X-Name": "v"})
        response = connection.getresponse()
        seen = json.loads(response.read())
        assert (response.status, response.getheader("X-Answer")) == (200, "yes")
        assert (seen["path"], seen["query"], seen["size"]) == ("/a b", {"n": "9"}, 2)
        assert seen["headers"]["x-name"] == "v"
    connection.close()


def test_requests_sent_together_are_answered_in_order(server: LocalServer) -> None:
    one = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = raw(server, one % 1 + one % 2)
    assert answer.index(b'"/1"') < answer.index(b'"/2"')


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET x HTTP/1.1\r\n\r\n", 400),
        (b"PATCH / HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad name: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (limits.REQUEST_BODY_MAX + 1), 413),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\na: " + b"b" * http_server.HEAD_MAX + b"\r\n\r\n", 431),
    ],
)
def test_a_request_that_is_not_plain_http_does_not_reach_the_handler(
    server: LocalServer, request_bytes: bytes, status: int
) -> None:
    answer = raw(server, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close" in answer


def test_a_handler_that_raises_answers_500_and_no_more(server: LocalServer) -> None:
    answer = raw(server, b"GET /fail HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert answer.endswith(b'{"error":{"code":"Internal"}}')


def test_a_large_body_arrives_whole_after_100_continue(server: LocalServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        size = limits.REQUEST_BODY_MAX
        head = f"POST / HTTP/1.1\r\nContent-Length: {size}\r\nExpect: 100-continue\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"x" * size)
        assert f'"size": {size}'.encode() in connection.recv(65_536)


def test_a_port_in_use_is_one_clear_error(server: LocalServer) -> None:
    with pytest.raises(PortTaken, match=str(server.port)):
        LocalServer("second", echo, server.port)


def test_it_listens_on_loopback_only(server: LocalServer) -> None:
    assert server._listener.getsockname()[0] == "127.0.0.1"


def test_too_many_connections_are_refused_and_those_open_still_served(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_free", threading.Semaphore(1))
    first = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    first.request("GET", "/")
    first.getresponse().read()
    assert raw(server, b"").startswith(b"HTTP/1.1 503 ")
    first.request("GET", "/")
    assert first.getresponse().status == 200
    first.close()


def test_stopping_is_quick_with_idle_connections_and_lets_a_request_finish() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(event: dict[str, Any], context: Any) -> dict[str, Any]:
        entered.set()
        go_on.wait(5)
        return echo(event, context)

    server = LocalServer("slow", slow, 0)
    server.start()
    idle = socket.create_connection(("127.0.0.1", server.port), timeout=5)
    busy = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    busy.request("GET", "/")
    entered.wait(5)
    threading.Timer(0.2, go_on.set).start()
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 2
    assert busy.getresponse().status == 200
    assert idle.recv(1) == b""
    busy.close()
    idle.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)
