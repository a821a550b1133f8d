"""The command as people call it: clear errors, exit code 1, no traceback."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from trace_cli import main as cli
from trace_core.adapters.lite.home import Home


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["trace", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACE_HOME", raising=False)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["dag", "--help"], ["task", "--help"], ["db", "--help"], ["dev", "--help"]],
)
def test_help_is_given_without_a_home_folder(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(arguments, monkeypatch) == 0
    assert not (tmp_path / ".trace").exists()


def test_a_wrong_setting_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_USER_PORT", "many")
    assert run(["status"], monkeypatch) == 1
    assert capsys.readouterr().err == "error: Not a valid value: TRACE_USER_PORT.\n"


def test_a_database_that_does_not_answer_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_STATE_DSN", "postgresql://u:hunter2@127.0.0.1:1/d")
    assert run(["status"], monkeypatch) == 1
    assert capsys.readouterr().err == "error: The state database does not answer.\n"


def test_a_worker_without_a_token_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["worker"], monkeypatch) == 1
    assert "TRACE_WORKER_TOKEN" in capsys.readouterr().err


def test_an_unexpected_failure_shows_where_but_not_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("a private value")

    monkeypatch.setattr(cli, "app", broken)
    assert run([], monkeypatch) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err
    assert "test_main.py" in err
    assert "private" not in err
    assert "Traceback" not in err


def test_a_taken_port_ends_trace_dev_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("TRACE_USER_PORT", str(port))
        assert run(["dev"], monkeypatch) == 1
    captured = capsys.readouterr()
    assert captured.err == f"error: Port {port} (user_api) is in use by another program.\n"
    assert not (tmp_path / ".trace" / "postgres").exists()


def test_a_second_trace_dev_in_one_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Home(Path(".trace")).write_running({"urls": {}})
    assert run(["dev"], monkeypatch) == 1
    assert "already runs" in capsys.readouterr().err
