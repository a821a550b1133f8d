"""`python -m tests.simulation`: schedules, planted bugs, or the replay of one seed."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.simulation import commit_walks, engine, exhaustive, report
from tests.simulation.planted import NAMES


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--planted", choices=["all", *NAMES], help="show that bugs are caught")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed, with its trace")
    parser.add_argument(
        "--exhaustive", type=int, metavar="DEPTH", nargs="?", const=0,
        help="walk every order of a small world, to a depth or until there is no new state",
    )  # fmt: skip
    parser.add_argument(
        "--exhaustive-commits", type=int, metavar="DEPTH", nargs="?", const=0,
        help="the same for commits of two databases; with --planted all, for their planted bugs",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    if options.exhaustive_commits is not None:
        return commit_walks.main(options)
    if options.exhaustive is not None:
        return _exhaustive(options)
    if options.replay is not None:
        return _replay(options)
    return _planted(options) if options.planted else _schedules(options)


def _schedules(options: argparse.Namespace) -> int:
    began = time.monotonic()
    seeds = range(options.seed, options.seed + options.schedules)
    outcomes = engine.run_many(seeds, min(options.processes, max(options.schedules, 1)))
    found = report.summary(outcomes, time.monotonic() - began)
    print(json.dumps(found) if options.json else report.text(found))
    failed = next((outcome for outcome in outcomes if outcome.violation), None)
    if failed is not None and not options.json:
        print(f"\nthe last steps of seed {failed.seed}:\n{failed.shown()}")
    return 0 if report.is_good(found) else 1


def _planted(options: argparse.Namespace) -> int:
    names = NAMES if options.planted == "all" else (options.planted,)
    caught = engine.catch_many(names, options.seed, min(options.processes, len(names)))
    print(json.dumps(report.planted_json(caught)) if options.json else report.planted_text(caught))
    return 0 if all(each.seed is not None for each in caught) else 1


def _replay(options: argparse.Namespace) -> int:
    """Under the same planted bug the same seed fails in the same way."""
    with engine.definitions() as deployed:
        if options.planted:
            with engine.planted(options.planted):
                outcome = engine.run(deployed, options.replay)
        else:
            outcome = engine.run(deployed, options.replay)
    print("\n".join(outcome.trace))
    print(f"trace {outcome.digest}, {outcome.violation or 'no violation'}")
    return 1 if outcome.violation else 0


def _exhaustive(options: argparse.Namespace) -> int:
    good = True
    for name, world in exhaustive.WORLDS.items():
        began = time.monotonic()
        with engine.definitions() as deployed:
            found = exhaustive.explore(deployed, depth=options.exhaustive or None, world_type=world)
        commit_walks.show(name, found, time.monotonic() - began)
        good = good and not found.violations
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
