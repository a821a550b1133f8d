"""The seam between what was backfilled and what is followed, at random points of a real chain.

`python -m tests.chain.seam --points 100 --seed 1`, or `make seam`. At each point a follower begins
at a random block; everything below is backfilled by Cryo in chunks of a random size, some of them
tried again or reported twice, while blocks arrive and are followed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.chain.compact_world import assert_chain, clean_tables, digests, in_order
from tests.chain.follow_world import NAMES, FollowWorld, dag, nothing
from tests.postgres_server import PostgresServer
from trace_chain.node.anvil import Anvil
from trace_core.identity.model import SYSTEM
from trace_core.tasks.claim import Claimed
from trace_core.worker.attempt import Attempt
from trace_core.worker.execution import execute
from trace_core.worker.outcome import Outcome
from trace_core.worker.rows import AttemptRows, RowAccess

BACKFILLED = """
  - {{name: history, activation: source, runtime: dispatcher, operator: range_request,
     source: {{kind: manual}}, outputs: 1}}
  - {{name: chunks, activation: reactive, runtime: dispatcher, operator: range_splitter,
     execution_strategy: PerPartition, inputs: [{{from: {{job: history, output: 0}}}}], outputs: 1,
     update_strategy: replace, config: {{chunk_size: {chunk}}}}}
  - {{name: backfill, activation: reactive, runtime: worker, operator: cryo_ingest,
     execution_strategy: PerPartition, inputs: [{{from: {{job: chunks, output: 0}}}}], outputs: 3,
     update_strategy: replace, max_attempts: 100,
     config: {{chain_id: 31337, chunk_blocks: {cryo}}}}}
publish:
  blocks: {{from: [{{job: follow, output: 0}}, {{job: backfill, output: 0}}]}}
  transactions: {{from: [{{job: follow, output: 1}}, {{job: backfill, output: 1}}]}}
  logs: {{from: [{{job: follow, output: 2}}, {{job: backfill, output: 2}}]}}
"""


class SeamWorld(FollowWorld):
    last: Outcome

    def begin(self, start: int, chunk: int, cryo: int, **config: Any) -> None:
        text = dag(3, start_block=start, **config) + BACKFILLED.format(chunk=chunk, cryo=cryo)
        self.app.deploys.deploy(self.org, text, "chain.yaml", SYSTEM)
        given = {"start": 0, "end": start - 1}
        self.app.requests.trigger(self.org, "chain", "history", given, SYSTEM)

    def turn(self) -> None:
        for _ in range(3):
            self._make_due()
            self.app.relay.run_once()

    def chunks(self) -> list[Any]:
        """Tasks of the backfill that wait."""
        rows = self.app.state.read(
            "SELECT task_id FROM ready JOIN jobs USING (job_id) WHERE name = 'backfill'"
            " ORDER BY task_id",
            {},
        )
        return [row.task_id for row in rows]

    def claim_chunk(self, task_id: Any) -> Claimed:
        (claim,) = self.app.claims.claim_ids(self.org, [task_id], "test")
        assert isinstance(claim, Claimed), claim
        return claim

    def run_again(self, claim: Claimed) -> None:
        """The answer to the report was lost: what was said is said again."""
        self._report(claim, self.last)

    def _outcome(self, attempt: Attempt, scratch: Path) -> Outcome:
        rows = AttemptRows(attempt, RowAccess(lambda: self.app.row_store, self._reads_nothing))
        self.last = rows.begin() or self._executed(rows, scratch)
        return self.last

    def _executed(self, rows: AttemptRows, scratch: Path) -> Outcome:
        outcome = execute(
            rows.payload, self.app.catalog, env={"RPC_URL": self.url}, scratch=scratch,
            now=self.app.clock.now(), emit=nothing, fetch=nothing, canceled=lambda: False,
        )  # fmt: skip
        assert outcome.status in ("Yielded", "Completed"), outcome.fields
        return rows.keep(outcome, scratch)

    def read(self) -> dict[str, Any]:
        pins = self.app.pin_resolver.current_pins(self.org, NAMES)
        return {
            name: in_order(
                name, self.app.pinned_reader.relation(self.app.pin_resolver.resolve(pins[name]))
            )
            for name in NAMES
        }


def play(world: SeamWorld, anvil: Anvil, chance: random.Random) -> str:
    """One point; answers what it was. Raises when rows are not those of a clean build."""
    start = chance.randint(1, anvil.head)
    chunk = chance.choice([1 + start // 3, 1 + start // 2, start, start + 7])
    world.begin(start, chunk, cryo=chance.choice([3, 10, 1000]), max_blocks=chance.choice([7, 500]))
    retried = twice = 0
    for _ in range(200):
        world.turn()
        if chance.random() < 0.5:
            anvil.block(transfers=chance.randint(0, 3))
        if chance.random() < 0.5:
            world.slice()
        waiting = world.chunks()
        if not waiting:
            if not world.tasks_left():
                break
            continue
        claim = world.claim_chunk(chance.choice(waiting))
        fate = chance.random()
        if fate < 0.25:
            world.expire("backfill")
            retried += 1
        elif fate < 0.5:
            world.run(claim)
            world.run_again(claim)
            twice += 1
        else:
            world.run(claim)
    world.follow()
    tables, expected = world.read(), clean_tables(world.url)
    assert_chain(tables)
    assert digests(tables) == digests(expected), f"the seam at {start}"
    return f"at {start}, chunks of {chunk}, {retried} tried again, {twice} reported twice"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="seam")
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)  # noqa: S311
    server, began = PostgresServer(), time.monotonic()
    server.acquire()
    try:
        with Anvil(seed=given.seed) as anvil:
            anvil.traffic(25)
            for point in range(1, given.points + 1):
                told = at_one_point(server, anvil, chance)
                print(f"{point}: {told}, head {anvil.head}", flush=True)
    finally:
        server.release()
    took, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"seed {given.seed}: {given.points} seams without a gap, without an overlap,")
    print(f"each with the rows of a clean build; {took:.0f} s, load {load:.1f}")
    return 0


def at_one_point(server: PostgresServer, anvil: Anvil, chance: random.Random) -> str:
    state, data = server.clone(), server.clone("data")
    with tempfile.TemporaryDirectory() as folder:
        world = SeamWorld(state, data, Path(folder), anvil.url)
        try:
            return play(world, anvil, chance)
        finally:
            world.close()
            server.drop(state)
            server.drop(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
