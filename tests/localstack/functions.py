"""Functions for the tests: a source text becomes a zip, a role and a deployed function."""

from __future__ import annotations

import base64
import io
import json
import platform
import textwrap
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import boto3

from tests.localstack_server import ACCOUNT_ID, LocalStack

ARCHITECTURE = "arm64" if platform.machine().lower() in ("aarch64", "arm64") else "x86_64"
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


def archive(files: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, text in files.items():
            file.writestr(name, textwrap.dedent(text))
    return content.getvalue()


@dataclass(frozen=True)
class Answer:
    payload: Any
    error: str | None
    log: str


@dataclass(frozen=True)
class Deployed:
    """A function that is there until the test ends."""

    name: str
    arn: str
    session: boto3.Session

    def invoke(self, event: object = None) -> Answer:
        client = self.session.client("lambda")
        found = client.invoke(FunctionName=self.name, Payload=json.dumps(event), LogType="Tail")
        return Answer(
            payload=json.loads(found["Payload"].read()),
            error=found.get("FunctionError"),
            log=base64.b64decode(found["LogResult"]).decode(),
        )

    def invoke_and_go_on(self, event: object) -> None:
        client = self.session.client("lambda")
        client.invoke(FunctionName=self.name, InvocationType="Event", Payload=json.dumps(event))

    def wait_for_log(self, words: str, seconds: float = 60) -> list[str]:
        """The lines in CloudWatch Logs that have the words; fails when none comes."""
        client = self.session.client("logs")
        group, deadline = f"/aws/lambda/{self.name}", time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(client.exceptions.ResourceNotFoundException):
                # Compared here: the emulator takes a pattern of two words for either of them.
                events = client.filter_log_events(logGroupName=group)["events"]
                if found := [event["message"] for event in events if words in event["message"]]:
                    return found
            time.sleep(0.2)
        raise AssertionError(f"{group} has no line with {words!r} after {seconds} s")


def deploy(
    localstack: LocalStack,
    source: str,
    *,
    timeout: int = 20,
    variables: Mapping[str, str] | None = None,
    layers: Sequence[str] = (),
) -> Deployed:
    """One module named `main` with a function `handler`, ready for its first call."""
    client, iam = localstack.session.client("lambda"), localstack.session.client("iam")
    name = localstack.name("function")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
    made = client.create_function(
        FunctionName=name,
        Runtime="python3.11",
        Handler="main.handler",
        Role=f"arn:aws:iam::{ACCOUNT_ID}:role/{name}",
        Code={"ZipFile": archive({"main.py": source})},
        Timeout=timeout,
        MemorySize=256,
        Environment={"Variables": dict(variables or {})},
        Layers=list(layers),
        Architectures=[ARCHITECTURE],
    )
    client.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})
    return Deployed(name, made["FunctionArn"], localstack.session)


@contextmanager
def deployed(
    localstack: LocalStack,
    source: str,
    *,
    timeout: int = 20,
    variables: Mapping[str, str] | None = None,
    layers: Sequence[str] = (),
) -> Iterator[Deployed]:
    """`deploy`, and delete it with its role afterwards."""
    function = deploy(localstack, source, timeout=timeout, variables=variables, layers=layers)
    try:
        yield function
    finally:
        localstack.session.client("lambda").delete_function(FunctionName=function.name)
        localstack.session.client("iam").delete_role(RoleName=function.name)
