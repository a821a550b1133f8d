"""procrastinate, a Postgres task queue in common use, on the same server."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

import psycopg


@dataclass(frozen=True)
class Peer:
    version: str
    one_by_one: float
    """Tasks a second of one worker that runs one at a time."""
    concurrent: float
    """The same worker with `CONCURRENCY` tasks at once."""
    chain: float
    """Items a second through A -> B -> C, with `CONCURRENCY`."""


CONCURRENCY = 20


def has_procrastinate() -> bool:
    try:
        import procrastinate  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def measure_procrastinate(dsn: str, tasks: int, items: int) -> Peer:
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    return asyncio.run(_measure(dsn, tasks, items))


async def _measure(dsn: str, tasks: int, items: int) -> Peer:
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, max_size=24))
    done = {"plain": 0, "c": 0}

    @app.task(name="plain")
    async def plain(n: int) -> None:
        done["plain"] += 1

    @app.task(name="a")
    async def a(n: int) -> None:
        await b.defer_async(n=n)

    @app.task(name="b")
    async def b(n: int) -> None:
        await c.defer_async(n=n)

    @app.task(name="c")
    async def c(n: int) -> None:
        done["c"] += 1

    async def work(concurrency: int) -> None:
        await app.run_worker_async(
            wait=False, concurrency=concurrency, install_signal_handlers=False,
            delete_jobs="never",
        )  # fmt: skip

    async with app.open_async():
        with psycopg.connect(dsn, autocommit=True) as connection:
            if connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() == (None,):
                await app.schema_manager.apply_schema_async()
        rates = []
        for concurrency in (1, CONCURRENCY):
            before, started_at = done["plain"], time.monotonic()
            await plain.batch_defer_async(*({"n": n} for n in range(tasks)))
            await work(concurrency)
            rates.append((done["plain"] - before) / (time.monotonic() - started_at))
        started_at = time.monotonic()
        await a.batch_defer_async(*({"n": n} for n in range(items)))
        while done["c"] < items:
            await work(CONCURRENCY)
        chain = items / (time.monotonic() - started_at)
    return Peer(procrastinate.__version__, rates[0], rates[1], chain)
