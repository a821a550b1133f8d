"""The first thing a child runs: tie its life to LocalStack's, then become the runtime client.

`child_start.py PARENT PYTHON ARGUMENT …`, with the standard library of the child's own Python.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, *command: str) -> None:
    if sys.platform == "linux":
        # Even a LocalStack that was killed leaves no function running.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit("LocalStack ended before this function started")
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
