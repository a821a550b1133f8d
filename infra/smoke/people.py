"""A user beside the emulator: an issuer, a token of it, and calls to the deployed user API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from infra.environments import ENVIRONMENTS
from trace_client import Client, HttpTransport
from trace_core.adapters.lite.development_issuer import DevelopmentIssuer
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.system_clock import SystemClock

_ENVIRONMENT = ENVIRONMENTS["local"]
_ORG = _ENVIRONMENT.orgs[0]
_LIFETIME = timedelta(hours=1)
_PATIENCE = 30.0


@contextmanager
def issuer(folder: Path) -> Iterator[tuple[str, str]]:
    """Its address on a free port of loopback, and a token of the first administrator."""
    found: list[DevelopmentIssuer] = []
    server = LocalServer("issuer", lambda event, context: found[0].handler(event, context), 0)
    address = f"http://127.0.0.1:{server.port}"
    signer = KeyFileSigner(folder / "issuer.pem")
    found.append(DevelopmentIssuer(signer, SystemClock(), address, _ENVIRONMENT.identity.audience))
    server.start()
    try:
        yield address, found[0].mint(_ORG.administrators[0], _LIFETIME)
    finally:
        server.stop()


def member(url: str, token: str) -> Client:
    """The client of the commands, through the gateway."""
    return Client(HttpTransport(url, lambda: token, _ORG.name, timeout=_PATIENCE))
