"""The keys of an issuer over real HTTP on loopback: by discovery, and no further."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.manual_clock import ManualClock
from trace_core.adapters.lite.development_issuer import DevelopmentIssuer
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.oidc_keys import OidcKeySource
from trace_core.kernel.errors import Invalid, Unavailable

KEYS = {"keys": [{"kid": "k"}]}
Answer = dict[str, Any]


def answer(body: object, status: int = 200, **headers: str) -> Answer:
    text = body if isinstance(body, str) else json.dumps(body)
    return {
        "statusCode": status,
        "body": text,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
    }


class Issuer:
    """Answers each path as the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.paths: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[str] = []
        self.server = LocalServer("issuer", self._handle, 0)
        self.url = self.server.url
        self.paths["/.well-known/openid-configuration"] = answer(
            {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        )
        self.paths["/keys"] = answer(KEYS)

    def _handle(self, event: dict[str, Any], _context: Any) -> Answer:
        self.asked.append(event["path"])
        found = self.paths.get(event["path"], answer({}, 404))
        return found() if callable(found) else found


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    found.server.start()
    yield found
    found.server.stop()


def test_the_keys_are_found_by_discovery(issuer: Issuer) -> None:
    assert OidcKeySource(issuer.url).fetch() == KEYS
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_a_given_address_needs_no_discovery(issuer: Issuer) -> None:
    assert OidcKeySource("https://login.example", f"{issuer.url}/keys").fetch() == KEYS
    assert issuer.asked == ["/keys"]


def test_the_development_issuer_is_discovered_like_any_other(tmp_path: Path) -> None:
    signer = KeyFileSigner(tmp_path / "issuer.pem")
    server = LocalServer("issuer", lambda *given: served.handler(*given), 0)
    served = DevelopmentIssuer(signer, ManualClock(), server.url, "trace")
    server.start()
    try:
        assert OidcKeySource(server.url).fetch() == signer.jwks() == served.fetch()
    finally:
        server.stop()


def test_a_redirect_on_the_same_host_is_followed(issuer: Issuer) -> None:
    issuer.paths["/keys"] = answer("", 302, Location="/newer?x=1")
    issuer.paths["/newer"] = answer("", 307, Location=f"{issuer.url}/newest")
    issuer.paths["/newest"] = answer(KEYS)
    assert OidcKeySource(issuer.url).fetch() == KEYS


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/keys",
        "http://127.0.0.1:1/keys",
        "//evil.example/keys",
        "http://localhost/keys",
        "file:///etc/passwd",
        "keys",
        "",
        "http://[",
    ],
)
def test_a_redirect_elsewhere_is_not_followed(issuer: Issuer, location: str) -> None:
    issuer.paths["/keys"] = answer("", 302, Location=location)
    with pytest.raises(Unavailable):
        OidcKeySource(issuer.url).fetch()


def test_redirects_end(issuer: Issuer) -> None:
    issuer.paths["/keys"] = answer("", 302, Location="/keys")
    with pytest.raises(Unavailable):
        OidcKeySource(issuer.url).fetch()
    assert len(issuer.asked) <= 4


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://other.example", "jwks_uri": "{url}/keys"},
        {"issuer": "{url}/", "jwks_uri": "{url}/keys"},
        {"jwks_uri": "{url}/keys"},
        {"issuer": "{url}"},
        {"issuer": "{url}", "jwks_uri": 1},
        {"issuer": "{url}", "jwks_uri": "http://keys.example/keys"},
        {"issuer": "{url}", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "{url}", "jwks_uri": "https://user:password@keys.example/"},
        [],
        "no JSON",
    ],
    ids=str,
)
def test_a_discovery_document_of_somebody_else_is_refused(issuer: Issuer, document: object) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    path = "/.well-known/openid-configuration"
    issuer.paths[path] = answer(text.replace("{url}", issuer.url))
    with pytest.raises(Unavailable):
        OidcKeySource(issuer.url).fetch()
    assert issuer.asked == [path]


@pytest.mark.parametrize(
    "bad",
    [
        answer(KEYS, 500),
        answer(KEYS, 404),
        answer("not JSON"),
        answer("[]"),
        answer("[" * 100_000),
        answer({"keys": [], "padding": "x" * 600_000}),
    ],
    ids=lambda each: f"{each['statusCode']} {each['body'][:10]}",
)
def test_an_answer_that_is_no_key_set_is_an_outage(issuer: Issuer, bad: Answer) -> None:
    issuer.paths["/keys"] = bad
    with pytest.raises(Unavailable):
        OidcKeySource(issuer.url).fetch()


def test_a_slow_issuer_is_given_up(issuer: Issuer) -> None:
    issuer.paths["/keys"] = lambda: time.sleep(1) or answer(KEYS)  # type: ignore[func-returns-value]
    started = time.monotonic()
    with pytest.raises(Unavailable):
        OidcKeySource(issuer.url, timeout=0.2).fetch()
    assert time.monotonic() - started < 0.9


@contextmanager
def dripping() -> Iterator[str]:
    """Sends a body without end, a byte at a time."""
    stop = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        stop.set()
        thread.join()


def test_an_issuer_that_never_ends_its_answer_is_given_up() -> None:
    started = time.monotonic()
    with dripping() as url, pytest.raises(Unavailable):
        OidcKeySource(url, timeout=0.3).fetch()
    assert time.monotonic() - started < 2


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unavailable):
        OidcKeySource(f"http://127.0.0.1:{port}").fetch()


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example",
        "http://10.0.0.7",
        "ftp://login.example",
        "https://user@login.example",
        "https://",
        "login.example",
        "https://login.example:port",
    ],
)
def test_an_issuer_elsewhere_is_reached_by_https_only(url: str) -> None:
    with pytest.raises(Invalid):
        OidcKeySource(url)
    OidcKeySource("https://login.example/realms/a")
