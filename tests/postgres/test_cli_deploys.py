"""The commands that change what runs: plan, apply, deploy, rollback, backfill."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres.deploying import EDITED, PIPE, feed, settle, work
from tests.postgres.lite_app import SilentWaker
from tests.postgres.shell import Shell
from trace_core.bootstrap import App
from trace_core.database.state import StateDatabase
from trace_core.settings import Settings


@pytest.fixture
def app(shell: Shell, state_database: StateDatabase, tmp_path: Path) -> Iterator[App]:
    """The platform behind the commands, with `pipe` deployed and six cursors through it."""
    (tmp_path / "pipe.yaml").write_text(PIPE)
    (tmp_path / "edited.yaml").write_text(EDITED)
    shell.says("dag", "apply", "pipe.yaml")
    found = App(Settings.from_env(), state=state_database, waker=SilentWaker())
    feed(found, found.own_org, 0, 6)
    settle(found, found.own_org)
    yield found
    found.close()


@contextmanager
def at_work(app: App) -> Iterator[None]:
    """Builds, backfills and workers go on while a command waits."""
    stop = threading.Event()

    def drive() -> None:
        while not stop.is_set():
            app.builds.chore()
            app.backfills.chore()
            work(app, app.own_org, 3)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_plan_says_by_its_exit_code_whether_there_is_something_to_do(
    shell: Shell, app: App, tmp_path: Path
) -> None:
    assert shell.run("dag", "plan", "pipe.yaml")[0] == 0
    code, out, err = shell.run("dag", "plan", "edited.yaml")
    assert (code, err) == (2, "")
    assert "execution_strategy  PerUpdate → PerPartition" in out
    assert "Next: trace dag apply edited.yaml" in out
    code, out, _ = shell.run("dag", "plan", "edited.yaml", "--json")
    assert (code, json.loads(out)["rebuild_set"]) == (2, ["first", "second"])
    (tmp_path / "typo.yaml").write_text(PIPE.replace("operator: pass_on", "operator: pass_in", 1))
    code, out, err = shell.run("dag", "plan", "typo.yaml")
    assert (code, out) == (1, "")
    assert "did you mean `pass_on`?" in err
    assert shell.json("deploy", "list", "pipe")["deploys"][0]["number"] == 1, "nothing changed"


def test_a_rebuild_needs_a_yes_where_nobody_can_be_asked(shell: Shell, app: App) -> None:
    code, out, err = shell.run("dag", "apply", "edited.yaml")
    assert (code, "Rebuild, estimated" in out) == (1, True)
    assert err == "error: This plan rebuilds first, second: look at it, then apply it with --yes.\n"
    assert "--yes" in shell.fails("dag", "apply", "edited.yaml", "--json")
    out = shell.says("dag", "apply", "edited.yaml", "--yes")
    assert out.endswith("\nDeploy 2 builds pipe version 2: first, second.\n")
    assert "Next: trace dag apply" not in out


def test_settings_are_changed_without_a_yes(shell: Shell, app: App, tmp_path: Path) -> None:
    text = PIPE.replace("operator: pass_on", "operator: pass_on\n    max_attempts: 5", 1)
    (tmp_path / "settings.yaml").write_text(text)
    assert "Deployed pipe version 2" in shell.says("dag", "apply", "settings.yaml")


def test_a_build_is_waited_for(shell: Shell, app: App) -> None:
    with at_work(app):
        out = shell.says("dag", "apply", "edited.yaml", "--yes", "--wait", "--concurrency", "2")
    assert "\nBuilding: " in out
    assert out.endswith("Deploy 2 of pipe is done: version 2 is active.\n")
    versions = shell.says("dag", "versions", "pipe")
    assert [line.split()[:2] for line in versions.splitlines()[2:]] == [
        ["2", "active"],
        ["1", "former"],
    ]
    with at_work(app):
        done = shell.json("dag", "apply", "pipe.yaml", "--yes", "--wait")
    assert (done["status"], done["to_version"]) == ("Done", 1)


def test_waiting_ends_with_1_when_the_build_does_not_end_well(shell: Shell, app: App) -> None:
    shell.says("dag", "apply", "edited.yaml", "--yes")
    app.builds.chore()
    app.state.write("test", "UPDATE deploys SET error = '3 tasks of the build failed'", {})
    code, out, _ = shell.run("dag", "apply", "edited.yaml", "--yes", "--wait")
    assert code == 1
    assert "Deploy 2 of pipe version 2 is Building already." in out
    assert "stands still: 3 tasks of the build failed." in out
    shell.says("deploy", "cancel", "pipe")
    settle(app, app.own_org)
    assert "Canceled" in shell.says("deploy", "show", "pipe")


def test_a_kept_plan_is_applied_as_it_is_or_not_at_all(
    shell: Shell, app: App, tmp_path: Path
) -> None:
    assert shell.run("dag", "plan", "edited.yaml", "--out", "kept.json")[0] == 2
    (tmp_path / "edited.yaml").unlink()
    assert "Deploy 2 builds" in shell.says("dag", "apply", "kept.json", "--yes")
    settle(app, app.own_org)
    assert "plan again" in shell.fails("dag", "apply", "kept.json", "--yes")
    assert shell.json("deploy", "list", "pipe")["deploys"][0]["number"] == 2
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert shell.run("dag", "plan", "pipe.yaml", "--out", "back.json")[0] == 2
    forged = json.loads((tmp_path / "back.json").read_text()) | {"text": kept["text"]}
    (tmp_path / "back.json").write_text(json.dumps(forged))
    assert "plan again" in shell.fails("dag", "apply", "back.json", "--yes")


def test_a_deploy_is_shown_paused_resumed_and_canceled(shell: Shell, app: App) -> None:
    assert "under way" in shell.fails("deploy", "pause", "pipe")
    shell.says("dag", "apply", "edited.yaml", "--yes")
    app.builds.chore()
    work(app, app.own_org, 3)
    feed(app, app.own_org, 100, 2)
    shown = shell.says("deploy", "show", "pipe")
    for part in ("2 of pipe (deploy)", "1 → 2", "Building", "25%", "candidate", "Live held  2"):
        assert part in shown
    assert "candidate" in shell.says("dag", "versions", "pipe")
    assert "first (held)" in (status := shell.says("status"))
    assert "first (candidate)" in status
    assert "waits for the build of deploy 2" in shell.says("task", "list", "--job", "first")
    assert shell.says("deploy", "pause", "pipe") == "Deploy 2 of pipe is paused.\n"
    assert shell.says("deploy", "resume", "pipe") == "Deploy 2 of pipe goes on.\n"
    assert shell.json("deploy", "show", "pipe", "2")["progress"]["held_tasks"] == 2
    assert shell.says("deploy", "cancel", "pipe") == "Deploy 2 of pipe is canceled.\n"
    assert "Canceled" in shell.says("deploy", "list", "pipe")


def test_a_rollback_shows_what_it_will_do_and_what_it_did(shell: Shell, app: App) -> None:
    assert "no earlier version" in shell.fails("dag", "rollback", "pipe", "--yes")
    shell.says("dag", "apply", "edited.yaml", "--yes")
    settle(app, app.own_org)
    feed(app, app.own_org, 6, 2)
    settle(app, app.own_org)
    code, out, err = shell.run("dag", "rollback", "pipe")
    assert (code, err) == (1, "error: This takes pipe from version 2 to 1: say --yes.\n")
    assert "version 2 → version 1" in out
    out = shell.says("dag", "rollback", "pipe", "--yes")
    assert "Rolled back pipe to version 1 (deploy 3)." in out
    rows = {line.split()[0]: line.split()[-3:] for line in out.splitlines()[-2:]}
    assert rows == {"first": ["0", "2", "0"], "second": ["seconds", "0", "0"]}
    settle(app, app.own_org)
    assert shell.json("dag", "rollback", "pipe", "--to", "2", "--yes")["version"] == 2


def test_a_range_is_computed_again_watched_paused_and_given_up(shell: Shell, app: App) -> None:
    assert shell.says("backfill", "list", "pipe") == "No backfills.\n"
    begin = ("dag", "backfill", "pipe", "second", "--from", "1", "--to", "4")
    with at_work(app):
        out = shell.says(*begin, "--reason", "a bug", "--window", "2", "--wait")
    assert out.startswith("Backfill 1 of pipe.second computes 4 scopes again.\n")
    assert out.endswith("Done: 4 of 4 scopes completed\n")
    assert "under way" in shell.fails("backfill", "pause", "pipe")
    shell.says(*begin)
    assert shell.says("backfill", "pause", "pipe") == "Backfill 2 of pipe is paused.\n"
    assert shell.says("backfill", "resume", "pipe") == "Backfill 2 of pipe goes on.\n"
    shell.says(*begin)
    assert "name one of 3, 2" in shell.fails("backfill", "cancel", "pipe")
    assert shell.says("backfill", "cancel", "pipe", "3") == (
        "Backfill 3 of pipe is canceled, with 0 open tasks.\n"
    )
    listed = shell.says("backfill", "list", "pipe")
    assert "1-4" in listed and "4/4" in listed and "a bug" in listed
    rows = shell.json("backfill", "list", "pipe", "--limit", "2")
    assert [row["number"] for row in rows["backfills"]] == [3, 2]
