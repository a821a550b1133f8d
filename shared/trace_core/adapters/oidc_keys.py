"""The keys of an OpenID Connect issuer, fetched over HTTPS: the same in every profile."""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
import time
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trace_core.kernel.errors import Invalid, Unavailable

_DISCOVERY = "/.well-known/openid-configuration"
_DOCUMENT_MAX = 512 * 1024
_REDIRECTS_MAX = 2
_MOVED = (301, 302, 307, 308)


class OidcKeySource:
    """`KeySource` of one issuer. Finds the keys by discovery, unless their address is given.

    Plain HTTP is for an issuer on this machine only. A redirect stays on its host; nothing is
    followed elsewhere, and no proxy of the environment is used.
    """

    def __init__(self, issuer: str, jwks_url: str | None = None, *, timeout: float = 5.0) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._timeout = timeout
        for url in (issuer, jwks_url):
            if url is not None:
                _trusted(url)

    def fetch(self) -> dict[str, Any]:
        # One deadline for everything: an issuer that sends a byte a second is one that is away.
        give_up_at = time.monotonic() + self._timeout
        return self._get(self._jwks_url or self._discovered(give_up_at), give_up_at)

    def _discovered(self, give_up_at: float) -> str:
        found = self._get(self._issuer.rstrip("/") + _DISCOVERY, give_up_at)
        # Another issuer's document would lend its keys to this one's name.
        if found.get("issuer") != self._issuer or type(found.get("jwks_uri")) is not str:
            raise Unavailable("The discovery document is not the issuer's.")
        url = str(found["jwks_uri"])
        try:
            _trusted(url)
        except Invalid:
            raise Unavailable("The discovery document names an address that is not safe.") from None
        return url

    def _get(self, url: str, give_up_at: float) -> dict[str, Any]:
        for _ in range(_REDIRECTS_MAX + 1):
            status, location, data = self._exchange(_trusted(url), give_up_at)
            if status == 200:
                return _document(data)
            if status not in _MOVED or not location:
                raise Unavailable(f"The issuer answered {status}.")
            url = _on_the_same_host(url, location)
        raise Unavailable("The issuer redirects too often.")

    def _exchange(self, url: SplitResult, give_up_at: float) -> tuple[int, str | None, bytes]:
        host, port = url.hostname or "", url.port
        left = give_up_at - time.monotonic()
        if left <= 0:
            raise Unavailable("The issuer does not answer in time.")
        connection = (
            http.client.HTTPSConnection(
                host, port, timeout=left, context=ssl.create_default_context()
            )
            if url.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=left)
        )
        try:
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            connection.request("GET", target, headers={"Accept": "application/json"})
            response = connection.getresponse()
            return response.status, response.getheader("location"), _read(response, give_up_at)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable("The issuer does not answer.") from error
        finally:
            connection.close()


def _read(response: http.client.HTTPResponse, give_up_at: float) -> bytes:
    data = b""
    while piece := response.read1(65_536):
        data += piece
        if len(data) > _DOCUMENT_MAX:
            raise Unavailable("The issuer's document is too large.")
        if time.monotonic() > give_up_at:
            raise Unavailable("The issuer does not answer in time.")
    return data


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise Unavailable("The issuer's document is not JSON.") from None
    if not isinstance(found, dict):
        raise Unavailable("The issuer's document is not an object.")
    return found


def _on_the_same_host(url: str, location: str) -> str:
    here = urlsplit(url)
    try:
        there = urlsplit(location)
        if not there.netloc and not there.scheme and location.startswith("/"):
            return f"{here.scheme}://{here.netloc}{location}"
        same = (there.scheme, there.netloc) == (here.scheme, here.netloc)
    except ValueError:
        same = False
    if not same:
        raise Unavailable("The issuer redirects to another host.")
    return location


def _trusted(url: str) -> SplitResult:
    """An address that may be asked for keys; raises `Invalid`."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise Invalid("The issuer is not a valid address.") from None
    plain = parts.scheme == "http" and _is_loopback(host)
    if not host or parts.username is not None or not (parts.scheme == "https" or plain):
        raise Invalid("The issuer is an https address (http on this machine only).")
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
