"""Every environment as data: nothing here is looked up, and nothing needs credentials.

What an environment leaves out (`None`) its stacks leave out too. `local` is LocalStack with a
Postgres and the development issuer beside it: no VPC, no RDS, APIs without a private endpoint.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID


class Architecture(StrEnum):
    ARM64 = "arm64"
    X86_64 = "x86_64"


@dataclass(frozen=True)
class Org:
    """Known to the stack because its wake-up queue and its worker token are made there."""

    name: str
    org_id: UUID
    administrators: tuple[str, ...] = ()
    """Subjects of the identity provider, made administrators of the org at each deploy."""
    worker_concurrency: int = 5
    """How many worker functions may serve its queue at once; SQS asks for at least 2."""


@dataclass(frozen=True)
class Network:
    cidr: str
    zones: int = 2
    nat_gateways: int = 1
    """`user_api` goes out for the keys of the identity provider, `worker` to upstreams."""
    endpoint_zones: int = 1
    """In how many zones the interface endpoints stand; each costs by the hour."""


@dataclass(frozen=True)
class Database:
    """An RDS Postgres of the environment's own."""

    instance_type: str
    storage_gib: int
    multi_az: bool
    backup_days: int
    connections: int
    """What the instance takes, less what it keeps for its owner; a test adds up the functions."""
    deletion_protection: bool = True


@dataclass(frozen=True)
class ExternalDatabase:
    """A Postgres that is there already; its address is in that secret."""

    secret_name: str


DRIVER_VCPUS, DRIVER_GB = 2, 8
EXECUTOR_VCPUS, EXECUTOR_GB = 4, 16
"""Of each Spark run's workers."""


@dataclass(frozen=True)
class Emr:
    """EMR Serverless: what all runs of PySpark operators may take at once.

    Nothing is kept warm, so that it costs nothing while nothing runs.
    """

    vcpus: int
    memory_gb: int
    disk_gb: int
    runs: int
    """At once; more wait in the platform's own queue."""
    executors: int
    """Of one run, each with 4 vCPUs and 16 GB."""
    idle_minutes: int = 5
    """After the last run the application stops."""


@dataclass(frozen=True)
class IdentityProvider:
    issuer: str
    audience: str


@dataclass(frozen=True)
class Environment:
    name: str
    region: str
    orgs: tuple[Org, ...]
    database: Database | ExternalDatabase
    """Of the state; and of the data, where that has none of its own."""
    identity: IdentityProvider
    concurrency: Mapping[str, int]
    """Reserved for each function: also the bound on connections to the database."""
    account: str | None = None
    """Whose account; None takes that of the credentials which deploy."""
    network: Network | None = None
    data_database: Database | None = None
    """A server of its own for the data database; None: it shares that of the state."""
    emr: Emr | None = None
    """None: no PySpark operator runs there."""
    operator_modules: tuple[str, ...] = ()
    operator_package: str | None = None
    """The folder with the project's own operators, which becomes a layer and goes to EMR."""
    upstreams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the egress gateway of the function `worker` leads to, by name: `url`, `header`, `limits`
    as in TRACE_UPSTREAMS. With none, that function has no way out of the network."""
    architecture: Architecture = Architecture.ARM64
    python: str = "3.12"
    """The newest that the project supports. The runtime of 3.11 has a C library which is too old
    for the Postgres driver on arm64."""
    built_for_this_machine: bool = False
    """Functions run here, under the Python that deploys: packages are those of this machine."""
    log_days: int = 30
    worker_children: int = 2
    keep_data: bool = True
    """Whether bucket, keys and secrets outlive their stack."""
    tracing: bool = True
    alarm_emails: tuple[str, ...] = ()
    user_requests_per_second: int = 50

    @property
    def prefix(self) -> str:
        return f"trace-{self.name}"

    @property
    def wheel_platform(self) -> str | None:
        """For which platform packages are chosen; none where they run on this machine."""
        if self.built_for_this_machine:
            return None
        machine = "aarch64" if self.architecture is Architecture.ARM64 else "x86_64"
        return f"{machine}-manylinux_2_28"

    def function_name(self, function: str) -> str:
        return f"{self.prefix}-{function}"

    def queue_name(self, org: Org) -> str:
        """As the queue adapter makes it: the prefix, then the runtime and the org."""
        return f"{self.prefix}-worker-{org.org_id.hex}"

    def secret_name(self, namespace: str, org: Org, name: str) -> str:
        return f"{self.prefix}/{namespace}/{org.org_id}/{name}"


def _concurrency(**changes: int) -> Mapping[str, int]:
    small = {
        "user_api": 5,
        "internal_api": 10,
        "task_api": 10,
        "dispatcher": 2,
        "reaper": 1,
        "outbox_relay": 3,
        "staging_cleanup": 1,
        "emr_events": 2,
        "operator_runner": 5,
        "worker": 5,
        "migrate": 1,
    }
    return MappingProxyType({**small, **changes})


def _host() -> Architecture:
    arm = platform.machine().lower() in ("arm64", "aarch64")
    return Architecture.ARM64 if arm else Architecture.X86_64


_IDENTITY = IdentityProvider(issuer="https://identity.example.com/", audience="trace")
"""Stands for the project's own; a deploy without a change lets nobody in."""


ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {
        environment.name: environment
        for environment in (
            Environment(
                name="dev",
                region="eu-central-1",
                orgs=(Org("main", UUID("0192f0c1-6b00-7000-8000-000000000001")),),
                network=Network(cidr="10.20.0.0/16"),
                database=Database(
                    instance_type="t4g.small",
                    storage_gib=20,
                    multi_az=False,
                    backup_days=1,
                    connections=170,
                    deletion_protection=False,
                ),
                emr=Emr(vcpus=24, memory_gb=96, disk_gb=400, runs=4, executors=4),
                identity=_IDENTITY,
                concurrency=_concurrency(),
                log_days=14,
                keep_data=False,
            ),
            Environment(
                name="staging",
                region="eu-central-1",
                orgs=(Org("main", UUID("0192f0c1-6b00-7000-8000-000000000002")),),
                network=Network(cidr="10.30.0.0/16", endpoint_zones=2),
                database=Database(
                    instance_type="t4g.medium",
                    storage_gib=50,
                    multi_az=True,
                    backup_days=7,
                    connections=350,
                ),
                data_database=Database(
                    instance_type="t4g.medium",
                    storage_gib=100,
                    multi_az=True,
                    backup_days=7,
                    connections=350,
                ),
                emr=Emr(vcpus=64, memory_gb=256, disk_gb=1000, runs=10, executors=8),
                identity=_IDENTITY,
                concurrency=_concurrency(
                    internal_api=20, task_api=20, operator_runner=20, worker=10
                ),
            ),
            Environment(
                name="prod",
                region="eu-central-1",
                orgs=(
                    Org(
                        "main", UUID("0192f0c1-6b00-7000-8000-000000000003"), worker_concurrency=40
                    ),
                ),
                network=Network(cidr="10.40.0.0/16", nat_gateways=2, endpoint_zones=2),
                database=Database(
                    instance_type="r7g.large",
                    storage_gib=200,
                    multi_az=True,
                    backup_days=30,
                    connections=1500,
                ),
                data_database=Database(
                    instance_type="r7g.large",
                    storage_gib=500,
                    multi_az=True,
                    backup_days=30,
                    connections=1500,
                ),
                emr=Emr(vcpus=400, memory_gb=1600, disk_gb=6000, runs=50, executors=20),
                identity=_IDENTITY,
                concurrency=_concurrency(
                    user_api=20,
                    internal_api=100,
                    task_api=100,
                    dispatcher=4,
                    reaper=2,
                    outbox_relay=10,
                    emr_events=10,
                    operator_runner=100,
                    worker=40,
                ),
                log_days=90,
                user_requests_per_second=200,
            ),
            Environment(
                name="local",
                region="us-east-1",
                orgs=(
                    Org(
                        "local",
                        UUID("0192f0c1-6b00-7000-8000-000000000004"),
                        administrators=("local:local",),
                    ),
                ),
                identity=IdentityProvider(issuer="http://127.0.0.1:7073", audience="trace"),
                database=ExternalDatabase(secret_name="trace-local/state"),  # noqa: S106
                concurrency=_concurrency(),
                operator_modules=("dags.demo_operators", "dags.smoke_operators"),
                operator_package="dags",
                built_for_this_machine=True,
                architecture=_host(),
                python=f"{sys.version_info.major}.{sys.version_info.minor}",
                log_days=1,
                keep_data=False,
                tracing=False,
            ),
        )
    }
)
