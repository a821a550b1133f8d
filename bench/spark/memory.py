"""`python -m bench.spark.memory OPERATOR`: one run with a small driver, and its peaks."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.spark.data import sample
from bench.spark.runs import payload
from bench.spark.sections import OPERATORS
from emr_jobs.main import run_payload
from emr_jobs.session import local_session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.memory", description=__doc__)
    parser.add_argument("operator", choices=list(OPERATORS))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path(".trace/bench"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.data) as scratch:
        folder = Path(scratch).resolve()
        spark = local_session("bench-memory", driver_memory="1g", scratch=folder)
        asked = payload(OPERATORS[given.operator], sample(given.data, given.rows), folder)
        began = time.perf_counter()
        result = run_payload(spark, asked)
        seconds = time.perf_counter() - began
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        peak = _peak(jvm.java.lang.ProcessHandle.current().pid())
        spark.stop()
    if result.failure is not None:
        sys.stderr.write(f"{result.failure.code}: {result.failure.message}\n")
        return 1
    # What the system calls the largest size of this process may be that of whoever started it.
    print(json.dumps({"jvm": peak, "python": _peak(os.getpid()), "seconds": seconds}))
    return 0


def _peak(pid: int) -> float:
    """Megabytes that a process had in memory at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [each for each in lines if each.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
