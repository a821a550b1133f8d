"""The command `trace` as people type it, against a platform in this process or behind HTTP."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.lite_app import CHAIN, OPERATORS
from tests.postgres.served import Served
from tests.postgres.test_webhooks import DAG as HOOKED
from trace_cli import main as cli
from trace_cli import profiles
from trace_core import telemetry
from trace_core.bootstrap import App
from trace_core.http.routes import Surface
from trace_core.settings import Settings

ON_THE_MACHINE = ("db", "dev", "org", "profile", "token", "worker")
"""Commands that no profile leads elsewhere."""


class Shell:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        profile: str | None = None,
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._profile = profile

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        chosen = ("--profile", self._profile) if self._profile else ()
        if arguments[0] in ON_THE_MACHINE or arguments[0].startswith("-"):
            chosen = ()
        self._monkeypatch.setattr(sys, "argv", ["trace", *chosen, *arguments])
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = self._capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    def says(self, *arguments: str, stdin: str = "") -> str:
        code, out, err = self.run(*arguments, stdin=stdin)
        assert (code, err) == (0, "")
        return out

    def fails(self, *arguments: str, stdin: str = "") -> str:
        code, out, err = self.run(*arguments, stdin=stdin)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert "Traceback" not in err
        return err

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))


def prepare(monkeypatch: pytest.MonkeyPatch, dsn: str, data_dsn: str, folder: Path) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRACE_STATE_DSN", dsn)
    monkeypatch.setenv("TRACE_DATA_DSN", data_dsn)
    monkeypatch.setenv("TRACE_HOME", str(folder / "home"))
    monkeypatch.setenv("TRACE_OPERATOR_MODULES", OPERATORS)
    monkeypatch.setenv(profiles.VARIABLE, str(folder / "profiles.toml"))
    (folder / "chain.yaml").write_text(CHAIN)
    (folder / "hooked.yaml").write_text(HOOKED)


@contextmanager
def served_here(folder: Path) -> Iterator[Served]:
    """The platform of the environment behind HTTP, with a profile `there` for its first member."""
    with (folder / "server.log").open("w") as log, telemetry.redirected(log):
        app = App(Settings.from_env())
        served = Served(app)
        (folder / "token").write_text(app.user_token + "\n")
        url = served.servers[Surface.USER].url
        profiles.add("there", url, app.settings.org, {"file": str(folder / "token")})
        try:
            yield served
        finally:
            served.stop()
            app.close()


@pytest.fixture
def local_shell(
    state_dsn: str,
    data_dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    prepare(monkeypatch, state_dsn, data_dsn, tmp_path)
    return Shell(monkeypatch, capsys)


@pytest.fixture(params=["in this process", "over HTTP"])
def shell(
    request: pytest.FixtureRequest,
    state_dsn: str,
    data_dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Shell]:
    """Every test of commands runs both ways: commands do not know where they go."""
    prepare(monkeypatch, state_dsn, data_dsn, tmp_path)
    if request.param == "in this process":
        yield Shell(monkeypatch, capsys)
        return
    with served_here(tmp_path):
        yield Shell(monkeypatch, capsys, profile="there")
