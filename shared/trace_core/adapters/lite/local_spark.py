"""PySpark operators on one machine: a process of its own with one warm session.

The runner is not this process, so that a Java machine that dies takes nothing else with it. It
begins with the first run, costs nothing before, and ends with this process, also when that is
killed; it also ends when nothing ran for a while, and begins again with the next run.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trace_core.adapters.lite.spark_runs import Run, SparkRuns
from trace_core.kernel.errors import NotFound, Unavailable
from trace_core.ports.spark_runner import (
    RunRequest,
    RunState,
    RunStatus,
    Usage,
    check_request,
)

logger = logging.getLogger(__name__)
CANCELED = "canceled"
_INHERITED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("JAVA_HOME", "PYTHONPATH"),
)
"""All that the runner sees of this process's environment, which holds tokens and addresses."""
_BACKLOG = 2
"""How many runs wait while all places are taken: with them, a place is never free for long."""
_TRIES = 3
_LOG_KEPT = 10_000_000
_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class SparkSize:
    """How large the one session is, and how many runs share it."""

    cores: int = 2
    memory: str = "1g"
    """Of the driver, which is all there is on one machine: `1g`, `1500m`."""
    places: int = 2
    """Runs at once."""
    idle_seconds: float = 1800.0
    """The runner ends when nothing ran for so long."""
    grace_seconds: float = 15.0
    """A run that has not ended so long after it was to is ended with the whole runner."""

    @property
    def memory_gb(self) -> float:
        return float(self.memory[:-1]) / {"g": 1, "m": 1024}[self.memory[-1]]


class LocalSparkRunner:
    """`SparkRunner` with a runner process; its folder belongs to one platform at a time.

    `payload_uri` is `file://`, the root of the object store on files, and the payload's key as it
    is, without percent signs. Prefixes are checked for their form and keep nobody out: operators
    of this profile are the project's own, and run as its user.
    """

    def __init__(
        self, folder: Path, *, size: SparkSize | None = None, modules: Sequence[str] = ()
    ) -> None:
        self.folder = folder.expanduser().resolve()
        self._size = size or SparkSize()
        self._modules = tuple(modules)
        self._runs = SparkRuns(self.folder / "runs.sqlite")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._tries = 0

    @property
    def log_file(self) -> Path:
        """What the runner and its Java machine say; what operators print lies with their result."""
        return self.folder / "runner.log"

    @property
    def pid(self) -> int | None:
        """Of the runner, while there is one."""
        with self._lock:
            return self._process.pid if self._alive() and self._process else None

    def room(self) -> int:
        if self._closing.is_set():
            return 0
        return max(self._size.places + _BACKLOG - self._runs.count_open(), 0)

    def start(self, request: RunRequest) -> str:
        check_request(request)
        if self._closing.is_set():
            raise Unavailable("The Spark runner is closing.")
        run_id = self._runs.submit(request, time.time())
        self._wake()
        return run_id

    def status(self, run_id: str) -> RunStatus:
        run = self._known(run_id)
        if run.ended_at is None:
            # Nobody else would move it: after a restart of the platform there is no runner yet.
            self._wake()
            run = self._known(run_id)
        return self._status(run)

    def cancel(self, run_id: str) -> None:
        run = self._known(run_id)
        if run.ended_at is None:
            self._runs.ask_to_end(run_id, CANCELED)
            self._wake()

    def warm(self) -> None:
        """Begin before the first run, so that it need not wait for the session."""
        self._wake(b"w")

    def close(self) -> None:
        """End the runner and whatever runs in it: a later one says that those runs failed."""
        with self._lock:
            self._closing.set()
            process = self._process
        if process is not None:
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._runs.close()

    def _known(self, run_id: str) -> Run:
        run = self._runs.find(run_id)
        if run is None:
            raise NotFound("The Spark runner knows no such run.", run_id=run_id)
        return run

    def _status(self, run: Run) -> RunStatus:
        usage = None
        if run.started_at is not None and run.ended_at is not None:
            hours = max(run.ended_at - run.started_at, 0.0) / 3600
            # What the session has, for as long as the run had it: also where two runs share it.
            usage = Usage(self._size.cores * hours, self._size.memory_gb * hours)
        queued = None if run.granted_at is None else max(run.granted_at - run.submitted_at, 0.0)
        return RunStatus(
            run_id=run.run_id,
            state=run.state,
            detail=run.detail,
            submitted_at=_instant(run.submitted_at),
            started_at=_instant(run.started_at),
            ended_at=_instant(run.ended_at),
            queued_seconds=queued,
            usage=usage,
        )

    def _wake(self, word: bytes = b"\n") -> None:
        """Make sure that there is a runner, and that it looks now."""
        with self._lock:
            if self._closing.is_set():
                return
            if not self._alive():
                self._spawn()
            process = self._process
            with suppress(OSError):
                process.stdin.write(word)  # type: ignore[union-attr]

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _spawn(self) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_KEPT:
            self.log_file.unlink()
        size = self._size
        logger.info(
            "starting the Spark runner: %s cores, %s of memory, %s runs at once, log in %s",
            *(size.cores, size.memory, size.places, self.log_file),
        )
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                [
                    *(sys.executable, "-P", "-m", "emr_jobs.runner", str(self.folder)),
                    *(str(size.cores), size.memory, str(size.places)),
                    *(str(size.idle_seconds), str(size.grace_seconds), *self._modules),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(os.environ),
                # Ctrl-C is for the platform, which then closes the runner.
                start_new_session=True,
                bufsize=0,
            )
        # A runner that hangs reads nothing, and must not make the platform hang as well.
        os.set_blocking(process.stdin.fileno(), False)  # type: ignore[union-attr]
        self._process = process
        threading.Thread(
            target=self._watch, args=(process,), name="trace-spark-runner", daemon=True
        ).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Start another runner when one dies and leaves runs behind."""
        began = time.time()
        code = process.wait()
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        if self._closing.is_set():
            return
        if code != 0:
            logger.warning("the Spark runner ended (%s); see %s", _said(code), self.log_file)
        try:
            # One that has begun a run could live, however soon it was killed.
            lived = code == 0 or self._runs.count_begun(began) > 0
            self._tries = 0 if lived else self._tries + 1
            if self._runs.count_open() == 0:
                return
            if self._tries >= _TRIES:
                self._give_up(code)
                return
        except Exception:
            # Closed meanwhile, or the folder is gone: then nobody waits for a runner.
            logger.exception("the Spark runner is not started again")
            return
        if not self._closing.wait(self._tries * 0.5):
            self._wake()

    def _give_up(self, code: int) -> None:
        """A runner that cannot live fails its runs; the next one asked for is a new beginning."""
        self._tries = 0
        detail = f"the Spark runner ended {_TRIES} times in a row ({_said(code)}): {self._tail()}"
        for run in self._runs.open():
            self._runs.end(run.run_id, RunState.FAILED, detail, time.time())

    def _tail(self) -> str:
        try:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        return " | ".join(lines[-3:]) or "its log is empty"


def _said(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in _INHERITED if name in given}


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
