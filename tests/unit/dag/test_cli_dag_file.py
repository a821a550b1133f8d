"""`validate` and `graph` as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trace_cli.dag_file import commands

HERE = Path(__file__).parent
EXAMPLE = str(HERE / "example.dag.yaml")
pytestmark = pytest.mark.usefixtures("shipped_without_stand_ins")

OPERATORS = ["--operators", str(HERE / "future_operators.py")]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(commands, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_a_good_file_is_one_line() -> None:
    code, output = run("validate", EXAMPLE, *OPERATORS)
    assert code == 0
    assert output == f"ok {EXAMPLE}: 9 jobs, 8 edges, 3 publications\n"


def test_a_bad_file_shows_every_problem_with_its_line_and_a_count() -> None:
    path = str(HERE / "bad" / "several_at_once.yaml")
    code, output = run("validate", EXAMPLE, path, *OPERATORS)
    assert code == 1
    assert output.startswith("ok ")
    assert f"{path}:14:25: jobs[1].execution_strategy: `bulk` is not" in output
    assert "14 |     execution_strategy: bulk\n   |                         ^\n" in output
    assert "  = did you mean `history`?" in output
    assert output.endswith(f"{path}: 4 problems\n")
    assert "\x1b" not in output


def test_brackets_in_a_file_are_not_taken_for_markup(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("version: 1\nname: '[red]x[/red]'\n")
    _, output = run("validate", str(path))
    assert "`[red]x[/red]` is not allowed" in output


def test_json_lists_files_and_problems() -> None:
    code, output = run("validate", "--json", EXAMPLE, str(HERE / "bad" / "cycle.yaml"), *OPERATORS)
    assert code == 1
    good, bad = json.loads(output)
    assert good == {"file": EXAMPLE, "ok": True, "problems": []}
    assert not bad["ok"]
    assert bad["problems"][0]["code"] == "cycle"
    assert bad["problems"][0]["line"] == 16
    assert set(bad["problems"][0]) == {
        "file", "line", "column", "field", "reason", "suggestion", "code",
    }  # fmt: skip


def test_a_file_that_is_not_there_is_a_problem_not_a_crash() -> None:
    code, output = run("validate", "nowhere.yaml")
    assert code == 1
    assert "nowhere.yaml:1:1: the file cannot be read: No such file or directory" in output


def test_operators_that_cannot_be_loaded_end_the_command() -> None:
    code, output = run("validate", EXAMPLE, "--operators", "no_such_module_here")
    assert code == 1
    assert "there is no module no_such_module_here" in output


def test_the_graph_is_printed_in_three_forms() -> None:
    code, text = run("graph", EXAMPLE, *OPERATORS)
    assert code == 0
    assert "│ block_follower" in text
    code, text = run("graph", EXAMPLE, "--format", "mermaid", *OPERATORS)
    assert code == 0
    assert text.startswith("flowchart LR")
    code, text = run("graph", EXAMPLE, "--format", "json", *OPERATORS)
    assert code == 0
    assert json.loads(text)["name"] == "monad_mainnet"


def test_the_graph_of_a_bad_file_is_its_problems() -> None:
    code, output = run("graph", str(HERE / "bad" / "cycle.yaml"), *OPERATORS)
    assert code == 1
    assert "chunks -> alerts -> chunks" in output
