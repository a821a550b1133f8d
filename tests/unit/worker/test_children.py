from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.operators.payloads import make_payload
from tests.unit.worker.conftest import OPERATORS
from tests.unit.worker.platform_for_tests import WORKER_TOKEN, eventually
from trace_core.kernel.errors import Unavailable
from trace_core.worker.attempt import Reason, RunControl
from trace_core.worker.child import Ended, Finished, Work
from trace_core.worker.children import ChildPool
from trace_core.worker.logs import LOG_MAX

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def work(
    operator: str,
    config: Mapping[str, Any] | None = None,
    *,
    timeout: float = 20.0,
    env: Mapping[str, str] | None = None,
    secrets: Sequence[str] = (),
    **changes: Any,
) -> Work:
    payload = make_payload(operator, config, **changes)
    return Work(payload, NOW, timeout, env or {}, secrets)


def run(pool: ChildPool, operator: str, config: Any = None, **more: Any) -> Finished:
    return pool.run(work(operator, config, **more), RunControl())


def fields(finished: Finished) -> Mapping[str, Any]:
    assert finished.outcome is not None, finished
    return finished.outcome.fields


def is_running(pid: int) -> bool:
    try:
        # A zombie has ended; only its parent has not looked yet.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_result_comes_back_with_the_datasets_of_its_outputs(pool: ChildPool) -> None:
    task = work("pass_on", trigger={"start": 1, "end": 5, "revision": 4})
    finished = pool.run(task, RunControl())
    output = task.payload["outputs"][0]
    assert fields(finished)["status"] == "Completed"
    assert fields(finished)["events"] == [
        {
            "dataset_uuid": output["dataset_uuid"],
            "dataset_version": output["dataset_version"],
            "partition_key": "1-5",
            "start": 1,
            "end": 5,
            "revision": 4,
        }
    ]


def test_a_source_yields_with_its_state_compared_to_the_revision_it_saw(pool: ChildPool) -> None:
    state = [{"key": "next", "revision": 6, "value": 40}]
    job = {"activation": "source", "source_kind": "always_on"}
    found = fields(run(pool, "emit_cursors", {"per_slice": 2}, job=job, state=state))
    assert found["status"] == "Yielded"
    assert [event["cursor"] for event in found["events"]] == [40, 41]
    assert found["state"] == [{"key": "next", "revision": 6, "value": 42}]


def test_children_are_reused_from_task_to_task(pool: ChildPool) -> None:
    before = set(pool.pids)
    for _ in range(5):
        run(pool, "pass_on", trigger={"cursor": 1})
    assert set(pool.pids) == before


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("kill", "killed by SIGKILL"),
        ("segfault", "killed by SIGSEGV"),
        ("os_exit", "exited with status 7"),
    ],
)
def test_a_child_that_dies_is_noticed_named_and_replaced(
    pool: ChildPool, tmp_path: Path, how: str, words: str
) -> None:
    config = {"marker": str(tmp_path / "crashed"), "how": how}
    began = time.monotonic()
    finished = run(pool, "crash_once", config)
    assert time.monotonic() - began < 5
    assert finished.how is Ended.DIED
    assert words in finished.reason
    assert b"about to crash" in finished.log
    assert fields(run(pool, "crash_once", config))["status"] == "Completed"
    assert len(pool.pids) == pool.size


def test_sys_exit_fails_the_task_and_spares_the_child(pool: ChildPool, tmp_path: Path) -> None:
    before = set(pool.pids)
    found = fields(run(pool, "crash_once", {"marker": str(tmp_path / "x"), "how": "exit"}))
    assert (found["status"], found["error_code"]) == ("Failed", "SystemExit")
    assert set(pool.pids) == before


def test_kill_9_from_outside_in_the_middle_of_a_task_is_noticed_at_once(
    pool: ChildPool, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"
    results: list[Finished] = []
    thread = threading.Thread(
        target=lambda: results.append(run(pool, "sleep", {"marker": str(marker)}))
    )
    thread.start()
    pid = int(eventually(lambda: marker.exists() and marker.read_text()))
    os.kill(pid, signal.SIGKILL)
    thread.join(timeout=5)
    assert results[0].how is Ended.DIED
    assert "SIGKILL" in results[0].reason
    assert b"falling asleep" in results[0].log


def test_a_child_that_died_while_idle_is_replaced_before_the_next_task(pool: ChildPool) -> None:
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(is_running(pid) for pid in pool.pids))
    assert fields(run(pool, "pass_on", trigger={"cursor": 1}))["status"] == "Completed"


def test_a_task_that_takes_too_long_is_killed_with_everything_it_started(
    pool: ChildPool, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"
    finished = run(pool, "sleep", {"grandchild": True, "marker": str(marker)}, timeout=1.0)
    assert finished.how is Ended.TIMED_OUT
    grandchild = int(marker.read_text())
    eventually(lambda: not is_running(grandchild))


def test_a_task_that_notices_the_cancel_ends_itself(pool: ChildPool, tmp_path: Path) -> None:
    before, marker = set(pool.pids), tmp_path / "pid"
    control = RunControl()

    def cancel() -> None:
        eventually(marker.exists)
        control.interrupt(Reason.CANCELED, grace=10)

    threading.Thread(target=cancel).start()
    config = {"cooperative": True, "marker": str(marker)}
    finished = pool.run(work("sleep", config), control)
    assert finished.how is Ended.DONE
    assert b"canceled, and so awake" in finished.log
    assert set(pool.pids) == before


def test_a_task_that_ignores_the_cancel_is_killed_after_the_grace(pool: ChildPool) -> None:
    control = RunControl()
    control.interrupt(Reason.CANCELED, grace=0.2)
    began = time.monotonic()
    assert pool.run(work("sleep"), control).how is Ended.INTERRUPTED
    assert time.monotonic() - began < 5


def test_a_child_sees_its_slot_and_nothing_of_the_workers_environment() -> None:
    environ = {**os.environ, "TRACE_WORKER_TOKEN": WORKER_TOKEN, "STATE_DSN": "postgres://secret"}
    pool = ChildPool(1, modules=[OPERATORS], task_api="http://127.0.0.1:9", environ=environ)
    try:
        finished = run(pool, "echo_env", env={"RPC_URL": "http://rpc", "RPC_KEY": "visible"})
        outside = b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in pool.pids)
    finally:
        pool.close()
    text = finished.log.decode()
    assert "RPC_URL=http://rpc" in text
    assert "TRACE_TASK_CAPABILITY_TOKEN=capability-token" in text
    for hidden in (WORKER_TOKEN, "TRACE_WORKER_TOKEN", "STATE_DSN", "postgres://secret"):
        assert hidden not in text
        assert hidden.encode() not in outside
    assert b"capability-token" not in outside


def test_the_environment_of_one_task_is_gone_in_the_next() -> None:
    pool = ChildPool(1, modules=[OPERATORS], task_api="http://127.0.0.1:9")
    try:
        leave = {"LEFT_BEHIND": "yes"}
        run(pool, "echo_env", {"leave": leave}, env={"RPC_KEY": "first"})
        names = ["RPC_KEY", "LEFT_BEHIND"]
        text = run(pool, "echo_env", {"names": names}).log.decode()
    finally:
        pool.close()
    assert "RPC_KEY=None" in text
    assert "LEFT_BEHIND=None" in text


def test_a_huge_output_keeps_its_beginning_and_its_end(pool: ChildPool) -> None:
    finished = run(pool, "shout", {"megabytes": 8})
    assert finished.log.startswith(b"first line")
    assert finished.log.rstrip().endswith(b"last line")
    assert b"bytes left out" in finished.log
    assert len(finished.log) < LOG_MAX + 100


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nothing", "returned NoneType, not a Result"),
        ("not_json", "not JSON"),
        ("nan", "not JSON"),
        ("unknown_output", "no output 7"),
        ("negative", "cursor"),
        ("not_an_event", "must be an Emit, not str"),
    ],
)
def test_a_result_that_cannot_be_reported_gives_one_clear_error(
    pool: ChildPool, kind: str, words: str
) -> None:
    found = fields(run(pool, "bad_result", {"kind": kind}))
    assert (found["status"], found["error_code"]) == ("Failed", "InvalidResult")
    assert words in found["error_message"]
    assert not found["retryable"]


def test_an_operator_that_raises_in_any_script_is_reported_in_bounds(pool: ChildPool) -> None:
    message = "schief gegangen: ü, 失敗, \U0001f4a5 " + "x" * 10_000
    found = fields(run(pool, "fail", {"message": message, "kind": "value"}))
    assert found["error_code"] == "ValueError"
    assert found["error_message"].startswith("\\ud800\\x00 schief gegangen: ü, 失敗, \U0001f4a5 x")
    assert len(found["error_message"]) <= 4000
    assert found["retryable"]


def test_the_traceback_tail_follows_the_message(pool: ChildPool) -> None:
    found = fields(run(pool, "fail", {"message": "no such block"}))
    assert found["error_message"].startswith("no such block\n\nTraceback")
    assert "operators_for_tests.py" in found["error_message"]
    assert not found["retryable"]


@pytest.mark.parametrize(
    ("operator", "config", "words"),
    [
        ("no_such_operator", {}, "has no operator no_such_operator"),
        ("sleep", {"secnods": 1}, "secnods"),
        ("range_aggregator", {"cursor": "n", "range_size": 1}, "runtime: dispatcher"),
    ],
)
def test_what_cannot_be_run_is_not_retried(
    pool: ChildPool, operator: str, config: Any, words: str
) -> None:
    found = fields(run(pool, operator, config))
    assert words in found["error_message"]
    assert not found["retryable"]


def test_a_child_is_recycled_after_its_share_of_tasks() -> None:
    pool = ChildPool(1, modules=[OPERATORS], task_api="http://127.0.0.1:9", tasks_per_child=2)
    pids = set()
    try:
        for _ in range(4):
            run(pool, "pass_on", trigger={"cursor": 1})
            pids.update(pool.pids)
    finally:
        pool.close()
    assert len(pids) == 3


ABANDONED = """
import sys, threading, time
from datetime import UTC, datetime
from trace_core.worker.attempt import RunControl
from trace_core.worker.child import Work
from trace_core.worker.children import ChildPool
import json
pool = ChildPool(2, modules=[sys.argv[1]], task_api="http://127.0.0.1:9")
pool.warm()
print(*pool.pids, flush=True)
pool.run(Work(json.loads(sys.argv[2]), datetime.now(UTC), 60.0), RunControl())
"""


def test_children_end_by_themselves_when_their_worker_is_killed(tmp_path: Path) -> None:
    marker, scratch = tmp_path / "pid", tmp_path / "scratch"
    scratch.mkdir()
    payload = json.dumps(make_payload("sleep", {"marker": str(marker)}))
    with subprocess.Popen(
        [sys.executable, "-c", ABANDONED, OPERATORS, payload],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch)},
    ) as worker:
        assert worker.stdout is not None
        pids = [int(pid) for pid in worker.stdout.readline().split()]
        eventually(marker.exists)
        worker.kill()
    eventually(lambda: not any(is_running(pid) for pid in pids))
    assert list(scratch.iterdir()) == []


def test_scratch_folders_do_not_outlive_their_tasks(tmp_path: Path) -> None:
    pool = ChildPool(1, modules=[OPERATORS], task_api="http://127.0.0.1:9", scratch_root=tmp_path)
    try:
        run(pool, "pass_on", trigger={"cursor": 1})
        run(pool, "sleep", timeout=0.2)
        assert list(tmp_path.iterdir()) == []
    finally:
        pool.close()


def test_a_pool_whose_operators_cannot_be_imported_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_thing\n")
    pool = ChildPool(1, modules=[str(broken)], task_api="http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="no_such_thing"):
        pool.warm()
    finished = run(pool, "pass_on")
    assert (finished.how, "no_such_thing" in finished.reason) == (Ended.DIED, True)
    pool.close()


def test_closing_the_pool_ends_running_tasks_and_leaves_no_process(tmp_path: Path) -> None:
    pool = ChildPool(2, modules=[OPERATORS], task_api="http://127.0.0.1:9")
    pool.warm()
    pids, marker = pool.pids, tmp_path / "pid"
    results: list[Finished] = []
    thread = threading.Thread(
        target=lambda: results.append(run(pool, "sleep", {"marker": str(marker)}))
    )
    thread.start()
    eventually(marker.exists)
    pool.close()
    thread.join(timeout=5)
    assert results[0].how is Ended.DIED
    assert not any(is_running(pid) for pid in pids)
    assert run(pool, "pass_on").how is Ended.DIED
