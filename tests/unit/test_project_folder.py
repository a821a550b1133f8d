"""What `trace.toml` does, and what the name of a project becomes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trace_cli import project
from trace_cli.init import project_name
from trace_cli.main import app
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


def _init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


@pytest.mark.parametrize("inside", ["", "/deeper/still"])
def test_a_file_where_a_folder_goes_is_told_before_anything_is_written(
    tmp_path: Path, inside: str
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    done = _init(f"{taken}{inside}")
    assert isinstance(done.exception, Invalid)
    assert "is a file" in done.exception.message
    (tmp_path / "dags").write_text("mine")
    done = _init(str(tmp_path), "--force")
    assert isinstance(done.exception, Invalid)
    assert f"{tmp_path / 'dags'} is a file" in done.exception.message
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dags", "taken"]


def test_a_project_does_not_write_through_a_link(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere.toml"
    project.mkdir()
    (project / "trace.toml").symlink_to(elsewhere)
    done = _init(str(project), "--force")
    assert done.exit_code == 0, done.output
    assert "kept  trace.toml" in done.output
    assert not elsewhere.exists()


def test_what_to_do_next_can_be_copied_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "my $whales"
    assert f"cd '{folder}'" in _init(str(folder)).output.replace("\n", "")


def test_a_name_that_no_folder_can_have_is_told(tmp_path: Path) -> None:
    done = _init(str(tmp_path / ("x" * 300)))
    assert isinstance(done.exception, Invalid)
    assert "cannot be made" in done.exception.message
