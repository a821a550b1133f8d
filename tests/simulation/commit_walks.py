"""Walks of the small worlds of commits, and of those with planted bugs, in a few processes."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context

from tests.postgres_server import PostgresServer, fastest_folder
from tests.simulation import exhaustive
from tests.simulation.commit_services import services
from tests.simulation.engine import quiet
from tests.simulation.exhaustive_commits import WORLDS, Found, Walk, explore
from tests.simulation.planted_commits import BUGS, planted
from tests.simulation.two_databases import Limits, SmallWorld
from trace_core.storage.model import Backend

_OF_BUGS = Limits("A", "A", "")
"""Enough for every planted bug."""


@contextmanager
def small_world(backend: Backend, limits: Limits) -> Iterator[SmallWorld]:
    """On the server of the simulation, which is apart from that of the tests."""
    server = PostgresServer(fastest_folder() / f"trace-simulation-{os.geteuid()}")
    server.acquire()
    try:
        with quiet(), services(server, backend) as made:
            yield SmallWorld(made, limits)
    finally:
        server.release()


def _walk(name: str, depth: int | None) -> tuple[str, Found, float]:
    with small_world(*WORLDS[name]) as world:
        began = time.monotonic()
        return name, explore(world, depth=depth), time.monotonic() - began


def _catch(name: str) -> tuple[str, Found, float]:
    bug = next(bug for bug in BUGS if bug.name == name)
    with small_world(bug.backend, _OF_BUGS) as world, planted(bug):
        began = time.monotonic()
        found = Walk(world, first_only=True).run(len(bug.path.split()))
        return name, found, time.monotonic() - began


def main(options: argparse.Namespace) -> int:
    """Every world must be without a violation, and every planted bug must make one."""
    depth = options.exhaustive_commits or None
    good = True
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        if options.planted:
            walks = [pool.submit(_catch, bug.name) for bug in BUGS]
        else:
            walks = [pool.submit(_walk, name, depth) for name in WORLDS]
        for walk in as_completed(walks):
            name, found, seconds = walk.result()
            show(name, found, seconds)
            good = good and bool(found.violations) is bool(options.planted)
    return 0 if good else 1


def show(name: str, found: Found | exhaustive.Found, seconds: float) -> None:
    whole = "all of them" if found.closed else "more beyond"
    print(
        f"{name}: {found.states} states, {whole}, {found.transitions} transitions to depth "
        f"{found.depth} in {seconds:.0f} s, {len(found.violations)} violations",
        flush=True,
    )
    for path, violation in found.violations[:10]:
        print(f"  {' > '.join(path)}: {violation}")
