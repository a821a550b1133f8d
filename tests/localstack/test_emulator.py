"""One emulator for a folder, whoever starts it, and nothing left of it when it is stopped."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import psutil
import pytest

from infra.localstack.__main__ import emulator
from infra.localstack.emulator import Emulator, healthy
from infra.localstack.installation import Installation, fingerprint
from tests.localstack.functions import deploy
from tests.localstack.processes import wait_for_text, wait_until_gone
from tests.localstack_server import HOME, LocalStack, reach
from trace_core.kernel.errors import Busy, Unavailable

HANG = """
    import os, pathlib, time
    def handler(event, context):
        pathlib.Path(event).write_text(str(os.getpid()))
        time.sleep(600)
"""


def quiet(_line: str) -> None:
    """For progress that no test looks at."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose emulator is its own, from the installation that all tests share."""
    installed = HOME / "localstack" / "installed"
    Installation(installed).ensure(quiet)
    (tmp_path / "localstack").mkdir()
    (tmp_path / "localstack" / "installed").symlink_to(installed)
    yield tmp_path
    emulator(tmp_path).stop()


def command(home: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    kept = {key: value for key, value in os.environ.items() if key != "AWS_ENDPOINT_URL"}
    return subprocess.Popen(
        [sys.executable, "-m", "infra.localstack", *arguments],
        env={**kept, "TRACE_HOME": str(home), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


def test_clients_of_the_session_reach_the_emulator(
    localstack: LocalStack, aws: boto3.Session
) -> None:
    name = localstack.name("queue")
    url = aws.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    assert aws.client("sqs").get_queue_url(QueueName=name)["QueueUrl"] == url
    assert url.endswith(f"/{name}")


def test_names_are_new_each_time_and_fit_every_service(localstack: LocalStack) -> None:
    names = {localstack.name("queue") for _ in range(50)}
    assert len(names) == 50
    assert all(len(name) <= 40 and name.replace("-", "").isalnum() for name in names)


def test_two_starters_at_once_give_one_emulator_that_stays_until_it_is_stopped(
    home: Path, tmp_path: Path
) -> None:
    starters = [command(home, "start") for _ in range(2)]
    outputs = [said(starter) for starter in starters]
    running = emulator(home).running()
    assert running is not None
    assert "".join(outputs).count("Starting LocalStack at") == 1
    for output in (*outputs, said(command(home, "status"))):
        assert f"runs at {running.endpoint} (process {running.process_id})" in output
    assert emulator(home).start(quiet) == running

    # A test session that comes and goes leaves it alone.
    guest = emulator(home)
    assert guest.acquire(quiet) == running
    guest.release()
    assert healthy(running.endpoint)

    function = hanging_function(running.endpoint, tmp_path)
    assert said(command(home, "stop")) == f"Stopped {running.endpoint}.\n"
    assert not healthy(running.endpoint)
    wait_until_gone(running.process_id)
    wait_until_gone(function)


def test_killed_emulator_leaves_no_function_behind_and_the_next_user_gets_a_new_one(
    home: Path, tmp_path: Path
) -> None:
    first, second = emulator(home), emulator(home)
    killed = first.acquire(quiet)
    function = hanging_function(killed.endpoint, tmp_path)
    os.kill(killed.process_id, signal.SIGKILL)
    wait_until_gone(function)

    running = second.acquire(quiet)
    assert running.process_id != killed.process_id
    first.release()
    assert healthy(running.endpoint), "another user still holds it"
    second.release()
    wait_until_gone(running.process_id)
    assert emulator(home).running() is None


def test_record_of_a_process_that_is_somebody_else_by_now_is_not_believed(home: Path) -> None:
    write_record(home, process_id=os.getpid(), process_started=1.0)
    assert emulator(home).running() is None
    assert "No LocalStack of ours runs" in said(command(home, "status"))
    assert said(command(home, "stop")) == "No LocalStack of ours runs.\n"


def test_emulator_of_other_sources_is_refused_while_in_use(home: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as old:
        write_record(
            home,
            process_id=old.pid,
            process_started=psutil.Process(old.pid).create_time(),
            fingerprint="of other sources",
        )
        with (home / "localstack" / "run" / "users.lock").open("w") as user:
            fcntl.flock(user, fcntl.LOCK_SH)
            with pytest.raises(Busy, match="started from other sources and is in use"):
                emulator(home).start(quiet)
        assert old.poll() is None
        old.kill()


def test_taken_port_is_refused_by_name(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = command(home, "start", "--port", str(port))
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert output == (
        f"error: Another program listens on 127.0.0.1:{port}. Choose another port: PORT=…\n"
    )


def test_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    broken = broken_emulator(tmp_path)
    with pytest.raises(Unavailable, match=r"(?s)did not start.*no room on this machine"):
        broken.start(quiet)
    assert broken.running() is None
    assert "no room" in broken.log.read_text()


def test_emulator_that_dies_while_it_is_asked_is_started_anew(tmp_path: Path) -> None:
    lines: list[str] = []
    with subprocess.Popen(["sleep", "0.5"]) as dying:
        started = psutil.Process(dying.pid).create_time()
        write_record(tmp_path, process_id=dying.pid, process_started=started)
        with pytest.raises(Unavailable, match="did not start"):
            broken_emulator(tmp_path / "localstack").start(lines.append)
    assert lines[0] == "LocalStack no longer answered."
    assert lines[1].startswith("Starting LocalStack at")


def test_given_endpoint_is_used_and_nothing_is_started(
    localstack: LocalStack, tmp_path: Path
) -> None:
    for action in ("start", "status"):
        output = said(command(tmp_path, action, AWS_ENDPOINT_URL=localstack.endpoint))
        assert output == (
            f"AWS_ENDPOINT_URL is set: {localstack.endpoint} is used and nothing is started.\n"
        )
    assert not (tmp_path / "localstack").exists()


def test_given_endpoint_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    process = command(tmp_path, "start", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no LocalStack answers there" in output


def hanging_function(endpoint: str, folder: Path) -> int:
    """A function in the middle of its work; answers its process."""
    there = reach(endpoint, folder / "config")
    deploy(there, HANG, timeout=600).invoke_and_go_on(str(folder / "process"))
    return int(wait_for_text(folder / "process"))


def broken_emulator(folder: Path) -> Emulator:
    """All is installed, and ends at once when it is started."""
    installation = Installation(folder / "installed")
    for python in (installation.python, installation.function_python):
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho 'no room on this machine'\nexit 1\n")
        python.chmod(0o700)
    (folder / "installed" / "installed").write_text(fingerprint())
    return Emulator(folder / "run", installation)


def write_record(home: Path, **changes: object) -> None:
    record = home / "localstack" / "run" / "emulator.json"
    record.parent.mkdir(parents=True)
    found = {"endpoint": "http://127.0.0.1:1", "fingerprint": fingerprint(), "kept": True}
    record.write_text(json.dumps(found | changes))
