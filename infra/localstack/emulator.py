"""One LocalStack for each folder, whoever starts it, found again by whoever comes later.

Two kinds of users share it. `start` is for people: it stays until `stop`. `acquire` is for
programs: the last of them to `release` stops it, unless a person started it. The kernel drops the
lock of a killed program, so nobody counts on the dead.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from infra.localstack import program
from infra.localstack.installation import Installation, Say, fingerprint
from trace_core.adapters.lite.atomic_files import exclusive_lock, replace_file
from trace_core.kernel.errors import Busy, Unavailable

_START_SECONDS = 120
_ANSWER_SECONDS = 30
_STOP_SECONDS = 5
"""It ends its functions in the first of them; a metric sent meanwhile can keep it for a minute."""
_LOG_TAIL = 25


@dataclass(frozen=True)
class Running:
    """What a starter writes down."""

    endpoint: str
    process_id: int
    process_started: float
    fingerprint: str
    kept: bool
    """A person started it, so no program stops it."""


class Emulator:
    """LocalStack with its state in one folder, all of it gone at the next start."""

    def __init__(self, folder: Path, installation: Installation) -> None:
        self._folder = folder
        self._installation = installation
        self._users: int | None = None

    @property
    def log(self) -> Path:
        return self._folder / "localstack.log"

    def start(self, say: Say, port: int | None = None) -> Running:
        """Make sure that it runs, until somebody calls `stop`."""
        return self._start(say, port, kept=True)

    def acquire(self, say: Say) -> Running:
        """Make sure that it runs, at least until this process ends or calls `release`."""
        return self._start(say, None, kept=False)

    def release(self) -> None:
        if self._users is None:
            return
        with exclusive_lock(self._folder / "gate.lock"):
            running = self.running()
            if running is not None and not running.kept and _try_alone(self._users):
                self._stop(running)
            os.close(self._users)
            self._users = None

    def stop(self) -> Running | None:
        """Stop it whoever uses it; answers what ran, if anything did."""
        if not self._folder.exists():
            return None
        with exclusive_lock(self._folder / "gate.lock"):
            running = self.running()
            if running is not None:
                self._stop(running)
            return running

    def running(self) -> Running | None:
        """What is written down, if that very process still runs."""
        try:
            found = Running(**json.loads(self._record.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return found if _process(found) is not None else None

    @property
    def _record(self) -> Path:
        return self._folder / "emulator.json"

    def _start(self, say: Say, port: int | None, *, kept: bool) -> Running:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive_lock(self._folder / "gate.lock"):
            running = self.running()
            if running is not None and running.fingerprint != fingerprint():
                # Before the installation changes under it.
                self._stop_outdated(running, say)
                running = None
            if running is not None and not self._becomes_healthy(running, _ANSWER_SECONDS, say):
                say("LocalStack no longer answered.")
                running = None
            if running is None:
                running = self._launch(self._installation.ensure(say), port, say)
            elif port is not None and not running.endpoint.endswith(f":{port}"):
                raise Busy(f"LocalStack runs at {running.endpoint}: `make localstack-stop` first.")
            if kept and not running.kept:
                running = replace(running, kept=True)
            self._write(running)
            if not kept and self._users is None:
                self._users = self._open_users()
                fcntl.flock(self._users, fcntl.LOCK_SH)
        return running

    def _stop_outdated(self, running: Running, say: Say) -> None:
        users = self._open_users()
        try:
            if not _try_alone(users):
                raise Busy(
                    f"LocalStack at {running.endpoint} was started from other sources and is in "
                    "use. Wait for its users to end, or run `make localstack-stop`."
                )
            say("Stopping a LocalStack that was started from other sources …")
            self._stop(running)
        finally:
            os.close(users)

    def _launch(self, installed: str, port: int | None, say: Say) -> Running:
        port = program.free_port() if port is None else program.checked_port(port)
        root = self._folder / "root"
        # Nothing is kept between runs, and what a killed run unpacked may be half there.
        shutil.rmtree(root, ignore_errors=True)
        (root / "temporary").mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)
        endpoint = f"http://{program.HOST}:{port}"
        say(f"Starting LocalStack at {endpoint} …")
        started = time.monotonic()
        process_id = self._detach(program.environment(self._installation, root, port))
        try:
            process_started = psutil.Process(process_id).create_time()
        except psutil.NoSuchProcess as error:
            raise self._failed_start(0) from error
        running = Running(endpoint, process_id, process_started, installed, kept=False)
        self._write(running)
        if not self._becomes_healthy(running, _START_SECONDS, say):
            raise self._failed_start(time.monotonic() - started)
        say(f"LocalStack is up after {time.monotonic() - started:.1f} s.")
        return running

    def _detach(self, environment: dict[str, str]) -> int:
        detach = Path(__file__).with_name("detach.py")
        command = [str(self._installation.python), "-m", "localstack.runtime.main"]
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-IS", str(detach), str(self.log), *command],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
        )
        return int(done.stdout)

    def _becomes_healthy(self, running: Running, seconds: float, say: Say) -> bool:
        """Wait for its answer; one that dies meanwhile or takes too long is stopped."""
        started = reported = time.monotonic()
        while not healthy(running.endpoint):
            now = time.monotonic()
            if _process(running) is None or now - started > seconds:
                self._stop(running)
                return False
            if now - reported > 5:
                say(f"  … {now - started:.0f} s")
                reported = now
            time.sleep(0.1)
        return True

    def _failed_start(self, seconds: float) -> Unavailable:
        text = f"LocalStack did not start (after {seconds:.0f} s). {self.log_tail()}"
        return Unavailable(text)

    def log_tail(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return f"It wrote no log to {self.log}."
        return "\n".join([f"The end of {self.log}:", *lines[-_LOG_TAIL:]])

    def _stop(self, running: Running) -> None:
        process = _process(running)
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
            if not _gone(running, _STOP_SECONDS):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                _gone(running, _STOP_SECONDS)
            # It ends its functions itself; one that outlived a kill is still in its session.
            _kill_session(running.process_id)
        self._record.unlink(missing_ok=True)

    def _open_users(self) -> int:
        return os.open(self._folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write(self, running: Running) -> None:
        replace_file(self._record, json.dumps(asdict(running), indent=2).encode())


def healthy(endpoint: str) -> bool:
    try:
        # Straight to the endpoint, whatever proxy the environment names.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{endpoint}/_localstack/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _process(running: Running) -> psutil.Process | None:
    """The process, unless its number belongs to another one by now."""
    try:
        process = psutil.Process(running.process_id)
        same = abs(process.create_time() - running.process_started) < 1
        alive = same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if alive else None


def _gone(running: Running, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _process(running) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _kill_session(leader: int) -> None:
    for process_id in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process_id) == leader:
                os.kill(process_id, 9)


def _try_alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
