"""What a run came to, for people and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.simulation.engine import CATCH_WITHIN, Caught
from tests.simulation.faults import KINDS
from tests.simulation.schedule import Outcome

COVERAGE_FROM = 100
"""Schedules from which on every fault and every named point must have been hit."""


def summary(outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    kinds: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    crashes: Counter[str] = Counter()
    for outcome in outcomes:
        kinds.update(outcome.kinds)
        crashes.update(dict.fromkeys(outcome.reached, 0))
        crashes.update(outcome.crashed)
    return {
        "schedules": len(outcomes),
        "tasks": sum(outcome.tasks for outcome in outcomes),
        "events": sum(outcome.events for outcome in outcomes),
        "steps": sum(outcome.steps for outcome in outcomes),
        "seconds": round(seconds, 1),
        "schedules_per_minute": round(len(outcomes) / max(seconds, 0.001) * 60),
        "fewest_tasks": min((outcome.tasks for outcome in outcomes), default=0),
        "fewest_faults": min((sum(o.kinds.values()) for o in outcomes), default=0),
        "faults": dict(sorted(kinds.items())),
        "crashes": dict(sorted(crashes.items())),
        "never_hit": sorted(name for name, n in {**kinds, **crashes}.items() if not n),
        "violations": [{"seed": o.seed, "violation": o.violation} for o in outcomes if o.violation],
    }


def is_good(found: dict[str, Any]) -> bool:
    covered = found["schedules"] < COVERAGE_FROM or not found["never_hit"]
    return covered and not found["violations"]


def text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['schedules']} schedules, {found['tasks']} tasks, {found['events']} events, "
        f"{found['steps']} steps in {found['seconds']} s: "
        f"{found['schedules_per_minute']} schedules a minute",
        f"at least {found['fewest_tasks']} tasks and {found['fewest_faults']} faults in each",
        "",
        "faults",
        *_columns(found["faults"]),
        "",
        "crashes at named points",
        *_columns(found["crashes"]),
        "",
    ]
    if found["never_hit"]:
        lines.append(f"never hit: {', '.join(found['never_hit'])}")
    lines.append(f"violations: {len(found['violations'])}")
    lines += [
        f"  seed {each['seed']}: {each['violation']}\n"
        f"    python -m tests.simulation --replay {each['seed']}"
        for each in found["violations"]
    ]
    return "\n".join(lines)


def _columns(counts: dict[str, int]) -> list[str]:
    cells = [f"{name:<32}{count:>7}" for name, count in counts.items()]
    return ["  " + "   ".join(cells[at : at + 2]) for at in range(0, len(cells), 2)]


def planted_text(caught: Sequence[Caught]) -> str:
    lines = [
        f"{each.bug:<36}"
        + (
            f"MISSED in {CATCH_WITHIN} schedules"
            if each.seed is None
            else f"seed {each.seed:<6} after {each.schedules:>2} schedules  {each.violation[:90]}"
        )
        for each in caught
    ]
    missed = sum(each.seed is None for each in caught)
    return "\n".join([*lines, f"{len(caught) - missed} of {len(caught)} planted bugs caught"])


def planted_json(caught: Sequence[Caught]) -> list[dict[str, Any]]:
    return [asdict(each) for each in caught]
