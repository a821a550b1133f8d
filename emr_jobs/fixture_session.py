"""A warm session for `trace test`: `python -m emr_jobs.fixture_session FOLDER MODULE...`.

Each line of standard input is the path of a payload; the answer is one line, when its result is
written. It ends when nobody asks any more.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from emr_jobs.main import run_payload
from emr_jobs.printed import install, printing_to
from emr_jobs.warm_session import WarmSession
from trace_core.spark.wire import LOG_NAME, SparkPayload

CORES, MEMORY = 2, "1g"


def main(folder: Path, modules: Sequence[str]) -> int:
    # What is printed goes to the log, whoever prints it; the answers keep the pipe for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    install()
    session = WarmSession(folder, CORES, MEMORY, modules).get()
    answers.write("ready\n")
    for line in sys.stdin:
        path = Path(line.strip())
        payload = SparkPayload.parse(json.loads(path.read_text(encoding="utf-8")))
        with printing_to(path.with_name(LOG_NAME)):
            run_payload(session, payload)
        answers.write("done\n")
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
