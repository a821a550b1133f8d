"""A slice of `make fork-fuzz`, in the session that all tests of this folder share."""

from __future__ import annotations

import random
from pathlib import Path

from pyspark.sql import SparkSession

from tests.chain.compact_world import CompactWorld
from tests.chain.fork_fuzz import Fuzz
from tests.chain.meddling_proxy import MeddlingProxy
from trace_chain.node.anvil import Anvil


def test_reorgs_while_it_is_followed_and_compacted_end_as_a_clean_build(
    state_dsn: str, data_dsn: str, tmp_path: Path, spark: SparkSession
) -> None:
    with Anvil(seed=11) as anvil:
        proxy = MeddlingProxy(anvil.port)
        world = CompactWorld(state_dsn, data_dsn, tmp_path, proxy.url, spark, seed=11)
        try:
            fuzz = Fuzz(world, proxy, anvil, random.Random(11))  # noqa: S311
            fuzz.begin()
            fuzz.run(6)
            fuzz.settle()
            assert fuzz.reorgs >= 6 and world.cold_rows() > 0
            assert not world.runner.failures
            for name, (found, expected) in fuzz.differences(anvil.url).items():
                assert found == expected, name
        finally:
            world.close()
            proxy.close()
