"""What operators see of an upstream, and what they do not."""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.unit.egress.provider import Provider, gateway, provider, upstream
from tests.unit.worker.platform_for_tests import eventually
from trace_core.egress.gateway import EgressGateway
from trace_core.egress.usage import Fault
from trace_core.kernel.errors import Rejected

KEY = "canary-5f0c1d9e"
ENV = {"RPC_UPSTREAM": "main", "RPC_KEY": KEY, "OTHER": "stays"}


@pytest.fixture
def main() -> Iterator[Provider]:
    with provider() as made:
        yield made


def call(
    url: str, body: bytes = b'{"id":1}', *, method: str = "POST", path: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:  # fmt: skip
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request(method, path or parts.path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def code(answer: tuple[int, bytes]) -> str:
    return str(json.loads(answer[1])["error"]["code"])


def test_an_operator_gets_an_address_in_the_place_of_the_key(main: Provider) -> None:
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        assert KEY not in str(opened.env)
        assert opened.env["OTHER"] == "stays"
        assert opened.env["RPC_UPSTREAM"] == "main"
        assert call(opened.env["RPC_URL"]) == (200, b'{"ok":true}')
    path, _, body = main.seen[0]
    assert (path, body) == (f"/v2/{KEY}", b'{"id":1}')


def test_a_key_may_go_into_a_header(main: Provider) -> None:
    by_header = upstream(main, url=f"{main.url}/rpc", header="Authorization", value="Bearer {key}")
    with gateway(main=by_header) as egress, egress.opened(ENV, 60) as opened:
        call(opened.env["RPC_URL"], headers={"Authorization": "Bearer mine", "Cookie": "a=b"})
    path, headers, _ = main.seen[0]
    assert (path, headers["Authorization"]) == ("/rpc", f"Bearer {KEY}")
    assert "Cookie" not in headers


def test_one_slot_may_name_several_upstreams(main: Provider) -> None:
    with provider() as second:
        upstreams = {"main": upstream(main), "second": upstream(second)}
        env = {**ENV, "B_UPSTREAM": "second", "B_KEY": "other-key"}
        with gateway(**upstreams) as egress, egress.opened(env, 60) as opened:
            call(opened.env["RPC_URL"])
            call(opened.env["B_URL"])
            assert "B_KEY" not in opened.env
        assert (main.seen[0][0], second.seen[0][0]) == (f"/v2/{KEY}", "/v2/other-key")


def test_there_is_no_way_to_anything_else(main: Provider) -> None:
    with provider() as other, gateway(main=upstream(main)) as egress:
        with egress.opened(ENV, 60) as opened:
            url = opened.env["RPC_URL"]
            token = urlsplit(url).path
            for path in ("/", "/guess", f"{token}/more", f"{token}?x=1", f"{other.url}/", "*"):
                assert call(url, path=path)[0] == 404, path
            assert call(url, method="GET", body=b"")[0] == 405
            assert call(url, method="CONNECT", body=b"")[0] == 405
            # A Host header of the caller's changes nothing.
            assert call(url, headers={"Host": urlsplit(other.url).netloc})[0] == 200
        assert not other.seen
        assert call(url)[0] == 404, "an attempt's address ends with it"


def test_an_address_ends_with_the_attempts_time(main: Provider) -> None:
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 0.05) as opened:
        time.sleep(0.1)
        assert call(opened.env["RPC_URL"])[0] == 404
    assert not main.seen


def test_attempts_have_addresses_of_their_own(main: Provider) -> None:
    with (
        gateway(main=upstream(main)) as egress,
        egress.opened(ENV, 60) as one,
        egress.opened(ENV, 60) as other,
    ):
        assert one.env["RPC_URL"] != other.env["RPC_URL"]
        call(one.env["RPC_URL"])
        call(one.env["RPC_URL"])
        call(other.env["RPC_URL"])
        assert (one.usage.requests, other.usage.requests) == (2, 1)
        assert egress.used["main"].requests == 3


def test_connections_are_kept_and_a_closed_one_is_no_failure(main: Provider) -> None:
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        for _ in range(5):
            call(opened.env["RPC_URL"])
        assert main.connections == 1
        main.answers(Connection="close")
        for _ in range(3):
            assert call(opened.env["RPC_URL"])[0] == 200
        assert main.connections == 2
        assert opened.usage.errors == 0


def test_connections_of_a_burst_do_not_stay_for_good(main: Provider) -> None:
    class Idle:
        closed = False

        def close(self) -> None:
            self.closed = True

    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        call(opened.env["RPC_URL"])
        of_the_burst, kept = [Idle(), Idle()], egress._senders["main", KEY]._idle
        for each in of_the_burst:
            kept.appendleft((time.monotonic() - 3600, each))  # type: ignore[arg-type]
        for _ in of_the_burst:
            call(opened.env["RPC_URL"])
        assert all(each.closed for each in of_the_burst)
        assert len(kept) == 1
    assert main.connections == 1


def test_429_is_tried_again_after_what_the_provider_asks_for(main: Provider) -> None:
    main.answers(429, Retry_After="1")
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        began = time.monotonic()
        assert call(opened.env["RPC_URL"])[0] == 200
        assert time.monotonic() - began >= 0.95
        usage = opened.usage
        assert (usage.requests, usage.retries, usage.rate_limited, usage.errors) == (1, 1, 1, 0)
        assert opened.last_fault is None


def test_retry_after_may_be_a_date(main: Provider) -> None:
    main.answers(429, Retry_After=format_datetime(datetime.now(UTC) + timedelta(hours=1)))
    limits = {"deadline_seconds": 2}
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        # An hour does not fit into the deadline, so it is given up at once.
        began = time.monotonic()
        assert code(call(opened.env["RPC_URL"])) == "rate_limited"
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("said", ["soon", "Wed, 21 Oct 2015 07:28:00 +9999999999999999", "-5"])
def test_a_retry_after_that_makes_no_sense_asks_for_no_rest(main: Provider, said: str) -> None:
    main.answers(429, Retry_After=said)
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        assert call(opened.env["RPC_URL"])[0] == 200


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_what_passes_is_tried_again(main: Provider, status: int) -> None:
    main.answers(status)
    main.answers(status)
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        assert call(opened.env["RPC_URL"])[0] == 200
        assert opened.usage.retries == 2


def test_a_provider_that_says_no_is_given_up_and_blamed(main: Provider) -> None:
    limits = {"retries": 2}
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        for _ in range(3):
            main.answers(429)
        answer = call(opened.env["RPC_URL"])
        assert (answer[0], code(answer)) == (429, "rate_limited")
        assert opened.last_fault is Fault.RATE_LIMITED
        assert opened.usage.errors == 1
        for _ in range(3):
            main.answers(503)
        answer = call(opened.env["RPC_URL"])
        assert (answer[0], code(answer)) == (502, "server_error")
        assert call(opened.env["RPC_URL"])[0] == 200
        # What was given up stays given up, whatever is answered later.
        assert opened.last_fault is Fault.SERVER_ERROR


def test_what_is_the_callers_own_fault_goes_back_to_it(main: Provider) -> None:
    main.answers(400, b'{"error":{"code":-32602}}')
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        assert call(opened.env["RPC_URL"]) == (400, b'{"error":{"code":-32602}}')
        assert (opened.usage.errors, opened.usage.retries) == (0, 0)


def test_a_provider_that_is_silent_is_timed_out(main: Provider) -> None:
    main.answers(wait=1.0)
    limits = {"timeout_seconds": 0.1, "retries": 0}
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        answer = call(opened.env["RPC_URL"])
        assert (answer[0], code(answer)) == (504, "timed_out")


def test_a_redirect_is_not_followed(main: Provider) -> None:
    with provider() as other:
        main.answers(307, Location=f"{other.url}/steal")
        with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
            assert call(opened.env["RPC_URL"])[0] == 502
        assert not other.seen


def test_an_answer_that_is_too_large_is_given_up(main: Provider) -> None:
    main.answers(body=b"x" * 5000)
    limits = {"response_bytes": 4096}
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        assert code(call(opened.env["RPC_URL"])) == "too_large"
        assert call(opened.env["RPC_URL"])[0] == 200


def test_a_request_that_is_too_large_is_refused(main: Provider) -> None:
    limits = {"request_bytes": 1024}
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        assert call(opened.env["RPC_URL"], b"x" * 1025)[0] == 413
        assert not main.seen


def test_so_many_at_once_and_so_many_a_second(main: Provider) -> None:
    limits = {"concurrency": 2, "requests_per_second": 20}
    for _ in range(30):
        main.answers(wait=0.02)
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        began = time.monotonic()
        threads = [threading.Thread(target=call, args=(opened.env["RPC_URL"],)) for _ in range(30)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        # A second's worth goes at once, the ten after it follow at their pace.
        assert time.monotonic() - began >= 0.45
        assert main.most_at_once <= 2
        assert opened.usage.requests == 30


def test_a_private_address_is_refused_unless_the_upstream_says_so(main: Provider) -> None:
    closed = upstream(main, allow_private=False, url=f"{main.url}/rpc")
    with gateway(main=closed) as egress, egress.opened(ENV, 60) as opened:
        answer = call(opened.env["RPC_URL"])
        assert (answer[0], code(answer)) == (502, "unreachable")
    assert not main.seen


def test_a_slot_may_not_name_what_the_worker_does_not_have(main: Provider) -> None:
    with (
        gateway(main=upstream(main)) as egress,
        pytest.raises(Rejected, match="upstream other, which this worker does not have"),
        egress.opened({"RPC_UPSTREAM": "other"}, 60),
    ):
        pass


def test_an_upstream_that_needs_a_key_says_so(main: Provider) -> None:
    with (
        gateway(main=upstream(main)) as egress,
        pytest.raises(Rejected, match="needs a key"),
        egress.opened({"RPC_UPSTREAM": "main"}, 60),
    ):
        pass


def test_a_key_with_a_line_break_is_refused_without_being_shown(main: Provider) -> None:
    with (
        gateway(main=upstream(main, url=main.url, header="X-Key")) as egress,
        pytest.raises(Rejected) as refused,
        egress.opened({**ENV, "RPC_KEY": f"{KEY}\r\nHost: elsewhere"}, 60),
    ):
        pass
    assert KEY not in refused.value.message


def test_a_key_is_in_no_log_and_no_answer(main: Provider, caplog: pytest.LogCaptureFixture) -> None:
    limits = {"retries": 1, "timeout_seconds": 0.2}
    by_path = upstream(main, limits=limits)
    away = upstream(main, url="http://127.0.0.1:9/v2/{key}", limits=limits)
    answers = []
    with caplog.at_level(logging.DEBUG), gateway(main=by_path, away=away) as egress:
        env = {**ENV, "B_UPSTREAM": "away", "B_KEY": KEY}
        with egress.opened(env, 60) as opened:
            for status in (401, 429, 429, 500, 500, 302):
                main.answers(status, KEY.encode(), Location=f"/{KEY}")
            answers += [call(opened.env["RPC_URL"]) for _ in range(4)]
            main.answers(wait=0.5)
            main.answers(wait=0.5)
            answers.append(call(opened.env["RPC_URL"]))
            answers.append(call(opened.env["B_URL"]))
            assert KEY not in repr(opened) + repr(egress)
    assert [status for status, _ in answers] == [502, 429, 502, 502, 504, 502]
    assert KEY not in str(answers)
    assert caplog.records
    assert KEY not in caplog.text
    assert opened.tokens[0] not in caplog.text


@pytest.mark.parametrize("status", [200, 400, 404])
def test_a_provider_that_repeats_the_key_does_not_tell_the_operator(
    main: Provider, status: int
) -> None:
    key = f"{KEY}/+ä"
    env = {**ENV, "RPC_KEY": key}
    with gateway(main=upstream(main)) as egress, egress.opened(env, 60) as opened:
        for said in (key, quote(key, safe=""), json.dumps(key)[1:-1]):
            main.answers(status, f'{{"error": "no app {said}, sorry"}}'.encode())
            assert call(opened.env["RPC_URL"]) == (status, b'{"error": "no app ***, sorry"}')


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [(socket.socket, "accept", OSError(errno.EMFILE, "too many")),
     (threading.Thread, "start", RuntimeError("no thread"))],
)  # fmt: skip
def test_a_connection_that_cannot_be_taken_is_not_the_end_of_the_gateway(
    main: Provider, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, error: Exception
) -> None:
    real, failing = getattr(owner, name), [True]

    def fails_once(self: Any, *args: Any) -> Any:
        if threading.current_thread().name == "trace-egress" and failing:
            failing.clear()
            raise error
        return real(self, *args)

    monkeypatch.setattr(owner, name, fails_once)
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        with contextlib.suppress(OSError):
            call(opened.env["RPC_URL"])
        assert not failing
        assert call(opened.env["RPC_URL"])[0] == 200


def begun(url: str) -> socket.socket:
    """A call whose answer nobody has read yet."""
    parts = urlsplit(url)
    connected = socket.create_connection((parts.hostname or "", parts.port or 0), 10)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n"
    connected.sendall(head.encode() + b"{}")
    return connected


def test_what_nobody_waits_for_any_more_is_not_tried_again(main: Provider) -> None:
    waiting: list[socket.socket] = []

    def hang_up() -> float:
        waiting.pop().close()
        return 0.5

    main.answers(503)
    made = EgressGateway({"main": upstream(main)}, jitter=hang_up)
    with made.opened(ENV, 60) as opened:
        waiting.append(begun(opened.env["RPC_URL"]))
        eventually(lambda: opened.usage.requests == 1)
    made.close()
    assert len(main.seen) == 1
    assert (opened.usage.errors, opened.last_fault) == (1, Fault.SERVER_ERROR)


def test_an_attempt_that_has_ended_leaves_no_retries(main: Provider) -> None:
    failed, ended = threading.Event(), threading.Event()

    def wait_for_the_end() -> float:
        failed.set()
        assert ended.wait(10)
        return 0.5

    main.answers(503)
    made = EgressGateway({"main": upstream(main)}, jitter=wait_for_the_end)
    with made.opened(ENV, 60) as opened:
        waiting = begun(opened.env["RPC_URL"])
        assert failed.wait(10)
    ended.set()
    eventually(lambda: made.used["main"].requests == 1)
    waiting.close()
    made.close()
    assert len(main.seen) == 1


def test_only_what_a_provider_answers_counts_as_429(main: Provider) -> None:
    limits = {"concurrency": 1, "deadline_seconds": 0.1}
    with gateway(main=upstream(main, limits=limits)) as egress, egress.opened(ENV, 60) as opened:
        with egress._paces["main"].turn(time.monotonic() + 10):
            answer = call(opened.env["RPC_URL"])
        assert (answer[0], code(answer)) == (429, "rate_limited")
        assert (opened.usage.rate_limited, opened.usage.errors) == (0, 1)
    assert not main.seen


def test_an_answer_that_cannot_be_looked_through_is_given_up(main: Provider) -> None:
    said = gzip.compress(KEY.encode())
    main.answers(400, said, Content_Encoding="gzip")
    with gateway(main=upstream(main)) as egress, egress.opened(ENV, 60) as opened:
        answer = call(opened.env["RPC_URL"], headers={"Accept-Encoding": "gzip"})
        assert (answer[0], code(answer)) == (502, "server_error")
    _, headers, _ = main.seen[0]
    assert headers["Accept-Encoding"] == "identity"


def test_a_worker_without_upstreams_gives_a_slot_as_it_is() -> None:
    env = {"RPC_UPSTREAM": "main", "RPC_URL": "http://127.0.0.1:8545", "OTHER_KEY": "its-own"}
    with EgressGateway({}).opened(env, 60) as opened:
        assert opened.env == env


def test_a_worker_without_upstreams_refuses_the_key_of_one() -> None:
    with pytest.raises(Rejected, match="RPC_KEY") as refused, EgressGateway({}).opened(ENV, 60):
        pass
    assert "TRACE_UPSTREAMS" in refused.value.message
    assert KEY not in refused.value.message
