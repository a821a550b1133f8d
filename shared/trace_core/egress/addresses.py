"""Which addresses an upstream may have; the one that was checked is the one connected to."""

from __future__ import annotations

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# `is_global` is true for all of these, and each can lead to a private address.
_DOORS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "::ffff:0:0/96",
        "fec0::/10", "192.0.0.0/24", "192.88.99.0/24",
    )
)  # fmt: skip


class NotAllowed(Exception):
    """The upstream's name leads to an address that it may not have."""


def is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address.version == door.version and address in door for door in _DOORS)


def resolve(host: str, port: int, *, allow_private: bool) -> str:
    """The first address of the host, if all that it has are allowed. Raises `OSError` too."""
    found = [
        ipaddress.ip_address(str(sockaddr[0]).partition("%")[0])
        for *_, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]
    if not allow_private and not all(is_public(each) for each in found):
        raise NotAllowed
    return str(found[0])
