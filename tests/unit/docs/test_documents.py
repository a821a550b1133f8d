"""The documents agree with the code and with each other."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_core.database.migrate import migrations
from trace_core.dispatcher.service import DispatchReport

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
RUNBOOKS = DOCS / "runbooks"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
CALLS = {"count", "gauge", "milliseconds"}
COMPUTED = {
    # Where a metric's name is not a literal, and what it can be.
    "functions/dispatcher/handler.py": {
        f"Dispatcher{field.name.title().replace('_', '')}"
        for field in dataclasses.fields(DispatchReport)
    },
    "functions/reaper/handler.py": set[str](),  # the keys of `backlog_figures`, read below
}

_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_MACHINE_PATH = re.compile(
    r"(?<![\w.~/<>-])/(?:work|home|root|tmp|Users|var|opt|mnt|srv|private)/\S*"
)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _python_files() -> Iterator[Path]:
    yield from sorted((ROOT / "functions").rglob("*.py"))
    yield from sorted((ROOT / "shared" / "trace_core").rglob("*.py"))


def _telemetry_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CALLS
            and node.args
        ):
            receiver = ast.unparse(node.func.value)
            if receiver.endswith("telemetry") or receiver == "self":
                yield node


def _emitted() -> set[str]:
    names: set[str] = set()
    for file in _python_files():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for call in _telemetry_calls(tree):
            name = call.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                names.add(name.value)
            elif file.name != "telemetry.py":
                assert _name(file) in COMPUTED, f"{_name(file)}: say in COMPUTED what it emits"
                names |= COMPUTED[_name(file)]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "backlog_figures":
                names |= {
                    key.value
                    for found in ast.walk(node)
                    if isinstance(found, ast.Dict)
                    for key in found.keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                }
    return names


def _index() -> dict[str, list[str]]:
    """Metric -> runbooks, from the rows of the index that begin with a name in backticks."""
    rows = re.findall(
        r"^\| `(\w+)` \|(.*)\|\s*$", (RUNBOOKS / "README.md").read_text(encoding="utf-8"), re.M
    )
    return {name: _LINK.findall(rest) for name, rest in rows}


def test_every_metric_of_the_code_has_a_runbook() -> None:
    emitted = _emitted()
    assert {"BacklogDepth", "OutboxGivenUp", "Requests5xx", "FunctionErrors"} <= emitted
    missing = sorted(emitted - set(_index()))
    assert not missing, f"add to docs/runbooks/README.md: {', '.join(missing)}"


def test_the_index_names_no_metric_that_nothing_emits() -> None:
    gone = sorted(set(_index()) - _emitted())
    assert not gone, f"remove from docs/runbooks/README.md: {', '.join(gone)}"


def test_every_row_of_the_index_leads_to_a_runbook_about_that_metric() -> None:
    for name, runbooks in _index().items():
        assert runbooks, f"{name} has no runbook"
        for runbook in runbooks:
            assert name in (RUNBOOKS / runbook).read_text(encoding="utf-8"), f"{runbook}: {name}"


def test_every_runbook_has_the_same_sections_and_is_in_the_index() -> None:
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    sections = [
        "Symptom",
        "What it means",
        "How to look",
        "What to do",
        "How to know it is over",
    ]
    for runbook in sorted(RUNBOOKS.glob("*.md")):
        if runbook.name == "README.md":
            continue
        headings = re.findall(r"^## (.+)$", runbook.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == sections, runbook.name
        assert f"({runbook.name})" in index, f"{runbook.name} is not in the index"


def test_every_decision_is_in_the_index_and_has_its_sections() -> None:
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    for record in sorted((DOCS / "adr").glob("[0-9]*.md")):
        assert f"({record.name})" in index, f"{record.name} is not in the index"
        text = record.read_text(encoding="utf-8")
        assert text.startswith(f"# {record.name[:4]}: "), record.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ], record.name


def test_every_migration_is_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for migration in migrations():
        assert f"| {migration.number:04} | `{migration.name}` |" in text, migration.name


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_resolve(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT) and target.exists(), f"{_name(page)}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), f"{_name(page)}: {link}"


def _anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_no_page_names_a_path_of_one_machine(page: Path) -> None:
    found = _MACHINE_PATH.findall(page.read_text(encoding="utf-8"))
    assert not found, f"{_name(page)}: {found}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_code_blocks_are_closed_and_drawings_are_not_empty(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0 or text.startswith("```"), f"{_name(page)}: open block"
    for language, body in _FENCE.findall(text):
        if language == "mermaid":
            lines = [line for line in body.splitlines() if line.strip()]
            assert len(lines) > 1, f"{_name(page)}: an empty drawing"
            first = lines[0].split()[0]
            assert first in ("flowchart", "sequenceDiagram", "stateDiagram-v2"), first
