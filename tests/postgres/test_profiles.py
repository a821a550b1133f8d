"""`trace --profile NAME`: where commands go, and where their token comes from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.postgres.shell import Shell, served_here
from trace_cli import profiles
from trace_core.adapters.lite.home import Home
from trace_core.adapters.lite.http_server import LocalServer
from trace_core.http.routes import Surface


def test_profiles_are_added_listed_shown_and_removed(local_shell: Shell, tmp_path: Path) -> None:
    shell, file = local_shell, tmp_path / "profiles.toml"
    (only,) = shell.json("profile", "list")["profiles"]
    assert (only["name"], only["org"]) == ("lite", "local")
    file.write_text("# mine\n[profiles.hand]\nurl = 'https://a.example'\ntoken = {env = 'A'}\n")
    url = ("--url", "https://trace.example.com/dev/")
    said = shell.says("profile", "add", "staging", *url, "--org", "acme", "--token-env", "TOKEN")
    assert said == "Added staging.\n"
    shown = shell.json("profile", "show", "staging")
    assert shown == {
        "name": "staging",
        "url": "https://trace.example.com/dev",
        "org": "acme",
        "token": "the variable TOKEN",
        "file": str(file),
    }
    assert "already" in shell.fails("profile", "add", "staging", *url, "--token-env", "X")
    assert "already" in shell.fails("profile", "add", "lite", *url, "--token-env", "X")
    assert "staging" in shell.says("profile", "list")
    assert shell.says("profile", "remove", "staging") == "Removed staging.\n"
    assert file.read_text().startswith("# mine\n[profiles.hand]\n"), "what else is there stays"
    assert set(profiles.load()) == {"hand"}
    assert "lite, hand" in shell.fails("profile", "remove", "staging")
    assert "stays" in shell.fails("profile", "remove", "lite")
    for wrong in (
        ("Bad Name", *url, "--token-env", "X"),
        ("other", *url),
        ("other", *url, "--token-env", "X", "--token-file", "y"),
        ("other", "--url", "nonsense", "--token-env", "X"),
        ("other", "--url", "https://user:pass@host", "--token-env", "X"),
    ):
        shell.fails("profile", "add", *wrong)
    assert set(profiles.load()) == {"hand"}


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "profiles = 1",
        "profiles.a = 1",
        "[profiles.a]",
        "[profiles.a]\nurl = 'https://a'",
        "[profiles.a]\nurl = 'https://a'\ntoken = 'eyJhbGciOi'",
        "[profiles.a]\nurl = 'https://a'\ntoken = {env = 'A', file = 'b'}",
        "[profiles.a]\nurl = 'https://a'\ntoken = {command = 'sh -c x'}",
        "[profiles.a]\nurl = 'https://a'\ntoken = {env = 'A'}\nsecret = 1",
        "[profiles.a]\nurl = 1\ntoken = {env = 'A'}",
        "[profiles.a]\nurl = 'https://a'\norg = 1\ntoken = {env = 'A'}",
    ],
)
def test_a_broken_file_is_one_clear_message(local_shell: Shell, tmp_path: Path, text: str) -> None:
    (tmp_path / "profiles.toml").write_text(text)
    err = local_shell.fails("--profile", "a", "status")
    assert "profiles.toml" in err
    assert "eyJhbGciOi" not in err


def test_an_unknown_profile_names_those_that_there_are(local_shell: Shell) -> None:
    err = local_shell.fails("--profile", "staging", "status")
    assert err == (
        "error: There is no profile staging; there are: lite. See `trace profile add`.\n"
    )


def test_a_server_that_does_not_answer_is_named(local_shell: Shell) -> None:
    profiles.add("away", "http://127.0.0.1:1", None, {"env": "PATH_TO_NOWHERE"})
    assert "PATH_TO_NOWHERE is not set" in local_shell.fails("--profile", "away", "status")
    profiles.remove("away")
    local_shell.says("profile", "add", "away", "--url", "http://127.0.0.1:1", "--token-env", "HOME")
    err = local_shell.fails("--profile", "away", "status")
    assert "http://127.0.0.1:1 (profile away) does not answer: 127.0.0.1: ConnectionRefused" in err
    profiles.add("open", "http://trace.example.com", None, {"env": "HOME"})
    assert "not https" in local_shell.fails("--profile", "open", "status")


def test_something_else_than_trace_behind_the_address_is_said_so(local_shell: Shell) -> None:
    def page(_event: object, _context: object) -> dict[str, object]:
        return {"statusCode": 404, "body": "<html>"}

    server = LocalServer("other", page, 0)
    server.start()
    profiles.add("other", server.url, None, {"env": "HOME"})
    assert "not as Trace does" in local_shell.fails("--profile", "other", "status")
    server.stop()


def test_a_refused_token_is_said_with_where_it_came_from_and_never_shown(
    local_shell: Shell, tmp_path: Path
) -> None:
    with served_here(tmp_path):
        (tmp_path / "token").write_text("eyJhbGciOiJub25lIn0.e30.")
        err = local_shell.fails("--profile", "there", "status")
    assert "A valid token is required." in err
    assert f"profile there, which comes from the file {tmp_path / 'token'}" in err
    assert "eyJ" not in err


@pytest.mark.parametrize("source", ["env", "file", "command"])
def test_a_token_comes_from_where_the_profile_says(
    local_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    with served_here(tmp_path) as served:
        token = (tmp_path / "token").read_text().strip()
        monkeypatch.setenv("MY_TOKEN", token)
        script = f"print(open({str(tmp_path / 'token')!r}).read())"
        given = {
            "env": ("--token-env", "MY_TOKEN"),
            "file": ("--token-file", "token"),
            "command": ("--token-command", shlex.join([sys.executable, "-c", script])),
        }[source]
        url = served.servers[Surface.USER].url
        local_shell.says("profile", "add", "mine", "--url", url, *given)
        assert local_shell.says("--profile", "mine", "status") == "No DAG is deployed.\n"
        shown = local_shell.says("profile", "show", "mine") + local_shell.says("profile", "list")
        assert token not in shown + (tmp_path / "profiles.toml").read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/does/not/exist", "cannot be run"),
        (f"{sys.executable} -c 'raise SystemExit(3)'", "ended with 3"),
        (f"{sys.executable} -c 'print()'", "is none"),
        (f"{sys.executable} -c 'print(1, 2)'", "is none"),
    ],
)
def test_a_command_that_gives_no_token_is_said_so(
    local_shell: Shell, command: str, said: str
) -> None:
    url = ("--url", "http://127.0.0.1:1")
    local_shell.says("profile", "add", "mine", *url, "--token-command", command)
    err = local_shell.fails("--profile", "mine", "status")
    assert "No token" in err and said in err


@pytest.mark.parametrize(
    "command",
    [("db", "status"), ("token",), ("org", "create", "a", "--admin", "b"), ("dev",), ("worker",)],
)
def test_commands_of_the_machine_go_through_no_profile(
    local_shell: Shell, command: tuple[str, ...]
) -> None:
    profiles.add("away", "http://127.0.0.1:1", None, {"env": "HOME"})
    assert "leave --profile out" in local_shell.fails("--profile", "away", *command)


def test_beside_trace_dev_commands_go_to_its_server(local_shell: Shell, tmp_path: Path) -> None:
    with served_here(tmp_path) as served:
        home = Home(tmp_path / "home")
        urls = {
            "user_api": served.servers[Surface.USER].url,
            "issuer": served.app.settings.issuer_address,
        }
        home.write_running({"urls": urls, "org": "local"})
        assert "Deployed chain" in local_shell.says("dag", "apply", "chain.yaml")
        (entry,) = local_shell.json("audit", "--action", "dag")["entries"]
        assert entry["request_id"].startswith("user_api-"), "it came in through the server"
        profiles.add("dev", urls["user_api"], None, {"lite": str(home.folder)})
        assert "chain" in local_shell.says("--profile", "dev", "dag", "list")
        home.remove_running()
        assert "no `trace dev` runs" in local_shell.fails("--profile", "dev", "dag", "list")
        assert "chain" in local_shell.says("dag", "list"), "and without it, in this process"


def test_the_new_commands_show_versions_files_attempts_and_events(shell: Shell) -> None:
    shell.says("dag", "apply", "chain.yaml")
    assert "range_request" in shell.says("dag", "show", "chain")
    assert "active" in shell.says("dag", "versions", "chain")
    assert "per_slice: 5" in shell.says("dag", "source", "chain")
    assert shell.json("dag", "source", "chain", "--version", "1")["number"] == 1
    shell.fails("dag", "source", "chain", "--version", "2")
    first = shell.json("task", "list", "--limit", "1")
    rest = shell.json("task", "list", "--cursor", first["next"])
    assert len(first["tasks"]) == len(rest["tasks"]) == 1
    task = first["tasks"][0]["task_id"]
    assert shell.says("task", "attempts", task) == "No attempt has ended.\n"
    assert shell.says("event", "list", "--task", task) == "No events.\n"
    shell.fails("event", "list", "--task", "nope")
