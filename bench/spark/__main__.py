"""`python -m bench.spark`: PySpark operators beside the same transforms in bare PySpark.

See docs/benchmarks.md for what each row means. The exit code says whether it ran, never how fast.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
import traceback
from importlib.metadata import version
from pathlib import Path

from bench.report import Report
from bench.spark.runs import Runs
from bench.spark.sections import (
    OPERATORS,
    SECTIONS,
    Bench,
    measure,
    measure_backfill,
    measure_follower,
    measure_memory,
)
from emr_jobs.session import local_session

_ROWS = (500_000, 2_000_000, 8_000_000)


def main() -> int:
    given = _arguments()
    began = time.monotonic()
    failed: list[str] = []

    def say(text: str) -> None:
        load = os.getloadavg()[0]
        told = f"[{time.monotonic() - began:6.1f} s, load {load:4.1f}] {text}"
        print(told, file=sys.stderr, flush=True)

    given.data.mkdir(parents=True, exist_ok=True)
    machine = {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    settings = {"pyspark": version("pyspark"), "duckdb": version("duckdb"), "driver": "1g"}
    report = Report(machine, settings, under="spark")
    with tempfile.TemporaryDirectory(dir=given.data) as scratch:
        folder = Path(scratch).resolve()
        names = given.only or list(SECTIONS)
        spark = None
        if any(each in OPERATORS for each in names):
            say("starts Spark")
            spark = local_session("bench", scratch=folder)
            runs = Runs(spark, folder / "runs")
        for name in names:
            say(name)
            try:
                if name in OPERATORS:
                    bench = Bench(runs, report, say, given.data, folder, given.rows, given.rounds)
                    measure(bench, OPERATORS[name])
                elif name == "memory":
                    measure_memory(report, say, given.data, given.memory_rows, list(OPERATORS))
                elif name == "follower":
                    measure_follower(report, given.blocks)
                else:
                    measure_backfill(report, given.blocks, given.rounds)
            except Exception as error:
                # What else can be measured is still worth knowing.
                traceback.print_exc()
                failed.append(name)
                report.remarks.append(f"{name} failed: {error}")
        if spark is not None:
            spark.stop()
    report.remarks.append(
        f"Took {time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.1f} at the end."
    )
    report.show(as_json=given.json)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=list(SECTIONS),
        help=f"some of: {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        type=int,
        metavar="N",
        default=_ROWS,
        help="logs to work on (500,000, 2,000,000 and 8,000,000)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each way up to 2,000,000 rows")
    parser.add_argument("--memory-rows", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--blocks", type=int, default=1000, help="of the chain sections")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".trace/bench"),
        metavar="FOLDER",
        help="where the made chain is kept (.trace/bench)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
