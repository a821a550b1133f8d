"""The runner of one machine, which the adapter `local_spark` starts with what `main` takes.

It takes runs from the folder's database, moves them from state to state, and ends with whoever
holds the other end of its standard input. Whatever was RUNNING when an earlier runner died has
failed: that is the first thing that it says.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trace_core.adapters.lite.spark_runs import Run, SparkRuns
from trace_core.ports.spark_runner import RunState

if TYPE_CHECKING:
    from emr_jobs.local_run import LocalRun
    from emr_jobs.warm_session import WarmSession

LOOK_SECONDS = 0.5
"""How late a limit or the death of Java is noticed."""
KEPT_SECONDS = 7 * 86400.0
AGAIN = 70
"""Exit code: start me again, since Spark cannot be used any more."""
_BEGUN = (RunState.RUNNING, RunState.CANCELLING)


class Runner:
    def __init__(
        self, runs: SparkRuns, session: WarmSession, *, places: int, idle: float, grace: float
    ) -> None:
        self._runs = runs
        self._session = session
        self._places = places
        self._idle_seconds = idle
        self._grace_seconds = grace
        self._active: dict[str, LocalRun] = {}
        self._last_busy = time.monotonic()
        self.wake = threading.Event()

    def serve(self, say_alive: Callable[[], None]) -> int:
        """Until nothing has run for a while, or Spark has to be started again."""
        while True:
            say_alive()
            self.wake.wait(LOOK_SECONDS)
            self.wake.clear()
            code = self.look()
            if code is not None:
                return code

    def look(self) -> int | None:
        self._take_ended()
        died = self._session.died()
        if died is not None:
            self._fail_active(died)
            return AGAIN
        now = time.time()
        for run in self._runs.open():
            active = self._active.get(run.run_id)
            reason = run.end_asked or _limit_passed(run, now)
            if reason is not None:
                self._end(run, active, reason)
            elif active is None:
                self._give_place(run, now)
        if self._stuck():
            self._fail_active("the runner had to be started again, since another run would not end")
            return AGAIN
        return self._idle()

    def _give_place(self, run: Run, now: float) -> None:
        from emr_jobs.local_run import LocalRun

        if len(self._active) >= self._places:
            self._runs.queue(run.run_id)
        elif self._runs.grant(run.run_id, now):
            active = LocalRun(run, self._runs, self._session.get, self.wake.set)
            self._active[run.run_id] = active
            active.begin()

    def _end(self, run: Run, active: LocalRun | None, reason: str) -> None:
        if active is None:
            self._runs.end(run.run_id, RunState.CANCELLED, reason, time.time())
            return
        if run.state not in _BEGUN:
            # It has not begun, and from here on cannot. One that was faster runs, and is looked at.
            self._runs.end_waiting(run.run_id, reason, time.time())
            return
        self._runs.ask_to_end(run.run_id, reason)
        self._runs.cancelling(run.run_id)
        if active.ending_since is None:
            active.ending_since = time.monotonic()
        active.stop_work(self._session.cancel)
        active.interrupt()

    def _take_ended(self) -> None:
        for run_id, active in list(self._active.items()):
            if not active.over:
                continue
            del self._active[run_id]
            state, detail = active.outcome or (RunState.CANCELLED, "")
            found = self._runs.find(run_id)
            if active.spark_lost and (died := self._session.died(wait=1.0)) is not None:
                if found is not None and found.state not in _BEGUN:
                    continue  # it waits for a session, and the next runner has one
                # The error is only how the run saw Spark go.
                detail = died
            if found is not None and found.end_asked and active.ending_since is not None:
                state, detail = RunState.CANCELLED, found.end_asked
            self._runs.end(run_id, state, detail, time.time())
            if not self._active and not active.spark_lost:
                self._session.tidy()

    def _fail_active(self, detail: str) -> None:
        for run_id, active in self._active.items():
            found = self._runs.find(run_id)
            if found is None or found.state not in _BEGUN:
                continue  # it waits for a session, and the next runner has one
            if active.ending_since is not None:
                self._runs.end(run_id, RunState.CANCELLED, found.end_asked or "", time.time())
            else:
                self._runs.end(run_id, RunState.FAILED, detail, time.time())

    def _stuck(self) -> bool:
        now = time.monotonic()
        return any(
            each.ending_since is not None and now - each.ending_since > self._grace_seconds
            for each in self._active.values()
        )

    def _idle(self) -> int | None:
        if self._active or self._runs.count_open():
            self._last_busy = time.monotonic()
            return None
        if self._session.broken is not None:
            # What was missing may be there when the next run comes.
            return 0
        return 0 if time.monotonic() - self._last_busy > self._idle_seconds else None


def _limit_passed(run: Run, now: float) -> str | None:
    if run.started_at is None:
        limit = run.request.queue_seconds
        if now - run.submitted_at > limit:
            return f"it waited longer than {limit} s to begin"
        return None
    limit = run.request.timeout_seconds
    return f"it ran longer than {limit} s" if now - run.started_at > limit else None


def take_over(runs: SparkRuns, now: float, alive_at: float) -> None:
    """What an earlier runner left: what had begun is over, what waited goes on waiting.

    Its runs ended with it, `alive_at` at the earliest, and used nothing since.
    """
    runs.forget(now - KEPT_SECONDS)
    for run in runs.open():
        if run.started_at is None:
            continue
        ended_at = min(max(run.started_at, alive_at), now)
        if run.state is RunState.CANCELLING:
            runs.end(run.run_id, RunState.CANCELLED, run.end_asked or "", ended_at)
        else:
            detail = "the Spark runner ended while it ran; nothing that the run wrote counts"
            runs.end(run.run_id, RunState.FAILED, detail, ended_at)


def main(arguments: list[str]) -> int:
    folder, cores, memory, places, idle, grace, *modules = arguments
    root = Path(folder)
    link = _Link()
    lock = root / "runner.lock"
    alive_at = _lock(lock)
    runs = SparkRuns(root / "runs.sqlite")
    take_over(runs, time.time(), alive_at)
    # Of a runner that was killed; its Java machine ends when it sees that.
    shutil.rmtree(root / "scratch", ignore_errors=True)
    # Only now: Spark takes a second to load, and the dead are reported before that.
    from emr_jobs.printed import install
    from emr_jobs.warm_session import WarmSession

    install()
    session = WarmSession(root, int(cores), memory, modules)
    runner = Runner(runs, session, places=int(places), idle=float(idle), grace=float(grace))
    link.attend(runner, session)
    try:
        return runner.serve(lambda: os.utime(lock))
    finally:
        session.kill()


class _Link:
    """Standard input: a word wakes the runner, and its end is the end of the platform."""

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._session: WarmSession | None = None
        self._warm = False
        threading.Thread(target=self._read, name="platform", daemon=True).start()

    def attend(self, runner: Runner, session: WarmSession) -> None:
        self._runner, self._session = runner, session
        self._heard(b"w" if self._warm else b"")

    def _read(self) -> None:
        while words := os.read(0, 4096):
            self._heard(words)
        # Java first: a run must not go on for a platform that is not there.
        if self._session is not None:
            self._session.kill()
        os._exit(0)

    def _heard(self, words: bytes) -> None:
        self._warm = self._warm or b"w" in words
        if self._runner is None or self._session is None:
            return
        self._runner.wake.set()
        if b"w" in words:
            threading.Thread(target=self._session.get, name="warm", daemon=True).start()


def _lock(path: Path) -> float:
    """Wait for an earlier runner of this folder to be gone; the kernel gives the lock back.

    Answers when that one was alive: it touches the file as long as it is.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_mtime


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        status = 1
    # Threads of stuck operators are not waited for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
