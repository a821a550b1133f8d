"""Tests reach nothing outside this machine: any other connection fails the test that tried it."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

_tried: list[str] = []
_installed = False


class NetworkForbidden(AssertionError):
    """No error of the operating system, so that no code under test takes it for an outage."""


def install() -> None:
    """Watch every socket of this process from now on; a hook cannot be taken out again."""
    global _installed
    if not _installed:
        sys.addaudithook(_refuse_outside)
        _installed = True


def tried() -> list[str]:
    """What was tried since the last call, also where the code under test hid the error."""
    found = _tried.copy()
    _tried.clear()
    return found


def _refuse_outside(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        # A path is a unix socket; no address means the one that the socket is connected to.
        host = address[0] if isinstance(address, tuple) else None
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
        if isinstance(host, bytes):
            host = host.decode("ascii", "replace")
        if host is not None and _is_address(host):
            host = None  # nothing is asked of anybody to read an address
    else:
        return
    if isinstance(host, str) and not _is_loopback(host):
        _tried.append(f"{event} {host}")
        raise NetworkForbidden(f"a test tried to reach {host}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback
