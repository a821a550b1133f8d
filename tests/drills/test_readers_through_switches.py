"""Fifty readers join two datasets, one in each layout, while a hundred switches go on."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.drills.row_world import RowWorld, sum_row
from trace_core.storage.model import Pin
from trace_core.storage.reader import PinnedReader

READERS, SWITCHES, REPLAYED = 50, 100, 200
BLOCKS = 12


@pytest.fixture
def world(state_dsn: str, data_dsn: str, tmp_path: Path) -> Iterator[RowWorld]:
    found = RowWorld(state_dsn, data_dsn, tmp_path)
    yield found
    found.close()


def hashes(table: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


class Readers:
    def __init__(self, world: RowWorld) -> None:
        self._world = world
        self._reader = PinnedReader(world.app.objects, world.app.data_reader)
        self.stop = threading.Event()
        self.problems: list[str] = []
        self.recorded: list[tuple[Pin, Counter[str]]] = []
        self.reads = 0
        self.codes: Counter[int] = Counter()

    def read(self, pin: Pin) -> pa.Table:
        (part,) = self._world.app.pin_resolver.resolve([pin])
        return self._reader.table(part)

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self._join()
            except Exception as error:
                self.problems.append(repr(error))
                return

    def _join(self) -> None:
        pins = self._world.pins()
        facts, sums = (self.read(pin) for pin in pins)
        problem = mixed(facts.to_pylist(), sums.to_pylist())
        if problem:
            self.problems.append(problem)
        self.recorded += [(pins[0], hashes(facts)), (pins[1], hashes(sums))]
        self.codes.update(row["code"] for row in sums.to_pylist()[:1])
        self.reads += 1


def mixed(facts: list[dict[str, Any]], sums: list[dict[str, Any]]) -> str | None:
    """Every sum is that of the facts beside it, and all are of one version."""
    codes = {row["code"] for row in facts} | {row["code"] for row in sums}
    if len(codes) != 1:
        return f"codes {codes} in one join"
    if len(sums) != BLOCKS or len(facts) != 2 * BLOCKS:
        return f"{len(facts)} facts beside {len(sums)} sums"
    for row in sums:
        own = [fact for fact in facts if fact["number"] == row["number"]]
        if sum_row(own)["digest"] != row["digest"]:
            return f"block {row['number']} does not add up"
    return None


def test_no_join_mixes_versions_and_every_pin_can_be_read_again(world: RowWorld) -> None:
    world.deploy(1)
    world.announce({number: f"a{number}" for number in range(BLOCKS)})
    world.settle()
    world.deploy(2)
    world.settle()
    readers = Readers(world)
    threads = [threading.Thread(target=readers.run) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for number in range(SWITCHES):
        if number % 2 == 0:
            world.rollback()
        else:
            world.deploy(2)
        # As many reads between two switches as it takes for some to fall on each.
        seen = readers.reads
        while readers.reads < seen + 3 and not readers.problems:
            threads[0].join(0.002)
    readers.stop.set()
    for thread in threads:
        thread.join(60)
    assert readers.problems == []
    assert set(readers.codes) == {1, 2}
    assert readers.reads >= SWITCHES
    # Rows of the current versions are rewritten, and the recorded pins still show what they showed.
    world.settle()
    world.announce({number: f"b{number}" for number in range(0, BLOCKS, 2)})
    world.settle()
    sample = random.Random(3).sample(readers.recorded, min(REPLAYED, len(readers.recorded)))  # noqa: S311
    assert len(sample) == REPLAYED
    assert {pin.dataset_uuid for pin, _ in sample} == {pin.dataset_uuid for pin in world.pins()}
    for pin, seen_then in sample:
        assert hashes(readers.read(pin)) == seen_then
    facts = hashes(readers.read(world.pins()[0]))
    assert facts != readers.recorded[0][1]
