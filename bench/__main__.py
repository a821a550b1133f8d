"""`python -m bench`: measure the task contract beside the bare limit and a peer.

See docs/benchmarks.md for what each row means. The exit code says whether it ran, never how fast.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import traceback
from pathlib import Path

from bench.report import Report
from bench.sections import SECTIONS, Bench, Sizes
from bench.world import Server


def main() -> int:
    arguments = _arguments()
    started_at = time.monotonic()
    sizes = Sizes.quick() if arguments.quick else Sizes.full()
    if arguments.rows is not None:
        sizes = sizes.with_history(arguments.rows)
    names = arguments.only or list(SECTIONS)
    failed: list[str] = []

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started_at:5.1f} s] {text}", file=sys.stderr, flush=True)

    with Server(arguments.data.resolve()) as server:
        report = Report(_machine(), server.settings())
        bench = Bench(server, sizes, report, say)
        for name in names:
            say(name)
            try:
                SECTIONS[name](bench)
            except Exception as error:
                # What else can be measured is still worth knowing.
                traceback.print_exc()
                failed.append(name)
                report.remarks.append(f"{name} failed: {error}")
        bench.drop_scratch()
    report.remarks.append(f"Took {time.monotonic() - started_at:.0f} s.")
    report.show(as_json=arguments.json)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds, under a minute")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=list(SECTIONS),
        help=f"some of: {', '.join(SECTIONS)}",
    )
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="finished tasks in the filled database (10,000,000; quick: 200,000); 0 leaves it out",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".trace/bench"),
        metavar="FOLDER",
        help="where Postgres and the filled database are kept (.trace/bench)",
    )
    return parser.parse_args()


def _machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


if __name__ == "__main__":
    sys.exit(main())
