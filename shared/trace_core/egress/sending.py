"""Sends one request to one upstream: keep-alive connections, retries, limits, counts."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

from trace_core.egress.addresses import NotAllowed, resolve
from trace_core.egress.model import Upstream
from trace_core.egress.pace import Overdue, Pace
from trace_core.egress.usage import Counter, Fault
from trace_core.kernel.backoff import Jitter, delay

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_CAP = timedelta(seconds=15)
_IDLE_SECONDS = 20.0
_KEY_MIN = 8
_LOOKS_AFTER = 0.005


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = field(repr=False)
    content_type: str = "application/json"


class GivenUp(Exception):
    """The upstream did not answer in time or at all. Its words and its key stay out of this."""

    def __init__(self, fault: Fault | None, what: str, status: int) -> None:
        super().__init__(what)
        self.fault, self.what, self.status = fault, what, status


class _Failed(Exception):
    """One try came to nothing."""

    def __init__(
        self, fault: Fault, what: str, *, again: bool, rest: float = 0.0, status: int | None = None
    ) -> None:
        super().__init__(what)
        self.fault, self.what, self.again, self.rest = fault, what, again, rest
        self.status = status
        """What it answered, if it did."""


class _Abandoned(Exception):
    """Nobody waits for the answer any more."""


class Sender:
    """One upstream with one key, for all threads of this process."""

    def __init__(
        self, name: str, upstream: Upstream, key: str, *, pace: Pace, jitter: Jitter,
        now: Callable[[], datetime], sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._name, self._upstream = name, upstream
        self._target, self._headers = upstream.target(key), upstream.headers(key)
        self._key_forms = _forms(key)
        self._pace, self._jitter, self._now, self._sleep = pace, jitter, now, sleep
        parts = urlsplit(upstream.url)
        self._host = parts.hostname or ""
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._idle: deque[tuple[float, _Connection]] = deque()

    def send(
        self, body: bytes, headers: Mapping[str, str], counter: Counter, deadline: float,
        abandoned: Callable[[], bool] = lambda: False,
    ) -> Answer:  # fmt: skip
        """Raises `GivenUp` when the deadline or the retries are over, or whoever asked is gone."""
        limits = self._upstream.limits
        began = time.monotonic()
        deadline = min(deadline, began + limits.deadline_seconds)
        retries = rate_limited = 0
        fault: Fault | None = None
        last: _Failed | None = None
        received = 0
        try:
            while True:
                try:
                    answer = self._try(body, headers, began, deadline, abandoned)
                    received = len(answer.body)
                    return answer
                except _Abandoned:
                    if last is None:
                        what = f"upstream {self._name}: nobody waits for it any more"
                        raise GivenUp(None, what, 502) from None
                    fault = last.fault
                    raise self._given_up(last, retries - 1) from None
                except _Failed as failed:
                    last = failed
                    rate_limited += failed.status == 429
                    wait = delay(
                        timedelta(seconds=limits.retry_seconds), _CAP, retries, self._jitter
                    ).total_seconds()
                    wait = max(wait, failed.rest)
                    over = time.monotonic() + wait >= deadline
                    if not failed.again or retries >= limits.retries or over:
                        fault = failed.fault
                        raise self._given_up(failed, retries) from None
                    retries += 1
                    self._sleep(wait)
        finally:
            counter.add(
                fault, requests=1, retries=retries, rate_limited=rate_limited,
                errors=int(fault is not None), bytes=received,
                latency_ms=round((time.monotonic() - began) * 1000),
            )  # fmt: skip

    def _given_up(self, failed: _Failed, retries: int) -> GivenUp:
        status = {Fault.RATE_LIMITED: 429, Fault.TIMED_OUT: 504}.get(failed.fault, 502)
        tries = f"{retries + 1} {'try' if retries == 0 else 'tries'}"
        return GivenUp(failed.fault, f"upstream {self._name}: {failed.what}, {tries}", status)

    def _try(
        self, body: bytes, headers: Mapping[str, str], began: float, deadline: float,
        abandoned: Callable[[], bool],
    ) -> Answer:  # fmt: skip
        try:
            with self._pace.turn(deadline):
                # Not asked of those that go at once, which are nearly all.
                if time.monotonic() - began >= _LOOKS_AFTER and abandoned():
                    raise _Abandoned
                return self._exchange(body, headers, deadline)
        except Overdue:
            raise _Failed(Fault.RATE_LIMITED, "no turn within its limits", again=False) from None
        except NotAllowed:
            raise _Failed(
                Fault.UNREACHABLE, "its name leads to a private address", again=False
            ) from None
        except TimeoutError:
            raise _Failed(Fault.TIMED_OUT, "no answer in time", again=True) from None
        except (OSError, http.client.HTTPException) as error:
            what = f"no connection ({type(error).__name__})"
            raise _Failed(Fault.UNREACHABLE, what, again=True) from None

    def _exchange(self, body: bytes, headers: Mapping[str, str], deadline: float) -> Answer:
        limits = self._upstream.limits
        timeout = max(0.001, min(limits.timeout_seconds, deadline - time.monotonic()))
        ends = time.monotonic() + timeout
        connection = self._connection(timeout)
        try:
            response = self._request(connection, body, headers)
            if response is None:
                # Closed while it was idle, before it took anything: that is no try.
                connection.close()
                connection = self._connect(timeout)
                response = self._request(connection, body, headers)
                if response is None:
                    raise http.client.RemoteDisconnected("")
            answer = self._read(connection, response, ends)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return self._judged(answer, response)

    def _request(
        self, connection: _Connection, body: bytes, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse | None:
        try:
            connection.request("POST", self._target, body, {**headers, **self._headers})
            return connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if connection.used:
                return None
            raise
        finally:
            connection.used = True

    def _read(
        self, connection: _Connection, response: http.client.HTTPResponse, ends: float
    ) -> Answer:
        limit = self._upstream.limits.response_bytes
        pieces: list[bytes] = []
        size = 0
        while piece := response.read1(256 * 1024):
            size += len(piece)
            if size > limit:
                raise _Failed(Fault.TOO_LARGE, f"an answer over {limit} bytes", again=False)
            pieces.append(piece)
            left = ends - time.monotonic()
            if left <= 0:
                # Byte by byte, an answer could go on for ever.
                raise TimeoutError
            if connection.sock is not None:
                connection.sock.settimeout(left)
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        # Read to its end, it leaves the connection to the next request.
        response.close()
        if (response.getheader("Content-Encoding") or "identity").lower() != "identity":
            # Nobody asked for it, and what is in it could not be looked through.
            raise _Failed(Fault.SERVER_ERROR, "its answer is compressed", again=False)
        content_type = response.getheader("Content-Type") or "application/octet-stream"
        return Answer(
            response.status, self._without_key(b"".join(pieces)),
            self._without_key(content_type.encode("latin-1", "replace")).decode("latin-1"),
        )  # fmt: skip

    def _without_key(self, data: bytes) -> bytes:
        """Some providers name the key in what they say, and the operator must not learn it so."""
        for form in self._key_forms:
            if form in data:
                data = data.replace(form, b"***")
        return data

    def _judged(self, answer: Answer, response: http.client.HTTPResponse) -> Answer:
        status = answer.status
        if status == 429:
            rest = self._rest(response)
            if rest:
                self._pace.hold_back(rest)
            what = "too many requests (429)"
            raise _Failed(Fault.RATE_LIMITED, what, again=True, rest=rest, status=status)
        if status in _AGAIN:
            rest = self._rest(response)
            raise _Failed(Fault.SERVER_ERROR, f"it answered {status}", again=True, rest=rest)
        if status >= 500:
            raise _Failed(Fault.SERVER_ERROR, f"it answered {status}", again=False)
        if status in (401, 403):
            raise _Failed(Fault.REFUSED_KEY, f"it refused the key ({status})", again=False)
        if 300 <= status < 400:
            # Where it leads was never checked, and the key must not go there.
            raise _Failed(Fault.SERVER_ERROR, f"it redirects ({status})", again=False)
        return answer

    def _rest(self, response: http.client.HTTPResponse) -> float:
        """`Retry-After`, in seconds or as a date."""
        text = (response.getheader("Retry-After") or "").strip()
        if text.isascii() and text.isdigit():
            return min(float(text[:6]), 3600.0)
        try:
            at = email.utils.parsedate_to_datetime(text)
        except (TypeError, ValueError, OverflowError):
            return 0.0
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return min(max(0.0, (at - self._now()).total_seconds()), 3600.0)

    def _keep(self, connection: _Connection) -> None:
        now = time.monotonic()
        self._idle.append((now, connection))
        # The last ones are taken first, so those of a burst stay at the other end, and the
        # provider has hung up on them. Another thread may be here too: then it is its turn.
        with contextlib.suppress(IndexError):
            if now - self._idle[0][0] >= _IDLE_SECONDS:
                since, oldest = self._idle.popleft()
                if now - since >= _IDLE_SECONDS:
                    oldest.close()
                else:
                    self._idle.appendleft((since, oldest))

    def _connection(self, timeout: float) -> _Connection:
        while True:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                return self._connect(timeout)
            if time.monotonic() - since < _IDLE_SECONDS and connection.sock is not None:
                connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def _connect(self, timeout: float) -> _Connection:
        # Asked again for each connection: what the name means may have changed.
        address = resolve(self._host, self._port, allow_private=self._upstream.allow_private)
        connection = _Connection(self._host, self._port, address, self._tls, timeout)
        connection.connect()
        return connection

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()


def _forms(key: str) -> list[bytes]:
    """How an answer may have it: as it is, as in an address, as in JSON."""
    if len(key) < _KEY_MIN:
        # Honest answers would have it too.
        return []
    return [each.encode() for each in {key, quote(key, safe=""), json.dumps(key)[1:-1]}]


class _Connection(http.client.HTTPConnection):
    """To the address that was checked, under the name that was asked for."""

    def __init__(
        self, host: str, port: int, address: str, tls: ssl.SSLContext | None, timeout: float
    ) -> None:
        super().__init__(host, port, timeout=timeout)
        self.default_port = 443 if tls else 80
        self._address, self._tls = address, tls
        self.used = False

    def connect(self) -> None:
        connected = socket.create_connection((self._address, self.port), self.timeout)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connected = self._tls.wrap_socket(connected, server_hostname=self.host)
        self.sock = connected
