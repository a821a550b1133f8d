"""Fork fuzz: random reorgs while a chain is followed and compacted, and rows that do not show it.

`python -m tests.chain.fork_fuzz --reorgs 200 --seed 1`, or `make fork-fuzz`. What it prints at the
end repeats a run.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emr_jobs.session import local_session
from tests.chain.compact_world import CompactWorld, clean_tables, digests
from tests.chain.meddling_proxy import MeddlingProxy
from tests.chain.planted_bugs import PLANTED, Plant
from tests.postgres_server import PostgresServer
from trace_chain.node.anvil import Anvil
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkResult

DEPTH_MAX = 64
SMALL_JOBS = {
    # What Spark compiles for a job pays with more rows than these have.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""The same rows and the same bytes, in a third of the time."""
CRASHES = ("spark_end:before_report", "spark_end:written", "spark_end:reported")


class Fuzz:
    """One chain, a follower, its compactions, and all that may happen to them, by chance."""

    def __init__(
        self, world: CompactWorld, proxy: MeddlingProxy, anvil: Anvil, chance: random.Random
    ) -> None:
        self._world = world
        self._proxy = proxy
        self._anvil = anvil
        self._chance = chance
        self._held: list[tuple[str, SparkResult]] = []
        """Runs that are done, and nobody has heard of it."""
        self.reorgs = 0
        self.depths: list[int] = []
        self.slices = 0
        self.did: Counter[str] = Counter()

    def begin(self) -> None:
        chance = self._chance
        self._anvil.traffic(20)
        self._world.deploy_compacted(
            range_size=chance.choice([16, 24, 32]), finality_depth=chance.choice([2, 4]),
            batch_blocks=chance.choice([3, 10, 20]), connections=chance.choice([1, 3]),
            max_blocks=chance.choice([15, 60, 500]),
        )  # fmt: skip
        self._slice()

    def run(self, reorgs: int) -> None:
        """Until there have been so many in all."""
        chance = self._chance
        while self.reorgs < reorgs:
            self._grow()
            if chance.random() < 0.2:
                self._slice_that_is_meddled_with()
            else:
                self._reorg()
            self._compact()
            for _ in range(chance.choice([0, 1, 1, 2])):
                self._slice()
            self._hear()
            if chance.random() < 0.05:
                self._lose_a_lease()
            if chance.random() < 0.1:
                self._ask_for_a_repair()
            self._look()

    def settle(self) -> None:
        """The last fork counts once it is the longest; then all that is final is compacted."""
        while self._anvil.head <= self._world.cursor()["next"]:
            self._anvil.block(transfers=2)
        self.slices += self._world.follow()
        self._hear(all_of_them=True)
        self._world.drain()
        self._world.look(self._chance)
        self._world.look_back(self._chance, 20)

    def differences(self, url: str) -> dict[str, tuple[str, str]]:
        """What the names give now, and what a clean build gives, as row hashes."""
        found = digests(self._world.read(self._world.pins()))
        expected = digests(clean_tables(url))
        return {name: (found[name], expected[name]) for name in expected}

    def _grow(self) -> None:
        for _ in range(self._chance.randint(0, 6)):
            if self._chance.random() < 0.3:
                self._anvil.mine(self._chance.randint(1, 5))
            else:
                self._anvil.block(
                    transfers=self._chance.randint(0, 8), payments=self._chance.randint(0, 2)
                )

    def _reorg(self) -> None:
        depth = min(
            self._chance.choice([1, 1, 2, 3, 5, 9, 17, 40, DEPTH_MAX]), self._anvil.head - 2
        )
        if self._chance.random() < 0.25:
            self._anvil.shorter_reorg(depth, self._chance.randint(0, min(depth, 6)))
        else:
            self._anvil.random_reorg(depth)
        self.depths.append(depth)
        self.reorgs += 1

    def _slice(self) -> None:
        self._world.slice()
        self.slices += 1

    def _slice_that_is_meddled_with(self) -> None:
        at = self._chance.randint(1, 8)
        self._proxy.before(lambda number: self._reorg() if number == at else None)
        self._slice()
        self._proxy.before(None)

    def _compact(self) -> None:
        """Some of what waits is read and written; not all of it is reported at once."""
        world, chance = self._world, self._chance
        world.turn()
        held = {run_id for run_id, _ in self._held}
        for run_id in world.runner.waiting():
            if chance.random() < 0.8:
                world.begin(run_id)
        for run_id in world.runner.running():
            if run_id in held:
                continue
            result = self._worked(run_id)
            if result.written and chance.random() < 0.4:
                self._held.append((run_id, result))
            else:
                self._end(run_id, result)

    def _worked(self, run_id: str) -> SparkResult:
        result = self._world.runner.work(run_id)
        if result.written and self._chance.random() < 0.05:
            self.did["done twice"] += 1
            result = self._world.runner.work(run_id)
        return result

    def _end(self, run_id: str, result: SparkResult) -> None:
        if self._chance.random() < 0.07:
            self.did["leases lost"] += 1
            self._world.lose_leases()
        crash_at = None
        if self._chance.random() < 0.1:
            self.did["crashes"] += 1
            crash_at = self._chance.choice(CRASHES)
        self._world.end(run_id, result, crash_at)

    def _hear(self, all_of_them: bool = False) -> None:
        """Of runs that ended before; what they read may have been rewritten meanwhile."""
        for each in [*self._held]:
            if all_of_them or self._chance.random() < 0.6:
                self._held.remove(each)
                self._end(*each)

    def _lose_a_lease(self) -> None:
        self._world.claim()
        self._world.expire()

    def _ask_for_a_repair(self) -> None:
        start = self._chance.randint(0, self._anvil.head)
        self._world.slice(({"repair": {"start": start, "end": start + 30}},))

    def _look(self) -> None:
        end = self._world.cursor()["next"]
        everything = self._chance.random() < 0.05
        start = max(0, end - self._chance.randint(20, 150))
        self._world.look(self._chance, None if everything else Scope.of_range(start, end + 5))


class Stage:
    """One server and one warm session, for as many worlds as are played."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = PostgresServer()
        self._server.acquire()
        self._spark = local_session(
            "fork-fuzz", shuffle_partitions=1, scratch=folder, settings=SMALL_JOBS
        )

    def close(self) -> None:
        self._spark.stop()
        self._server.release()

    @contextmanager
    def world(self, seed: int) -> Iterator[tuple[Fuzz, CompactWorld, Anvil]]:
        server = self._server
        state, data = server.clone(), server.clone("data")
        with Anvil(seed=seed) as anvil, tempfile.TemporaryDirectory(dir=self._folder) as folder:
            proxy = MeddlingProxy(anvil.port)
            world = CompactWorld(state, data, Path(folder), proxy.url, self._spark, seed)
            try:
                yield Fuzz(world, proxy, anvil, random.Random(seed)), world, anvil  # noqa: S311
            finally:
                world.close()
                proxy.close()
                server.drop(state)
                server.drop(data)


def fuzz_once(stage: Stage, reorgs: int, seed: int) -> bool:
    began = time.monotonic()
    with stage.world(seed) as (fuzz, world, anvil):
        fuzz.begin()
        while fuzz.reorgs < reorgs:
            fuzz.run(min(reorgs, fuzz.reorgs + 10))
            print(
                f"{fuzz.reorgs} reorgs, {fuzz.slices} slices, {world.runner.compactions}"
                f" compactions, head {anvil.head}, {time.monotonic() - began:.0f} s,"
                f" {world.runner.seconds:.0f} s of them in Spark",
                flush=True,
            )
        fuzz.settle()
        found, cold = fuzz.differences(anvil.url), world.cold_rows()
    print(f"seed {seed}: {fuzz.reorgs} reorgs of depth 1 to {max(fuzz.depths)},")
    print(f"{fuzz.slices} slices, {world.runner.compactions} compactions,")
    print(f"{world.refused} of them not taken since their rows or their lease were gone,")
    print(f"{dict(fuzz.did)}, {cold} blocks read from objects,")
    print(f"runs refused what they read: {dict(Counter(world.runner.failures))}")
    took, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"{len(world.seen)} pins looked at, {took:.0f} s, load {load:.1f}")
    for name, (hash_, expected) in found.items():
        same = "as" if hash_ == expected else "NOT as"
        print(f"  {name:14}{hash_[:30]}  {same} a clean build")
    return all(hash_ == expected for hash_, expected in found.values())


def find(stage: Stage, plant: Plant, reorgs: int, seed: int) -> bool:
    """Whether a reader sees that bug before there were so many reorgs."""
    began, why = time.monotonic(), "NOT FOUND"
    with pytest.MonkeyPatch.context() as patch, stage.world(seed) as (fuzz, _, anvil):
        plant(patch)
        try:
            fuzz.begin()
            fuzz.run(reorgs)
            fuzz.settle()
            assert all(one == other for one, other in fuzz.differences(anvil.url).values())
        except (AssertionError, KeyError) as error:
            why = f"found after {fuzz.reorgs} reorgs: {str(error).splitlines()[0][:70]}"
    print(f"{plant.__name__}: {why} ({time.monotonic() - began:.0f} s)", flush=True)
    return why != "NOT FOUND"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fork-fuzz")
    parser.add_argument("--reorgs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--planted", action="store_true", help="bugs that must be found")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            if given.planted:
                found = [find(stage, each, given.reorgs, given.seed) for each in PLANTED]
                return 0 if all(found) else 1
            return 0 if fuzz_once(stage, given.reorgs, given.seed) else 1
        finally:
            stage.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
