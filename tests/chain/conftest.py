"""A real node for every test that asks for one; it starts in a tenth of a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trace_chain.node.anvil import Anvil


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A chain of its own, at block 1 with the token in it."""
    with Anvil() as node:
        yield node
