"""`python -m infra.localstack start|stop|status`, behind `make localstack` and its siblings."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from infra.localstack.emulator import Emulator, healthy
from infra.localstack.installation import VERSION, Installation
from trace_core.kernel.errors import TraceError, Unavailable


def emulator(home: Path) -> Emulator:
    """The emulator of a home folder: what is installed, and what runs, in folders of their own."""
    folder = home.expanduser().resolve() / "localstack"
    return Emulator(folder / "run", Installation(folder / "installed"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.localstack", description=__doc__)
    parser.add_argument("action", choices=("start", "stop", "status"))
    parser.add_argument("--port", type=_port, help="default: a free one")
    chosen = parser.parse_args(arguments)
    found = emulator(Path(os.environ.get("TRACE_HOME", ".trace")))
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    try:
        if chosen.action == "stop":
            stopped = found.stop()
            _say(f"Stopped {stopped.endpoint}." if stopped else "No LocalStack of ours runs.")
        elif endpoint:
            _use(endpoint)
        elif chosen.action == "start":
            _start(found, chosen.port)
        else:
            _status(found)
    except TraceError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    return 0


def _use(endpoint: str) -> None:
    if not healthy(endpoint):
        raise Unavailable(
            f"AWS_ENDPOINT_URL is {endpoint}, and no LocalStack answers there. "
            "Start it, or unset the variable to have one started for you."
        )
    _say(f"AWS_ENDPOINT_URL is set: {endpoint} is used and nothing is started.")


def _start(found: Emulator, port: int | None) -> None:
    running = found.start(_say, port)
    _say(
        f"LocalStack {VERSION} runs at {running.endpoint} (process {running.process_id}).",
        "",
        f"  export AWS_ENDPOINT_URL={running.endpoint}",
        "  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1",
        "",
        f"Its log is {found.log}. Stop it with `make localstack-stop`.",
    )


def _status(found: Emulator) -> None:
    running = found.running()
    if running is None:
        _say("No LocalStack of ours runs. Start it with `make localstack`.")
        return
    if not healthy(running.endpoint):
        raise Unavailable(f"{running.endpoint} does not answer. {found.log_tail()}")
    until = "until `make localstack-stop`" if running.kept else "as long as tests use it"
    _say(f"LocalStack runs at {running.endpoint} (process {running.process_id}), {until}.")


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError("a port is a number from 1 to 65535")
    return port


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
