"""Runs schedules, in this process or in several: each has a database of its own."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from tests.postgres_server import PostgresServer, fastest_folder
from tests.simulation.database import Definitions, deploy_shapes
from tests.simulation.planted import planted
from tests.simulation.planting import DoesNotMatch
from tests.simulation.schedule import Outcome, Schedule

_MALFORMED = re.compile(r"a service raised (Undefined|Syntax|Ambiguous|Duplicate)")
"""A planted bug that breaks a statement shows nothing."""
_TELL_EVERY = 20
"""Seconds between two words of progress."""
CATCH_WITHIN = 60
"""Schedules in which a planted bug must be caught."""


@dataclass(frozen=True)
class Caught:
    bug: str
    seed: int | None
    """None when the harness missed it."""
    schedules: int
    seconds: float
    violation: str


@contextmanager
def definitions() -> Iterator[Definitions]:
    """A fresh database with every shape deployed, on a server apart from that of the tests.

    It forgets what it has not written when it crashes, which it never does here: crashes are those
    of its clients. So nothing is synced, and the files are in memory where there is enough.
    """
    server = PostgresServer(fastest_folder() / f"trace-simulation-{os.geteuid()}")
    server.acquire()
    try:
        dsn = server.clone()
        deployed = deploy_shapes(dsn)
        try:
            yield deployed
        finally:
            deployed.state.close()
            server.drop(dsn)
    finally:
        server.release()


@contextmanager
def quiet() -> Iterator[None]:
    """Refused reports and postponed rows are what a simulation is made of: nobody reads of them."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def run(deployed: Definitions, seed: int) -> Outcome:
    with quiet():
        return Schedule(deployed, seed).run()


def catch(deployed: Definitions, name: str, seed: int, within: int = CATCH_WITHIN) -> Caught:
    """Run schedules from `seed` on until one fails under the planted bug."""
    began = time.monotonic()
    with planted(name):
        for number in range(within):
            outcome = run(deployed, seed + number)
            if outcome.violation is not None:
                if _MALFORMED.search(outcome.violation):
                    raise DoesNotMatch(f"{name} is no SQL: {outcome.violation}")
                taken = time.monotonic() - began
                return Caught(name, seed + number, number + 1, taken, outcome.violation)
    return Caught(name, None, within, time.monotonic() - began, "")


def _run_share(seeds: Sequence[int]) -> list[Outcome]:
    found: list[Outcome] = []
    told = time.monotonic()
    with definitions() as deployed:
        for seed in seeds:
            outcome = _small(run(deployed, seed))
            found.append(outcome)
            if outcome.violation is not None:
                _tell(f"seed {seed}: {outcome.violation}")
            elif time.monotonic() > told + _TELL_EVERY:
                told = time.monotonic()
                _tell(f"{len(found)} of {len(seeds)} schedules of this process")
    return found


def _tell(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def _small(outcome: Outcome) -> Outcome:
    if outcome.violation is None:
        outcome.trace = []
    return outcome


def _catch_share(share: tuple[Sequence[str], int]) -> list[Caught]:
    names, seed = share
    found: list[Caught] = []
    with definitions() as deployed:
        for name in names:
            found.append(catch(deployed, name, seed))
            _tell(f"{name}: {'missed' if found[-1].seed is None else 'caught'}")
    return found


def run_many(seeds: Sequence[int], processes: int) -> list[Outcome]:
    shares = [seeds[number::processes] for number in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = [outcome for share in pool.map(_run_share, shares) for outcome in share]
    return sorted(found, key=lambda outcome: outcome.seed)


def catch_many(names: Sequence[str], seed: int, processes: int) -> list[Caught]:
    shares = [(names[number::processes], seed) for number in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = [caught for share in pool.map(_catch_share, shares) for caught in share]
    return sorted(found, key=lambda caught: list(names).index(caught.bug))
