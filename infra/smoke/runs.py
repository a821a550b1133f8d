"""The demo's DAG, run to its end by a platform: on the emulator, and in lite on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from dags.demo import DAG_FILE, EXPECTED, OPERATORS
from infra.smoke import history
from infra.smoke.errors import SmokeFailed
from trace_cli.changes import deploy_file
from trace_cli.platform import Choices, Platform
from trace_cli.transport import LocalTransport
from trace_client import Client
from trace_core import telemetry
from trace_core.settings import Settings

DAG = "demo"
TASKS = sum(EXPECTED.values())
_PATIENCE = 180.0
_POLL = 1.0
"""A member has 100 requests in a minute."""

Progress = Callable[[str], None]


def run_demo(api: Client, progress: Progress) -> None:
    """Deploy it, and wait until every task that follows from it is complete."""
    deploy_file(api, DAG_FILE)
    ends = time.monotonic() + _PATIENCE
    while time.monotonic() < ends:
        jobs = api.status().jobs
        done = {each.job: each.completed_24h for each in jobs if each.dag == DAG}
        if all(done[job] == count for job, count in EXPECTED.items()):
            return
        progress(f"{sum(done[job] for job in EXPECTED)} of {TASKS} tasks completed")
        time.sleep(_POLL)
    raise SmokeFailed(f"after {_PATIENCE:.0f} s the demo has not ended: {done} of {EXPECTED}")


def run_lite(home: Path, progress: Progress) -> history.History:
    """The same DAG in the profile lite, in a folder of its own; answers its history."""
    home.mkdir(parents=True)
    settings = Settings(
        home=home,
        operator_modules=(OPERATORS,),
        user_port=0,
        internal_port=0,
        task_port=0,
        issuer_port=0,
    )
    with (
        (home / "lite.log").open("w", encoding="utf-8") as log,
        telemetry.redirected(log),
        Platform(settings, Choices(dispatch_seconds=0.5)) as platform,
    ):
        run_demo(Client(LocalTransport(platform.app)), progress)
        return history.read(platform.app.state_dsn, DAG)
