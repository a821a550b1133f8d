"""A process group of its own for one execution environment, with its output in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

# The kernel ends a child with the thread that made it, not with the process. This one stays.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lambda-process-spawner")


class Child:
    """Runs from the start until `kill`; `on_exit` is told the exit status whenever it ends."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        on_exit: Callable[[int], None],
    ) -> None:
        # A file, not a pipe: what a child printed before it reported is there when it reports.
        with log.open("wb") as output:
            self._output = log.open("rb")
            self._process = _spawner.submit(
                subprocess.Popen,
                [
                    command[0],
                    "-IS",
                    str(Path(__file__).with_name("child_start.py")),
                    str(os.getpid()),
                    *command,
                ],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            ).result()
        self._waiter = threading.Thread(target=self._wait, args=(on_exit,), daemon=True)
        self._waiter.start()

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """End it and all it started; returns when it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._waiter.join()

    def new_output(self) -> str:
        """What it wrote since the last call."""
        return self._output.read().decode(errors="replace")

    def memory_mb(self) -> int:
        """What it holds now; 0 once it is gone."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss) >> 20
        except psutil.Error:
            return 0

    def _wait(self, on_exit: Callable[[int], None]) -> None:
        on_exit(self._process.wait())
