"""How LocalStack is run: the variables it sees and the port it gets."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from infra.localstack.installation import Installation
from trace_core.kernel.errors import Busy, Unavailable

HOST = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below the ports that the kernel gives to outgoing connections."""


def environment(installation: Installation, root: Path, port: int) -> dict[str, str]:
    """All that LocalStack sees: no proxy, no credentials, no settings of whoever starts it."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(root),
        "TMPDIR": str(root / "temporary"),
        "XDG_CACHE_HOME": str(root / "cache"),
        "FILESYSTEM_ROOT": str(root),
        "GATEWAY_LISTEN": f"{HOST}:{port}",
        "LOCALSTACK_HOST": f"localhost:{port}",
        # Addresses that need no name server.
        "SQS_ENDPOINT_STRATEGY": "path",
        "DNS_ADDRESS": "0",
        # Nothing leaves this machine.
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "EAGER_SERVICE_LOADING": "0",
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "LAMBDA_PROCESS_PYTHON": str(installation.function_python),
        "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60",
        # A function is there when `create_function` answers.
        "LAMBDA_SYNCHRONOUS_CREATE": "1",
    }


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def checked_port(port: int) -> int:
    if not _free(port):
        raise Busy(f"Another program listens on {HOST}:{port}. Choose another port: PORT=…")
    return port


def free_port() -> int:
    # Drawn, so that two starters in two folders rarely try the same one.
    for port in random.SystemRandom().sample(_PORTS, 100):
        if _free(port):
            return port
    raise Unavailable(f"No free port was found on {HOST}.")
