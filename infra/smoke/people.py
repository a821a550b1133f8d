"""A user beside the emulator: an issuer, a token of it, and calls to the deployed user API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from infra.environments import ENVIRONMENTS
from trace_cli.transport import ApiError
from trace_core.adapters.lite.development_issuer import DevelopmentIssuer
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.adapters.lite.key_file import KeyFileSigner
from trace_core.adapters.lite.system_clock import SystemClock
from trace_core.http.auth import ORG_HEADER

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


class UserApi:
    """A `Transport` of the commands, through the gateway."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        # Straight to the emulator, whatever proxy the environment names.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        target = path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", ORG_HEADER: _ORG.name}
        return self.send(method, target, data, headers)[1]

    def send(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, Any]]:
        """As anybody, with these headers and nothing else to show."""
        request = urllib.request.Request(  # noqa: S310  # the emulator's own address
            self._url + target,
            method=method,
            data=data,
            headers={"Content-Type": "application/json", **headers},
        )
        try:
            with self._opener.open(request, timeout=_PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, _details(error.read())) from error


def _details(body: bytes) -> Mapping[str, Any]:
    """Ours has a code and a message; a gateway's own answer is shown as it is."""
    try:
        content = json.loads(body)
    except ValueError:
        content = {}
    details = content.get("error") if isinstance(content, dict) else None
    return details if isinstance(details, dict) else {"message": body.decode(errors="replace")}
