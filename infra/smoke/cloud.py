"""The stacks of `local` on the emulator: the pinned CDK command line, and what it made there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import botocore.session

from infra.environments import ENVIRONMENTS, ExternalDatabase
from infra.node import ROOT
from infra.smoke.errors import SmokeFailed
from infra.synth import without_credentials

ENVIRONMENT = ENVIRONMENTS["local"]
_STACKS = tuple(
    f"{ENVIRONMENT.prefix}-{name}" for name in ("storage", "control-plane", "observability")
)
_ACCOUNT = "000000000000"
_TAIL = 40
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": ENVIRONMENT.region,
    "AWS_REGION": ENVIRONMENT.region,
}


class Cloud:
    """One emulator and a folder for what the command line keeps about it."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.endpoint = endpoint
        self._folder = folder
        self._assembly = folder / "assembly"
        self.log = folder / "cdk.log"
        self.session = _session(endpoint, folder)

    def put_state_secret(self, secret: str) -> None:
        database = ENVIRONMENT.database
        if not isinstance(database, ExternalDatabase):
            raise SmokeFailed("the environment local has a database of its own")
        client = self.session.client("secretsmanager")
        client.create_secret(Name=database.secret_name, SecretString=secret)

    def synth(self) -> None:
        app = f"{sys.executable} app.py"
        self._cdk("synth", "-c", "environment=local", "--quiet", "--app", app)

    def bootstrap(self) -> None:
        self._cdk("bootstrap", f"aws://{_ACCOUNT}/{ENVIRONMENT.region}", *self._assembled)

    def deploy(self, parameters: Mapping[str, str]) -> None:
        stack = f"{ENVIRONMENT.prefix}-control-plane"
        given = [f"--parameters={stack}:{name}={value}" for name, value in parameters.items()]
        quiet = ("--require-approval=never", "--progress=events")
        self._cdk("deploy", "--all", *self._assembled, *quiet, *given)

    def destroy(self) -> None:
        self._cdk("destroy", "--all", "--force", *self._assembled)

    @property
    def _assembled(self) -> tuple[str, str]:
        return ("--app", str(self._assembly))

    def _cdk(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            done = subprocess.run(  # noqa: S603  # our own module
                [sys.executable, "-m", "infra.node", *arguments, "--output", str(self._assembly)],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if done.returncode:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            said = "\n".join(lines[-_TAIL:])
            raise SmokeFailed(f"cdk {arguments[0]} failed; the end of {self.log}:\n{said}")

    def _environment(self) -> dict[str, str]:
        """Nothing of whoever runs this could reach an account."""
        kept = without_credentials(os.environ)
        local = ",".join(filter(None, (kept.get("NO_PROXY"), "127.0.0.1", "localhost")))
        return {
            **kept,
            **_CREDENTIALS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            # The command line remembers accounts by access key, and every emulator has the same.
            "CDK_HOME": str(self._folder / "cdk"),
            "NO_PROXY": local,
            "no_proxy": local,
        }

    def output(self, name: str) -> str:
        client = self.session.client("cloudformation")
        (stack,) = client.describe_stacks(StackName=f"{ENVIRONMENT.prefix}-control-plane")["Stacks"]
        found = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
        return found[name]

    def events(self) -> list[Any]:
        pages = self.session.client("cloudformation").get_paginator("describe_stack_events")
        return [
            event
            for stack in ("CDKToolkit", *_STACKS)
            for page in pages.paginate(StackName=stack)
            for event in page["StackEvents"]
        ]

    def resources(self) -> dict[str, int]:
        """How many each stack has."""
        client = self.session.client("cloudformation")
        return {
            stack: len(client.describe_stack_resources(StackName=stack)["StackResources"])
            for stack in _STACKS
        }

    def left(self) -> list[str]:
        """What is still there after the stacks are gone."""
        prefix = ENVIRONMENT.prefix
        stacks = self.session.client("cloudformation").describe_stacks()["Stacks"]
        functions = self.session.client("lambda").list_functions()["Functions"]
        queues = self.session.client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
        rules = self.session.client("events").list_rules(NamePrefix=prefix)["Rules"]
        return [
            # A stack that is gone is still listed, with that status.
            *(
                each["StackName"]
                for each in stacks
                if each["StackName"].startswith(prefix) and each["StackStatus"] != "DELETE_COMPLETE"
            ),
            *(each["FunctionName"] for each in functions),
            *queues,
            *(each["Name"] for each in rules),
        ]


def _session(endpoint: str, folder: Path) -> boto3.Session:
    """Bound to the emulator, whatever the environment or a file in the home folder says."""
    config = folder / "aws_config"
    config.write_text(f"[default]\nendpoint_url = {endpoint}\n", encoding="utf-8")
    core = botocore.session.Session()
    core.set_config_variable("config_file", str(config))
    core.set_config_variable("credentials_file", os.devnull)
    core.set_credentials("test", "test")
    return boto3.Session(botocore_session=core, region_name=ENVIRONMENT.region)
