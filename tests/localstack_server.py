"""The emulator for tests of any folder: started once, by the first test that asks for it.

All test processes of a project share it. The last one to end stops it, unless a person keeps it
running with `make localstack`. With AWS_ENDPOINT_URL set, that emulator is used as it is.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import botocore.session
import pytest

from infra.localstack.__main__ import emulator
from infra.localstack.emulator import healthy

REGION = "us-east-1"
ACCOUNT_ID = "000000000000"
# Read when the tests are collected: a test may set its own home before it asks for the emulator.
HOME = Path(os.environ.get("TRACE_HOME", ".trace")).resolve()
_FOREIGN = os.environ.get("AWS_ENDPOINT_URL")


@dataclass(frozen=True)
class LocalStack:
    """Where it is, how to reach it, and names that no other test session uses."""

    endpoint: str
    prefix: str
    session: boto3.Session
    """Its clients go to the emulator: `session.client("sqs")`, with that client's type."""

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it with a plain `boto3.client`."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }

    def name(self, what: str) -> str:
        """A new name for a queue, function, bucket and so on."""
        return f"{self.prefix}-{what}-{secrets.token_hex(3)}"


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    config_file = tmp_path_factory.mktemp("aws") / "config"
    if _FOREIGN:
        if not healthy(_FOREIGN):
            pytest.fail(f"AWS_ENDPOINT_URL is {_FOREIGN}, and no LocalStack answers there")
        yield reach(_FOREIGN, config_file)
        return
    found = emulator(HOME)
    # pytest shows it when the first test fails, and with -s.
    running = found.acquire(lambda line: print(line, file=sys.stderr, flush=True))
    yield reach(running.endpoint, config_file)
    found.release()


@pytest.fixture(scope="session")
def aws(localstack: LocalStack) -> boto3.Session:
    """For typed clients of the emulator."""
    return localstack.session


def reach(endpoint: str, config_file: Path) -> LocalStack:
    # A profile may name its endpoint. So the session carries it, and `client` keeps its types.
    config_file.write_text(
        f"[default]\nregion = {REGION}\nendpoint_url = {endpoint}\n"
        "aws_access_key_id = test\naws_secret_access_key = test\n"
    )
    core = botocore.session.Session(profile="default")
    core.set_config_variable("config_file", str(config_file))
    core.set_credentials("test", "test")
    session = boto3.Session(botocore_session=core, region_name=REGION)
    return LocalStack(endpoint, f"t{secrets.token_hex(4)}", session)
