"""What this machine knows of its Spark runs: a small database beside the runner.

The platform and the runner process both open it, and either may be killed at any moment. Standard
library only, since the runner has it open before anything slow is loaded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_core.database.sql import Statements
from trace_core.ports.spark_runner import RunRequest, RunState

_STATEMENTS = Statements("trace_core.adapters.lite", "spark_runs.sql")
_BUSY_SECONDS = 30.0


@dataclass(frozen=True)
class Run:
    run_id: str
    request: RunRequest
    state: RunState
    detail: str
    end_asked: str | None
    """Why it is to end; a cancel has the reason `canceled`."""
    submitted_at: float
    granted_at: float | None
    started_at: float | None
    ended_at: float | None


class SparkRuns:
    """Every method is one statement, and whoever moves a run first is right."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._change("create")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def submit(self, request: RunRequest, now: float) -> str:
        """The id of the run that this client token has begun, now or earlier."""
        run_id = run_id_of(request.client_token)
        fields = json.dumps(dataclasses.asdict(request))
        self._change("submit", run_id=run_id, request=fields, now=now)
        return run_id

    def find(self, run_id: str) -> Run | None:
        found = self._rows("find", run_id=run_id)
        return _run(found[0]) if found else None

    def open(self) -> list[Run]:
        return [_run(each) for each in self._rows("open")]

    def count_open(self) -> int:
        return int(self._rows("count_open")[0][0])

    def count_begun(self, since: float) -> int:
        return int(self._rows("count_begun", since=since)[0][0])

    def ask_to_end(self, run_id: str, reason: str) -> None:
        self._change("ask_to_end", run_id=run_id, reason=reason)

    def queue(self, run_id: str) -> bool:
        return self._change("queue", run_id=run_id)

    def grant(self, run_id: str, now: float) -> bool:
        return self._change("grant", run_id=run_id, now=now)

    def schedule(self, run_id: str) -> bool:
        return self._change("schedule", run_id=run_id)

    def start(self, run_id: str, now: float) -> bool:
        return self._change("start", run_id=run_id, now=now)

    def cancelling(self, run_id: str) -> bool:
        return self._change("cancelling", run_id=run_id)

    def end(self, run_id: str, state: RunState, detail: str, now: float) -> bool:
        return self._change("end", run_id=run_id, state=state.value, detail=detail, now=now)

    def end_waiting(self, run_id: str, detail: str, now: float) -> bool:
        return self._change("end_waiting", run_id=run_id, detail=detail, now=now)

    def forget(self, before: float) -> None:
        self._change("forget", before=before)

    def _change(self, statement: str, **given: Any) -> bool:
        with self._lock:
            return self._connection.execute(_STATEMENTS[statement], given).rowcount == 1

    def _rows(self, statement: str, **given: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(_STATEMENTS[statement], given).fetchall()


def run_id_of(client_token: str) -> str:
    return hashlib.sha256(client_token.encode()).hexdigest()[:32]


def _run(row: sqlite3.Row) -> Run:
    return Run(
        run_id=row["run_id"],
        request=_request(json.loads(row["request"])),
        state=RunState(row["state"]),
        detail=row["detail"],
        end_asked=row["end_asked"],
        submitted_at=row["submitted_at"],
        granted_at=row["granted_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
    )


def _request(fields: Mapping[str, Any]) -> RunRequest:
    known = dict(fields)
    for name in ("read_prefixes", "write_prefixes"):
        known[name] = tuple(known[name])
    return RunRequest(**known)
