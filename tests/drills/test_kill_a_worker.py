"""Game day, drill 2: a worker dies in the middle of its tasks. The demo is that drill, and more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_survives_a_killed_worker_and_explains_what_happened(tmp_path: Path) -> None:
    environment = {**os.environ, "TRACE_HOME": str(tmp_path), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "dags.demo"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    shown = " ".join(done.stdout.split())
    assert "Killed worker 1 with SIGKILL in the middle of task" in shown
    assert "LeaseExpired" in shown
    assert "All 198 tasks completed" in shown
    assert "trace task logs" in shown
    assert "summary rebuilds because it reads measure" in shown
    assert "Deploy 2 of demo is done: version 2 is active." in shown
    assert "Rolled back demo to version 1 (deploy 3)." in shown
    left = subprocess.run(
        ["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert left.stdout == ""
