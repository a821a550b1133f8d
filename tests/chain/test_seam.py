"""A few points of `make seam`."""

from __future__ import annotations

import random

from tests.chain.seam import at_one_point
from tests.postgres_server import PostgresServer
from trace_chain.node.anvil import Anvil


def test_backfilled_and_followed_blocks_meet_without_a_gap(
    postgres_server: PostgresServer, anvil: Anvil
) -> None:
    anvil.traffic(20)
    chance = random.Random(4)  # noqa: S311
    for _ in range(3):
        at_one_point(postgres_server, anvil, chance)
