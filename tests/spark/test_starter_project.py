"""`trace init` makes a project whose fixtures pass; an operator that breaks is shown row by row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(sys.executable).with_name("trace")


def trace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TRACE_")
    }
    return subprocess.run(
        [TRACE, *arguments],
        cwd=folder,
        env={**environment, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = trace(tmp_path, "init", "shiny-whales")
    assert made.returncode == 0, made.stderr
    assert "cd shiny-whales" in made.stdout
    return tmp_path / "shiny-whales"


def test_the_starter_project_is_valid_and_its_fixtures_pass(project: Path) -> None:
    checked = trace(project / "dags", "dag", "validate", "transfers.dag.yaml")
    assert checked.returncode == 0, checked.stdout
    tested = trace(project, "test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.splitlines()[-1] == "4 fixtures, all as expected"


def test_an_operator_that_breaks_is_shown_row_by_row(project: Path) -> None:
    operator = project / "shiny_whales_operators" / "make_transfers.py"
    text = operator.read_text()
    operator.write_text(text.replace("str(each * 100)", "str(each * 100 + (each == 8))"))
    assert operator.read_text() != text
    tested = trace(project, "test", "--only", "each number")
    assert tested.returncode == 1
    assert "output 0: 3 rows expected, 3 written: 1 changed" in tested.stdout
    assert ["changed", "8", "sender-2", "800", "->", "801"] in [
        line.split() for line in tested.stdout.splitlines()
    ]
    assert tested.stdout.splitlines()[-1] == "1 fixture, 1 failed"


def test_nothing_is_put_into_a_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    refused = trace(tmp_path, "init", ".")
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["README.md"]
    forced = trace(tmp_path, "init", ".", "--force")
    assert forced.returncode == 0
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "kept  README.md" in forced.stdout
    assert (tmp_path / "dags" / "transfers.dag.yaml").is_file()
