"""Random histories of runs: crashes, lost and doubled pushes, cancels, deaths, in any order.

Whatever happens: of each task one run counts at most, its rows are committed once, no two runs are
open beside each other, and every task ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from tests.postgres.spark_world import ROWS, Crash, SparkWorld
from trace_core.identity.model import SYSTEM
from trace_core.kernel.errors import Conflict, Unavailable
from trace_core.kernel.ids import Ids
from trace_core.ports.spark_runner import RunState
from trace_core.spark.model import CANCEL, START

POINTS = (
    "prepare_run:before_commit",
    "prepare_run:after_commit",
    "begin_start:after_commit",
    "spark_start:before",
    "spark_start:after",
    "keep_run_id:before_commit",
    "observe_run:before_commit",
    "exchange_run:before_commit",
    "exchange_run:after_commit",
    "spark_end:written",
    "complete_one:before_commit",
    "complete_one:after_commit",
    "close_run:before_commit",
    "spark_cancel:before",
    "spark_cancel:after",
)
STEPS = 60


@pytest.fixture
def world(
    state_dsn: str, tmp_path: Path, manual_clock: ManualClock, ids: Ids
) -> Iterator[SparkWorld]:
    found = SparkWorld(state_dsn, None, tmp_path, manual_clock, ids)
    yield found
    found.close()


class Walk:
    def __init__(self, world: SparkWorld, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)  # noqa: S311
        self.ended: Counter[str] = Counter()

    def go(self) -> None:
        for start in (1, 11, 21):
            self.world.ask(start, start + 1)
        for _ in range(STEPS):
            self._safely(self._step)
            self.check()
        self._settle()

    def _safely(self, step: Callable[[], None]) -> None:
        with suppress(Crash):
            step()

    def _step(self) -> None:
        world, chance = self.world, self.chance
        if chance.random() < 0.25:
            world.crash_at = chance.choice(POINTS)
        match chance.randrange(9):
            case 0 | 1:
                if chance.random() < 0.2:
                    world.runner.lost_answers = [Unavailable("no answer")]
                world.app.relay.run_once()
            case 2 | 3:
                self._move_a_run(die=0.3)
            case 4 | 5:
                world.watch(seconds=chance.choice([1, 20, 61]))
            case 6:
                world.app.reaper.run_once()
                world.app.dispatcher.run_once()
            case 7:
                kind = chance.choice([START, CANCEL])
                world.state.write(
                    "lose", "DELETE FROM outbox WHERE kind = %(kind)s", {"kind": kind}
                )
            case _:
                if chance.random() < 0.2:
                    self._cancel()
                elif chance.random() < 0.2:
                    world.watch(seconds=700)

    def _move_a_run(self, die: float) -> None:
        """As the service does it: in its own time, whatever we know of it."""
        runner = self.world.runner
        living = [name for name, run in runner.runs.items() if not run.state.has_ended]
        if not living:
            return
        run_id = self.chance.choice(living)
        match runner.run(run_id).state:
            case RunState.SUBMITTED:
                runner.move(RunState.RUNNING, run_id)
            case RunState.CANCELLING:
                runner.move(RunState.CANCELLED, run_id)
            case _ if self.chance.random() < die:
                runner.move(RunState.FAILED, run_id, "died")
            case _:
                runner.succeed(rows_of(runner.payload(run_id).scope.start), run_id=run_id)

    def _cancel(self) -> None:
        tasks = self.world.task_ids()
        if tasks:
            with suppress(Conflict):
                self.world.app.task_admin.cancel(self.world.org, self.chance.choice(tasks), SYSTEM)

    def check(self) -> None:
        world = self.world
        # What the service has beside each other; at most one of a task may still do something.
        living = Counter(
            run.request.tags["task"]
            for run in world.runner.runs.values()
            if not run.state.has_ended
        )
        assert not [task for task, count in living.items() if count > 1], "two runs of one task"
        completed = Counter(
            row.task_id
            for row in world.rows("SELECT task_id FROM attempts WHERE outcome = 'Completed'"
                                  " AND job_id IN (SELECT job_id FROM jobs WHERE name <> 'asked')")
        )  # fmt: skip
        assert all(count == 1 for count in completed.values())
        assert all(count == 1 for count in Counter(c.task_id for c in world.commits()).values())

    def _settle(self) -> None:
        """From here on nothing goes wrong: everything ends in bounded steps."""
        world = self.world
        world.crash_at = None
        for _ in range(120):
            world.relay()
            self._move_a_run(die=0.0)
            world.watch(seconds=61)
            world.app.reaper.run_once()
            world.app.dispatcher.run_once()
            self.check()
            if not self._unfinished():
                break
        assert not self._unfinished()
        assert not world.rows("SELECT 1 FROM spark_runs WHERE closed_at IS NULL")
        assert not world.rows("SELECT 1 FROM outbox WHERE status = 'Failed'")

    def _unfinished(self) -> list[object]:
        return self.world.rows(
            "SELECT t.task_id FROM tasks t JOIN jobs j USING (job_id) WHERE j.name <> 'asked'"
            " AND NOT EXISTS (SELECT FROM attempts a WHERE a.task_id = t.task_id AND a.final)"
        )


def rows_of(start: int | None) -> list[dict[str, object]]:
    return [{**row, "number": (start or 0) + at} for at, row in enumerate(ROWS)]


@pytest.mark.parametrize("seed", range(12))
def test_every_task_ends_and_one_run_of_it_counts(world: SparkWorld, seed: int) -> None:
    Walk(world, seed).go()
