"""A pool of warm child processes, reused from task to task and replaced when they die."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from trace_core.kernel.errors import Unavailable
from trace_core.worker.attempt import RunControl
from trace_core.worker.child import Child, Ended, Finished, Work, with_rows

logger = logging.getLogger(__name__)

TASKS_PER_CHILD = 1000
STARTUP_TIMEOUT = 60.0


class ChildPool:
    """Runs tasks in at most `size` processes.

    `modules` are the extra operator modules, `task_api` is where operators may emit events.
    """

    def __init__(
        self,
        size: int,
        *,
        modules: Sequence[str] = (),
        task_api: str,
        tasks_per_child: int = TASKS_PER_CHILD,
        scratch_root: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if size < 1:
            raise ValueError("a pool has at least one child")
        self.size = size
        self._modules = tuple(modules)
        self._task_api = task_api
        self._tasks_per_child = tasks_per_child
        self._scratch_root = scratch_root
        self._environ = dict(os.environ if environ is None else environ)
        self._places = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._children: set[Child] = set()
        self._closed = False

    def warm(self) -> None:
        """Start every child; raises `Unavailable` when one cannot start."""
        missing = self.size - len(self._children)
        started = [self._spawn() for _ in range(missing)]
        try:
            for child in started:
                child.wait_until_ready(STARTUP_TIMEOUT)
        except Unavailable:
            for child in started:
                self._dispose(child)
            raise
        with self._lock:
            self._idle.extend(started)

    @property
    def pids(self) -> list[int]:
        with self._lock:
            return [child.pid for child in self._children]

    def run(self, work: Work, control: RunControl) -> Finished:
        """Run one task in a free child, waiting for one if need be."""
        with self._places:
            scratch = Path(tempfile.mkdtemp(prefix="trace-task-", dir=self._scratch_root))
            try:
                child = self._take()
            except Unavailable as error:
                shutil.rmtree(scratch, ignore_errors=True)
                return Finished(Ended.DIED, reason=error.message)
            try:
                try:
                    finished = child.run(work, scratch, control)
                finally:
                    self._give_back(child)
                return with_rows(work, finished, scratch, control)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def close(self) -> None:
        """End every child, also those that are running a task."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = self._children.difference(idle)
        for child in busy:
            # Its run sees it die and frees the rest.
            child.kill()
        for child in idle:
            self._dispose(child)

    def _take(self) -> Child:
        while True:
            with self._lock:
                if self._closed:
                    raise Unavailable("the pool is closed")
                idle = self._idle.pop() if self._idle else None
            child = idle or self._spawn()
            try:
                if idle is None or idle.alive:
                    child.wait_until_ready(STARTUP_TIMEOUT)
                    return child
            except Unavailable:
                # One that died while it waited here says nothing; a new one tells for sure.
                if idle is None:
                    self._dispose(child)
                    raise
            self._dispose(child)

    def _give_back(self, child: Child) -> None:
        if child.alive and child.tasks < self._tasks_per_child:
            with self._lock:
                if not self._closed:
                    self._idle.append(child)
                    return
        self._dispose(child)
        with self._lock:
            if self._closed:
                return
        try:
            # Its imports are done by the time that the next task comes.
            replacement = self._spawn()
        except OSError:
            logger.exception("no new child for now; the next task asks again")
            return
        with self._lock:
            if not self._closed:
                # At the far end: those that are ready go first.
                self._idle.insert(0, replacement)
                return
        self._dispose(replacement)

    def _spawn(self) -> Child:
        child = Child(self._modules, self._task_api, self._environ)
        with self._lock:
            self._children.add(child)
        return child

    def _dispose(self, child: Child) -> None:
        with self._lock:
            self._children.discard(child)
        child.close()
