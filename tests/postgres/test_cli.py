"""The commands against a real database: what people read, and what scripts parse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.lite_app import CHAIN
from tests.postgres.shell import Shell
from trace_core.database.state import StateDatabase


def test_a_dag_is_deployed_once(shell: Shell) -> None:
    assert shell.run("status")[:2] == (0, "No DAG is deployed.\n")
    assert shell.says("dag", "apply", "chain.yaml").endswith(
        "\nDeployed chain version 1 with 4 jobs.\n"
    )
    assert shell.says("dag", "apply", "chain.yaml").endswith("Nothing to do.\n")


def test_the_problems_of_a_file_are_shown_where_they_are(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "typo.yaml").write_text(CHAIN.replace("operator: pass_on", "operater: pass_on", 1))
    code, out, err = shell.run("dag", "apply", "typo.yaml")
    assert (code, out) == (1, "")
    assert "typo.yaml:16:5: jobs[1].operater" in err
    assert "did you mean `operator`?" in err
    assert "error: typo.yaml has 1 problem\n" in err


def test_dags_and_tasks_are_listed_steered_and_printed_as_json(shell: Shell) -> None:
    shell.run("dag", "apply", "chain.yaml")
    assert "paused" not in shell.run("dag", "list")[1]
    assert shell.run("dag", "pause", "chain")[1] == "Paused chain.\n"
    assert shell.json("dag", "list")["dags"][0]["paused_at"]
    assert shell.run("dag", "resume", "chain")[1] == "Resumed chain.\n"
    asked = shell.run("dag", "trigger", "chain", "history", "start=1", "end=10")
    assert asked == (0, "Asked chain.history: request 1.\n", "")
    tasks = shell.json("task", "list", "--dag", "chain")["tasks"]
    assert {each["job"] for each in tasks} == {"numbers", "history"}
    source = next(each["task_id"] for each in tasks if each["job"] == "numbers")
    assert source in shell.run("task", "list")[1]
    assert "waits for a worker" in shell.run("task", "show", source)[1]
    assert shell.json("task", "show", source)["attempts"] == []
    assert shell.run("task", "logs", source)[1] == "No logs.\n"
    code, _, err = shell.run("task", "cancel", source)
    assert (code, err.count("\n")) == (1, 1)
    assert "pause its DAG instead" in err
    assert shell.run("task", "retry", source)[0] == 1
    assert shell.json("status")["totals"]["queued"] >= 1


def test_the_outbox_is_listed_and_reset(shell: Shell, state_database: StateDatabase) -> None:
    assert shell.run("outbox", "list")[1] == "No outbox rows.\n"
    shell.run("dag", "apply", "chain.yaml")
    (row,) = shell.json("outbox", "list")["rows"]
    assert (row["kind"], row["target"], row["status"]) == ("wake", "worker", "Pending")
    state_database.write(
        "test", "UPDATE outbox SET status = 'Failed', attempts = 20, last_error = 'Unavailable'", {}
    )
    out = shell.run("outbox", "list", "--status", "Failed", "--target", "worker")[1]
    for shown in (row["outbox_id"], "wake", "Failed", "20", "ago", "Unavailable"):
        assert shown in out
    assert shell.run("outbox", "reset", "--kind", "other")[1] == "Reset 0 outbox rows.\n"
    assert shell.run("outbox", "reset", row["outbox_id"])[1] == "Reset 1 outbox row.\n"
    assert shell.json("outbox", "list")["rows"][0]["attempts"] == 0
    assert shell.json("outbox", "reset", "--status", "Pending") == {"reset": 0}


def test_quotas_are_set_listed_and_cleared(shell: Shell) -> None:
    assert shell.run("quota", "list")[1] == "Nothing is limited.\n"
    assert shell.run("quota", "set", "--max-running", "0")[1] == "Set the quota.\n"
    assert "0/0" in (out := shell.run("quota", "list")[1]) and "full" in out
    shell.json("quota", "set", "--max-running", "5", "--reserved-for-live", "2")
    (counter,) = shell.json("quota", "list")["counters"]
    assert (counter["kind"], counter["max_running"], counter["reserved_for_live"]) == ("org", 5, 2)
    assert "full" not in shell.run("quota", "list")[1]
    assert shell.run("quota", "clear")[1] == "Removed the quota.\n"
    assert shell.run("quota", "clear")[1] == "There is no quota.\n"


POOLED = """
version: 1
name: pooled
worker_pools:
  rpc:
    - { name: one, env: { RPC_UPSTREAM: provider_a } }
jobs:
  - { name: history, activation: source, runtime: worker, operator: range_request,
      source: { kind: manual }, worker_pool: rpc, outputs: 1 }
"""


def test_slots_are_listed_and_released(
    shell: Shell, state_database: StateDatabase, tmp_path: Path
) -> None:
    (tmp_path / "pooled.yaml").write_text(POOLED)
    shell.says("dag", "apply", "pooled.yaml")
    state_database.write(
        "test",
        "UPDATE slots SET failures = 3, requests = 40, rate_limited = 7,"
        " last_fault = 'rate_limited', quarantined_until = '2099-01-01Z'",
        {},
    )
    out = shell.run("slot", "list", "--dag", "pooled")[1]
    for shown in ("provider_a", "quarantined", "40", "7", "rate_limited, 3 in a row"):
        assert shown in out
    assert shell.run("slot", "release", "pooled", "rpc", "one")[1] == "Released slot one.\n"
    again = shell.run("slot", "release", "pooled", "rpc", "one")[1]
    assert again == "Slot one is in no quarantine.\n"
    assert shell.json("slot", "list")["slots"][0]["state"] == "free"


def test_queues_are_listed_and_redriven(shell: Shell) -> None:
    (queue,) = shell.json("queue", "list")["queues"]
    assert (queue["visible"], queue["in_flight"], queue["dead"]) == (0, 0, 0)
    assert queue["queue"] in shell.run("queue", "list")[1]
    assert shell.run("queue", "redrive")[1] == "Moved 0 messages back.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("task", "show", "nope"),
        ("task", "show", "../../v1/dags"),
        ("task", "logs", "00000000-0000-0000-0000-000000000000"),
        ("dag", "pause", "nope"),
        ("dag", "trigger", "chain", "nope"),
        ("dag", "trigger", "chain", "history", "no-equals-sign"),
        ("dag", "apply", "absent.yaml"),
        ("task", "list", "--cursor", "nope"),
        ("task", "list", "--dag", "Not A Name"),
        ("outbox", "list", "--cursor", "nope"),
        ("outbox", "reset", "nope"),
        ("quota", "set"),
        ("quota", "set", "--max-running", "3", "--reserved-for-live", "3"),
        ("queue", "redrive", "lambda"),
    ],
)
def test_a_mistake_is_one_clear_message_and_exit_code_1(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    code, out, err = shell.run(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_migrations_are_listed_and_nothing_is_left_to_apply(shell: Shell) -> None:
    assert shell.run("db", "migrate")[1] == "Nothing to do: every migration is applied.\n"
    assert all(each["applied_at"] for each in shell.json("db", "status")["migrations"])


def test_a_database_without_its_tables_says_what_to_run(
    local_shell: Shell, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_STATE_DSN", empty_dsn)
    code, _, err = local_shell.run("status")
    assert (code, err) == (
        1,
        "error: The state database lacks migrations: run `trace db migrate`.\n",
    )
    assert local_shell.json("db", "migrate")["applied"]
    assert local_shell.run("status")[0] == 0
