"""Plans as people see them in a terminal; three captures are kept beside this file."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.deploy.market import (
    CATALOG,
    FILE,
    TEXT,
    busy_facts,
    edited,
    plan_of,
    read,
)
from trace_cli.plan_values import UNKNOWN, amount, change, duration, of_bytes
from trace_cli.plan_view import show_plan
from trace_core.dag.fingerprint import job_fingerprints
from trace_core.deploy.plan_facts import BuiltJob
from trace_core.deploy.plan_model import Plan

CAPTURES = Path(__file__).parent / "plans"


def shown(plan: Plan, *, width: int = 100) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, highlight=False)
    show_plan(plan, console, file=FILE)
    return out.getvalue()


def rebuild_with_a_broken_schema() -> Plan:
    text = edited(
        ("b.label FROM logs l", "b.label, l.fee FROM logs l"),
        ("        label: text\n", "        fee: numeric\n"),
        ("amount: numeric(38)", "amount: numeric(78)"),
        ("max_concurrency: 20", "max_concurrency: 8"),
        ("freshness: 60s", "freshness: 5m"),
    )
    return plan_of(text, busy_facts())


def sources_that_begin_anew() -> Plan:
    text = edited(
        ("start_block: 1000000", "start_block: 900000"),
        ("source: { kind: manual }", "source: { kind: webhook, path: /ranges }"),
        ("  - name: report\n", "  - name: summary\n"),
        ("{ job: report, output: 0 }", "{ job: summary, output: 0 }"),
        ("SELECT * FROM report", "SELECT * FROM summary"),
    )
    return plan_of(text, busy_facts())


def back_to_an_earlier_version() -> Plan:
    text = edited(
        ("amount >= 10", "amount > 10"),
        ("timeout_seconds: 600", "timeout_seconds: 900"),
        ("pii: [sender]", "pii: []"),
        ("  whale_events:\n", "  whales:\n"),
    )
    fingerprints = job_fingerprints(read(text), CATALOG)
    built = {
        ("volumes", fingerprints["volumes"]): BuiltJob(2, 12),
        ("report", fingerprints["report"]): BuiltJob(2, 0),
        ("mail", fingerprints["mail"]): BuiltJob(2),
    }
    return plan_of(text, replace(busy_facts(), built=built))


@pytest.mark.parametrize(
    "make", [rebuild_with_a_broken_schema, sources_that_begin_anew, back_to_an_earlier_version]
)
def test_a_plan_looks_as_it_was_approved(make: object) -> None:
    assert callable(make)
    capture = CAPTURES / f"{make.__name__}.txt"
    assert shown(make()) == capture.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize(
    "make", [rebuild_with_a_broken_schema, sources_that_begin_anew, back_to_an_earlier_version]
)
def test_no_line_is_wider_than_the_terminal_or_ends_in_spaces(make: object, width: int) -> None:
    assert callable(make)
    for line in shown(make(), width=width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


def test_an_empty_plan_says_that_there_is_nothing_to_do() -> None:
    assert shown(plan_of(TEXT)) == ("market: version 3 is what the file says.\nNothing to do.\n")


def test_a_plan_ends_with_what_to_type_next() -> None:
    plan = plan_of(edited(("0 3 * * *", "0 4 * * *")))
    assert shown(plan).splitlines()[-1] == f"Next: trace dag apply {FILE}"


def test_a_setting_of_all_jobs_is_said_once() -> None:
    text = shown(plan_of(edited(("max_attempts: 3", "max_attempts: 9"))))
    assert text.count("max_attempts") == 1
    assert "    every job\n      max_attempts  3 → 9  runs differently" in text


def test_figures_that_are_not_known_are_not_numbers() -> None:
    assert [amount(None), of_bytes(None), duration(None)] == [UNKNOWN] * 3
    assert [amount(0), of_bytes(0), duration(0)] == ["0", "0 B", "0 s"]


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (of_bytes(999), "999 B"),
        (of_bytes(1_500), "1.5 kB"),
        (of_bytes(79_800_000_000), "79.8 GB"),
        (of_bytes(5 * 10**15), "5,000 TB"),
        (duration(59.9), "59.9 s"),
        (duration(90), "1.5 min"),
        (duration(86_400 * 2), "2 d"),
        (amount(1_240), "1,240"),
    ],
)
def test_figures_are_short(figure: str, words: str) -> None:
    assert figure == words


def test_changed_values_are_shown_where_they_differ() -> None:
    long = "SELECT " + "a, " * 40
    assert change(1, None) == ["1 → (none)"]
    assert change(True, False) == ["true → false"]
    assert change(["a"], ["a", "b"]) == ["[a] → [a, b]"]
    assert change("one\ntwo", "one\nthree") == ["- two", "+ three"]
    before, after = change(long + "FROM x", long + "FROM y")
    assert before.startswith("- …") and before.endswith("FROM x")
    assert after.endswith("FROM y") and len(after) < 40
