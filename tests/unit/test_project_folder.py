"""What `trace.toml` does, and what the name of a project becomes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from trace_cli import project
from trace_cli.init import project_name
from trace_core.kernel.errors import Invalid


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TRACE_OPERATOR_MODULES", raising=False)
    # Set back to what they are now, whatever happens to them in a test.
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    (tmp_path / "below" / "it").mkdir(parents=True)
    (tmp_path / "trace.toml").write_text('operator_modules = ["mine.catalog", "more.py"]')
    return tmp_path


def test_commands_below_a_project_find_its_operators(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_OPERATOR_MODULES", "")
    assert project.enter(folder / "below" / "it") == folder
    assert os.environ["TRACE_OPERATOR_MODULES"] == f"mine.catalog,{folder / 'more.py'}"
    assert sys.path[0] == str(folder)
    assert os.environ["PYTHONPATH"] == f"{folder}{os.pathsep}/elsewhere"


def test_what_the_environment_says_comes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_OPERATOR_MODULES", "theirs.catalog")
    assert project.enter(folder) is None
    assert os.environ["TRACE_OPERATOR_MODULES"] == "theirs.catalog"
    assert str(folder) not in sys.path


def test_the_file_of_another_user_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert project.find(folder) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("operator_modules = [", "cannot be read"),
        ("operators = []", "there is no setting operators; known: operator_modules"),
        ('operator_modules = "mine"', "must be a list of module names"),
        ("operator_modules = [1]", "must be a list of module names"),
    ],
)
def test_a_broken_file_is_told(folder: Path, text: str, told: str) -> None:
    (folder / "trace.toml").write_text(text)
    with pytest.raises(Invalid, match=told):
        project.enter(folder)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("shiny-whales", "shiny_whales"),
        ("Shiny Whales!", "shiny_whales"),
        ("2026", "p_2026"),
        ("trace", "my_trace"),
        ("...", "my"),
    ],
)
def test_a_folders_name_becomes_one_of_pythons(given: str, name: str) -> None:
    assert project_name(Path("/some") / given) == name
    assert f"{name}_operators".isidentifier()
