"""The guard itself: this machine is reached, no other one is."""

from __future__ import annotations

import contextlib
import socket

import pytest

from tests import network_guard
from tests.network_guard import NetworkForbidden


def test_a_connection_to_another_machine_is_refused_and_remembered() -> None:
    with socket.socket() as outside, pytest.raises(NetworkForbidden):
        outside.connect(("192.0.2.1", 80))
    assert network_guard.tried() == ["socket.connect 192.0.2.1"]


def test_a_refusal_that_the_code_swallowed_is_remembered() -> None:
    with contextlib.suppress(Exception), socket.socket(type=socket.SOCK_DGRAM) as outside:
        outside.sendto(b"", ("192.0.2.1", 53))
    assert network_guard.tried() == ["socket.sendto 192.0.2.1"]


def test_a_name_of_another_machine_is_not_even_resolved() -> None:
    with pytest.raises(NetworkForbidden):
        socket.getaddrinfo("trace.invalid", 443)
    assert network_guard.tried() == ["socket.getaddrinfo trace.invalid"]


def test_this_machine_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(("localhost", address[1])):
            server.accept()[0].close()
    left, right = socket.socketpair()
    left.close()
    right.close()
    assert network_guard.tried() == []
