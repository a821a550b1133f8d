"""Looks at the head of each provider: how old it is, and how far behind the best one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from trace_chain.backfill_configs import LivelinessMonitorConfig
from trace_chain.columns import LIVELINESS
from trace_chain.completeness import Header
from trace_chain.errors import ChainError
from trace_chain.providers import ask_all, providers_of
from trace_chain.reader import BlockReader
from trace_chain.rpc import Rpc
from trace_chain.tables import table
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import Result, Rows, TaskContext

Told = tuple[int, Header]


class LivelinessMonitor:
    """One row for each provider and check; the scope is the time of the check, in seconds."""

    def run(self, task: TaskContext[LivelinessMonitorConfig]) -> Result:
        config = task.config
        told = ask_all(providers_of(task.env), _head, timeout=config.timeout_seconds)
        heads = [
            each[1].number
            for each in told.values()
            if not isinstance(each, ChainError) and each[0] == config.chain_id
        ]
        best = max(heads, default=0)
        rows = [
            (task.now, name, config.chain_id, *judged(each, task.now, best, config))
            for name, each in told.items()
        ]
        for row in rows:
            if row[-2] != "live":
                task.log.warning("provider %s is %s: %s", row[1], row[-2], row[-1])
        scope = Scope(cursor=int(task.now.timestamp()))
        return Result(
            outputs=[Rows(0, scope, table(LIVELINESS, rows), name="liveliness")],
            resume_after=timedelta(seconds=config.every_seconds),
        )


def judged(
    told: Told | ChainError, now: datetime, best: int, config: LivelinessMonitorConfig
) -> tuple[Any, ...]:
    """Head, its time, its age, the verdict and the reason for it."""
    if isinstance(told, ChainError):
        return None, None, None, "away", told.message[:500]
    chain_id, head = told
    age = max(0, int((now - head.timestamp).total_seconds()))
    seen = (head.number, head.timestamp, age)
    if chain_id != config.chain_id:
        return (*seen, "wrong_chain", f"it is on chain {chain_id}")
    if best - head.number > config.max_behind:
        return (*seen, "behind", f"{best - head.number} blocks behind the best provider")
    if age > config.max_age_seconds:
        return (*seen, "stale", f"its head is {age} s old")
    return (*seen, "live", None)


def _head(rpc: Rpc, reader: BlockReader) -> Told:
    return reader.chain_id(), reader.heads().latest
