"""Start a program that outlives us: `detach.py LOG PROGRAM ARGUMENT …` prints its process id.

Run as a file of its own, so that the program's parent is gone at once: whoever asked for it has no
child to wait for, and whoever stops it sees it vanish.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(log: str, *command: str) -> None:
    with Path(log).open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=Path(log).parent,
            start_new_session=True,
        )
    sys.stdout.write(f"{process.pid}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
