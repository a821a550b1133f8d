"""Worker processes that wait for commands, so that the GIL and their start are not measured."""

from __future__ import annotations

import contextlib
import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.world import Site, World

_CONTEXT = multiprocessing.get_context("spawn")
_PATIENCE = 300.0


@dataclass(frozen=True)
class Count:
    """What one process did between two readings of the machine's monotonic clock."""

    number: int
    started_at: float
    ended_at: float


Work = Callable[..., Any]
"""Called as `work(world, index, barrier, *arguments)`; waits at the barrier before it begins."""


def rate(counts: list[Count]) -> float:
    """Per second, from the first start to the last end."""
    elapsed = max(c.ended_at for c in counts) - min(c.started_at for c in counts)
    return sum(c.number for c in counts) / elapsed


class Crew:
    def __init__(self, site: Site, size: int) -> None:
        self._barriers = {n: _CONTEXT.Barrier(n) for n in range(1, size + 1)}
        self._pipes = []
        self._processes = []
        for index in range(size):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(
                target=_serve, args=(theirs, site, index, self._barriers), daemon=True
            )
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        self.results(size)  # Each says that it is ready.

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()

    def run(self, workers: int, work: Work, *arguments: Any) -> list[Any]:
        """All begin together; the result of each."""
        self.start(workers, work, *arguments)
        return self.results(workers)

    def start(self, workers: int, work: Work, *arguments: Any) -> None:
        for pipe in self._pipes[:workers]:
            pipe.send((workers, work, arguments))

    def results(self, workers: int) -> list[Any]:
        answers = []
        for pipe in self._pipes[:workers]:
            if not pipe.poll(_PATIENCE):
                raise TimeoutError("a worker process does not answer")
            try:
                kind, answer = pipe.recv()
            except (EOFError, OSError) as error:
                raise RuntimeError("a worker process died") from error
            if kind == "error":
                raise RuntimeError(f"a worker process failed:\n{answer}")
            answers.append(answer)
        return answers


def _serve(pipe: Any, site: Site, index: int, barriers: dict[int, Any]) -> None:
    world = World(site)
    try:
        world.claim(1)
        pipe.send(("ready", None))
        while (command := pipe.recv()) is not None:
            workers, work, arguments = command
            try:
                pipe.send(("done", work(world, index, barriers[workers], *arguments)))
            except Exception:
                barriers[workers].abort()
                pipe.send(("error", traceback.format_exc()))
    except (EOFError, KeyboardInterrupt):
        pass
    finally:
        world.close()
