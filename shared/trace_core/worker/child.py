"""One warm child process: takes one task at a time, and may die or be killed at any moment."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from trace_core.kernel import limits
from trace_core.kernel.errors import Unavailable
from trace_core.worker.attempt import Reason, RunControl
from trace_core.worker.logs import BoundedLog, Redaction
from trace_core.worker.outcome import Outcome

logger = logging.getLogger(__name__)
_SEND_TIMEOUT = 30.0
_CHUNK = 64 * 1024
_DRAIN_MAX = 2 * 1024 * 1024
_LINE_MAX = 2 * limits.REQUEST_BODY_MAX
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""All that a child sees of this process's environment, which holds tokens and addresses."""


class TaskRows(Protocol):
    """The rows of one task, on this side."""

    def answer(self, asked: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
        """A file in the scratch folder with the rows that the operator asked for, or an error."""
        ...

    def keep(self, outcome: Outcome, scratch: Path) -> Outcome:
        """Write the rows that a run has left there; raises `LeaseGone`."""
        ...


@dataclass(frozen=True)
class Work:
    """One task for a child, with the secrets that it alone may see."""

    payload: Mapping[str, Any]
    now: datetime
    timeout: float
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Sequence[str] = field(default=(), repr=False)
    """Values that must not reach the log; the operator's process keeps them out of its errors."""
    kept: Sequence[str] = field(default=(), repr=False)
    """The same, for values that stay on this side; only a provider could tell them."""
    rows: TaskRows | None = field(default=None, repr=False)
    """Fetches inputs and writes outputs, with credentials that no operator sees."""


class Ended(StrEnum):
    DONE = "done"
    DIED = "died"
    TIMED_OUT = "timed out"
    INTERRUPTED = "interrupted"
    LEASE_GONE = "lease gone"
    """The data database has let a later attempt in."""


@dataclass(frozen=True)
class Finished:
    """How the run of one task ended, and what it printed."""

    how: Ended
    outcome: Outcome | None = None
    reason: str = ""
    log: bytes = b""


class LeaseGone(Exception):
    """A later attempt writes now: whatever this one did counts for nothing."""


class ChildDied(Exception):
    """The process is gone; its words are the reason."""


class Child:
    def __init__(self, modules: Sequence[str], task_api: str, environ: Mapping[str, str]) -> None:
        self.tasks = 0
        self._lines = b""
        self._ready = False
        self._sending = threading.Lock()
        self._socket, theirs = socket.socketpair()
        self._wake_read, self._wake_write = socket.socketpair()
        self._output, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                [
                    *(sys.executable, "-P", "-m", "trace_core.worker.child_main"),
                    *(str(theirs.fileno()), task_api, *modules),
                ],
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                env=_environment(environ),
                pass_fds=[theirs.fileno()],
                # A group of its own: killing it takes along whatever the operator started.
                start_new_session=True,
            )
        except BaseException:
            for each in (self._socket, self._wake_read, self._wake_write):
                each.close()
            os.close(self._output)
            raise
        finally:
            theirs.close()
            os.close(write_end)
        self._socket.settimeout(_SEND_TIMEOUT)
        self._wake_write.setblocking(False)
        os.set_blocking(self._output, False)
        self._exit = _exit_descriptor(self._process.pid)
        self._selector = selectors.DefaultSelector()
        for source in (self._socket, self._wake_read, self._output, self._exit):
            if source is not None:
                self._selector.register(source, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self, timeout: float) -> None:
        """Raises `Unavailable` when the child cannot start, with what it printed."""
        if self._ready:
            return
        log = BoundedLog(Redaction(()), limit=8 * 1024)
        give_up_at = time.monotonic() + timeout
        try:
            while (message := self._next_message(log, give_up_at)) is None:
                if time.monotonic() >= give_up_at:
                    raise ChildDied(f"not ready after {timeout:g} s")
            if message["kind"] != "ready":
                raise ChildDied(str(message.get("message")))
        except ChildDied as error:
            self.kill()
            self._drain(log)
            printed = log.content().decode("utf-8", "replace").strip()
            raise Unavailable(f"a child process cannot start: {error}\n{printed}".strip()) from None
        self._ready = True

    def run(self, work: Work, scratch: Path, control: RunControl) -> Finished:
        """Run one task to its end, whichever it is. Afterwards the child may be dead."""
        self._drain(None)
        self.tasks += 1
        log = BoundedLog(Redaction((*work.secrets, *work.kept)))
        deadline = time.monotonic() + work.timeout
        control.attach(self._wake)
        try:
            return self._supervise(work, scratch, control, deadline, log)
        except ChildDied as error:
            self.kill()
            self._drain(log)
            return Finished(Ended.DIED, reason=str(error), log=log.content())
        finally:
            control.detach()

    def _supervise(
        self, work: Work, scratch: Path, control: RunControl, deadline: float, log: BoundedLog
    ) -> Finished:
        self._send(
            {
                "kind": "run",
                "payload": work.payload,
                "env": work.env,
                "secrets": work.secrets,
                "scratch": str(scratch),
                "now": work.now.isoformat(),
            }
        )
        told = False
        while True:
            if control.reason is Reason.CANCELED and not told:
                told = True
                self._send({"kind": "cancel"})
            kill_at = deadline if control.kill_at is None else min(deadline, control.kill_at)
            if time.monotonic() >= kill_at:
                self.kill()
                self._drain(log)
                how = Ended.TIMED_OUT if kill_at == deadline else Ended.INTERRUPTED
                return Finished(how, log=log.content())
            message = self._next_message(log, kill_at)
            if message is not None and message["kind"] == "read":
                self._answer(work, message, scratch)
            elif message is not None:
                # It printed everything before it answered, so what is here now is all.
                self._drain(log)
                outcome = Outcome(message["fields"], message["traceback"], message["rows"])
                return Finished(Ended.DONE, outcome, log=log.content())

    def _answer(self, work: Work, asked: Mapping[str, Any], scratch: Path) -> None:
        """In a thread of its own: what takes long must not keep the run from being killed."""

        def answer() -> None:
            found = (
                work.rows.answer(asked, scratch)
                if work.rows is not None
                else {"error": "rows cannot be read here", "retryable": False}
            )
            with contextlib.suppress(ChildDied, ValueError):
                self._send({"kind": "rows", "number": asked["number"], **found})

        threading.Thread(target=answer, name="trace-rows", daemon=True).start()

    def _next_message(self, log: BoundedLog, until: float) -> dict[str, Any] | None:
        """Wait for something to happen, once. Raises `ChildDied`."""
        timeout = max(0.0, until - time.monotonic())
        ready = {key.fileobj for key, _ in self._selector.select(timeout)}
        if self._wake_read in ready:
            self._wake_read.recv(_CHUNK)
        if self._output in ready and not self._read_output(log):
            self._selector.unregister(self._output)
        if self._socket in ready or (self._exit is not None and self._exit in ready):
            return self._read_message()
        return None

    def _read_message(self) -> dict[str, Any] | None:
        try:
            # Never waits, since the socket has a timeout: the process may be gone while its own
            # children hold the other end.
            data = os.read(self._socket.fileno(), _CHUNK)
        except BlockingIOError:
            data = b""
            if self.alive:
                return None
        except OSError:
            data = b""
        self._lines += data
        line, found, rest = self._lines.partition(b"\n")
        if found:
            self._lines = rest
            try:
                return dict(json.loads(line))
            except ValueError as error:
                raise ChildDied("its answer cannot be read") from error
        if not data or len(line) > _LINE_MAX:
            raise ChildDied(self._how_it_died() if not data else "its answer is too long")
        return None

    def _how_it_died(self) -> str:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "the process closed its connection"
        if code >= 0:
            return f"the process exited with status {code} in the middle of the task"
        name = signal.Signals(-code).name
        hint = " (kill -9, or out of memory)" if -code == signal.SIGKILL else ""
        return f"the process was killed by {name}{hint}"

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError as error:
            raise ChildDied(self._how_it_died()) from error

    def _wake(self) -> None:
        # A full buffer means that it is about to wake up anyway.
        with contextlib.suppress(OSError):
            self._wake_write.send(b"!")

    def _read_output(self, log: BoundedLog | None) -> bool:
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return True
        if log is not None:
            log.write(data)
        return bool(data)

    def _drain(self, log: BoundedLog | None) -> None:
        """Take what is printed so far; without a log it belongs to no attempt."""
        for _ in range(_DRAIN_MAX // _CHUNK):
            try:
                data = os.read(self._output, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            if log is not None:
                log.write(data)

    def kill(self) -> None:
        # The group first: as long as its leader is not reaped, the number is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process, gently if it is idle, and free what it holds here."""
        self._socket.close()
        try:
            self._process.wait(timeout=2.0 if self._ready else 0.0)
        except subprocess.TimeoutExpired:
            self.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()
        os.close(self._output)
        if self._exit is not None:
            os.close(self._exit)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: environ[name] for name in _INHERITED if name in environ}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**kept, "PYTHONPATH": path, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}


def _exit_descriptor(pid: int) -> int | None:
    """Becomes readable when the process ends; without it a closed connection has to tell."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def with_rows(work: Work, finished: Finished, scratch: Path, control: RunControl) -> Finished:
    """The run, with what it left behind written; the heartbeats go on meanwhile."""
    outcome = finished.outcome
    if outcome is None or work.rows is None or control.canceled():
        return finished
    if outcome.status not in ("Completed", "Yielded"):
        return finished
    try:
        return replace(finished, outcome=work.rows.keep(outcome, scratch))
    except LeaseGone as gone:
        # Said here: a heartbeat may have learned the same meanwhile, and then nobody asks why.
        logger.warning("task %s is no longer ours: %s", work.payload["task_id"], gone)
        return replace(finished, how=Ended.LEASE_GONE, outcome=None, reason=str(gone))
