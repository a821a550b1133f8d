"""Edits of the DAGs that schedules run: what the text becomes, and which jobs are others then.

A job in the middle, a source, a setting of an operator, a job that is gone, and settings that
change how work runs and not what it writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from tests.simulation.shapes import FAN, MIXED, RANGES


@dataclass(frozen=True)
class Edit:
    name: str
    text: str
    changed: frozenset[str]
    """Jobs whose data is made anew; all others are the very jobs of the first version."""
    jobs: dict[str, Any]
    slots: dict[str, frozenset[str]]

    def job_key(self, job: str) -> tuple[str, str]:
        """Two versions with the same key have the same job."""
        return job, self.name if job in self.changed else "first"


def _edit(name: str, text: str, changed: str, *replacements: tuple[str, str]) -> Edit:
    for old, new in replacements:
        if old not in text:
            raise ValueError(f"{name}: no {old!r}")
        text = text.replace(old, new)
    content = yaml.safe_load(text)
    return Edit(
        name,
        text,
        frozenset(changed.split()),
        {job["name"]: job for job in content["jobs"]},
        {
            pool: frozenset(slot["name"] for slot in slots)
            for pool, slots in content["worker_pools"].items()
        },
    )


def _without(text: str, job: str) -> tuple[str, str]:
    begin = text.index(f"  - {{name: {job},")
    end = text.find("  - {name: ", begin + 1)
    return text[begin : end if end > 0 else len(text)], ""


_WORK = "runtime: worker, operator: made_up_work"
_REWORK = "runtime: worker, operator: made_up_rework"

EDITS: dict[str, tuple[Edit, ...]] = {
    "fan": (
        _edit("first", FAN, ""),
        _edit("middle", FAN, "work narrow",
              (f"name: work, activation: reactive, {_WORK}",
               f"name: work, activation: reactive, {_REWORK}")),
        _edit("source", FAN, "src work narrow wide whole",
              ("operator: made_up_source", "operator: made_up_resource")),
        _edit("config", FAN, "whole", ("range_size: 3", "range_size: 2")),
        _edit("removed", FAN, "", _without(FAN, "narrow")),
        _edit("settings", FAN, "", ("max_concurrency: 1}", "max_concurrency: 3}, max_attempts: 5"),
              ("timeout_seconds: 300", "timeout_seconds: 280, max_attempts: 2"),
              ("max_concurrency: 2}", "max_concurrency: 1}"),
              ('    - {name: two, env: {N: "2"}}\n', '    - {name: three, env: {N: "3"}}\n')),
    ),
    "ranges": (
        _edit("first", RANGES, ""),
        _edit("middle", RANGES, "load live whole tell",
              (f"name: load, activation: reactive, {_WORK}",
               f"name: load, activation: reactive, {_REWORK}")),
        _edit("source", RANGES, "ask chunks load live whole tell",
              ("operator: range_request", "operator: range_request_anew")),
        _edit("config", RANGES, "chunks load live whole tell", ("chunk_size: 10", "chunk_size: 9")),
        _edit("removed", RANGES, "", _without(RANGES, "live")),
        _edit("settings", RANGES, "", ("priority: backfill, outputs: 2", "outputs: 2"),
              ("max_concurrency: 1}", "max_concurrency: 2}, max_attempts: 4")),
    ),
    "mixed": (
        _edit("first", MIXED, ""),
        _edit("middle", MIXED, "one free",
              ("runtime: lambda, operator: made_up_work",
               "runtime: lambda, operator: made_up_rework")),
        _edit("source", MIXED, "feed join one free",
              ("operator: made_up_source", "operator: made_up_resource")),
        _edit("removed", MIXED, "", _without(MIXED, "free")),
        _edit("settings", MIXED, "", ("max_attempts: 2, ", "max_attempts: 4, "),
              ("timeout_seconds: 200", "timeout_seconds: 230")),
    ),
}  # fmt: skip
