"""Who waits for whom: an operator that gave up before the gateway would blame a provider for it."""

from __future__ import annotations

import http.client

import pytest

from trace_chain.errors import NodeAway
from trace_chain.rpc import Rpc
from trace_core.egress.model import Limits


def test_a_call_waits_longer_than_the_gateway_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []

    def connect(self: http.client.HTTPConnection) -> None:
        waited.append(self.timeout)
        raise TimeoutError

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    with Rpc("http://127.0.0.1:1/") as rpc, pytest.raises(NodeAway):
        rpc.call("eth_chainId")
    assert waited
    assert min(each or 0 for each in waited) > Limits().deadline_seconds
