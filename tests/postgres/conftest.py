"""The services on a database of the test's own."""

from __future__ import annotations

import pytest

from tests.factories import World
from tests.manual_clock import ManualClock
from trace_core.database.state import StateDatabase
from trace_core.kernel.ids import Ids


@pytest.fixture
def world(state_database: StateDatabase, manual_clock: ManualClock, ids: Ids) -> World:
    return World(state_database, manual_clock, ids)


@pytest.fixture
def chain(world: World) -> World:
    """a -> b -> c, deployed; nothing claimed yet."""
    world.deploy()
    return world
