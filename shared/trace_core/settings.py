"""What a process may be told from outside: the `TRACE_*` variables, read once, frozen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid

Port = Annotated[int, Field(ge=0, le=65_535)]
Requests = Annotated[int, Field(ge=1, le=10_000_000)]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+(/[^\s]*)?$", max_length=1000)]
Name = Annotated[str, Field(pattern=r"^[!-~]{1,2048}$")]
"""What AWS calls a name, an id or an ARN."""


ObjectUri = Annotated[str, Field(pattern=r"^s3://[!-~]+$", max_length=1000)]


class Profile(StrEnum):
    LITE = "lite"
    AWS = "aws"


class Settings(BaseModel):
    """One field for each variable: `home` is `TRACE_HOME`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: Profile = Field(
        Profile.LITE, description="Where Trace runs: `lite` on one machine, `aws` in the cloud."
    )
    home: Path = Field(
        Path(".trace"),
        description="The folder of the lite profile: Postgres, objects, keys, secrets, tokens.",
    )
    state_dsn: SecretStr | None = Field(
        None,
        description="Address of the state database; without it lite runs a Postgres of its own.",
    )
    data_dsn: SecretStr | None = Field(
        None,
        description="Address of the data database; without it lite has it beside the state "
        "database: `trace_data` of its own Postgres, or the name of yours with `_data`.",
    )
    org: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")] = Field(
        "local",
        description="Name of the org that commands speak for and the local worker belongs to.",
    )
    operator_modules: tuple[str, ...] = Field(
        (),
        description="Modules or .py files with the project's operators, split by commas or blanks.",
    )
    user_port: Port = Field(7070, description="Port of the user API on loopback.")
    internal_port: Port = Field(7071, description="Port of the internal API on loopback.")
    task_port: Port = Field(7072, description="Port of the task API on loopback.")
    issuer_port: Port = Field(
        7073, description="Port of the development issuer on loopback; lite without an issuer only."
    )
    oidc_issuer: Url | None = Field(
        None,
        description="OpenID Connect issuer of users, as in their tokens' `iss`; without it lite "
        "has a development issuer of its own.",
    )
    oidc_audience: Annotated[str, Field(min_length=1, max_length=500)] = Field(
        "trace", description="What the `aud` of a user token must contain."
    )
    oidc_jwks_url: Url | None = Field(
        None, description="Where the issuer's keys are; default: as its discovery document says."
    )
    first_admin: Annotated[str, Field(min_length=1, max_length=limits.SUBJECT_MAX)] | None = Field(
        None,
        description="Subject (`sub`) whom `trace db migrate` makes administrator of `TRACE_ORG`, "
        "as long as the org has none.",
    )
    user_token: SecretStr | None = Field(
        None, description="User token of the commands; default: one of the development issuer."
    )
    internal_url: Url | None = Field(
        None, description="Where a worker reaches the internal API; default: the local port."
    )
    task_api_url: Url | None = Field(
        None, description="Where a runner reaches the task API; default: the local port."
    )
    worker_token: SecretStr | None = Field(
        None, description="Token of `trace worker`; default: the token file of the home folder."
    )

    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        limits.TASK_LEASE.total_seconds(),
        description="How long a worker may be silent before its task is given to another.",
    )
    retry_seconds: Annotated[float, Field(ge=0, le=600)] = Field(
        limits.TASK_BACKOFF_BASE.total_seconds(),
        description="Nominal wait before the first retry; it doubles with each further one.",
    )

    quarantine_failures: Annotated[int, Field(ge=1, le=1000)] = Field(
        limits.DEFAULT_QUARANTINE.failures,
        description="After how many attempts in a row that ended by its provider's fault a slot is "
        "kept from work.",
    )
    quarantine_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        limits.DEFAULT_QUARANTINE.base.total_seconds(),
        description="For how long, the first time; it doubles with each further one, to an hour.",
    )

    user_requests: Requests = Field(
        limits.DEFAULT_REQUEST_LIMITS.user,
        description="Requests that one user may make to the user API in a minute.",
    )
    org_requests: Requests = Field(
        limits.DEFAULT_REQUEST_LIMITS.org,
        description="Requests that all users of an org may make together in a minute.",
    )
    query_requests: Requests = Field(
        limits.DEFAULT_REQUEST_LIMITS.query,
        description="Queries that one user may make in a minute; no route has them yet.",
    )
    hook_requests: Requests = Field(
        limits.DEFAULT_REQUEST_LIMITS.hook,
        description="Calls that one webhook source takes in a minute.",
    )

    upstreams: SecretStr | None = Field(
        None,
        description="What the egress gateway of a worker leads to: a JSON object, or the file with "
        "it, from names to `url`, `header`, `limits`.",
    )

    state_connections: Annotated[int, Field(ge=1, le=200)] = Field(
        16, description="Connections to the state database that one process keeps at most."
    )
    data_connections: Annotated[int, Field(ge=1, le=200)] = Field(
        8, description="Connections to the data database that one process keeps for each role."
    )
    worker_children: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="Operator processes of a worker that runs as a function."
    )

    spark_cores: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="Profile lite: cores that all PySpark operators share."
    )
    spark_memory: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}[mg]$")] = Field(
        "1g",
        description="Profile lite: memory of the one Spark session, `1g` or `1500m`; Python beside "
        "it takes its own.",
    )
    spark_places: Annotated[int, Field(ge=1, le=16)] = Field(
        2, description="Profile lite: PySpark operators that run at once, in the one session."
    )
    spark_idle_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        1800.0,
        description="Profile lite: when nothing ran for so long, Spark ends; the next run starts "
        "it again.",
    )

    state_secret: Name | None = Field(
        None,
        description="Profile aws: the secret with the address of the state database, as RDS "
        "writes it: `host`, `port`, `dbname`, `username`, `password`.",
    )
    data_secret: Name | None = Field(
        None,
        description="Profile aws: the secret with the address of the data database, of the same "
        "form.",
    )
    data_database: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] | None = Field(
        None,
        description="Profile aws: the name of the data database, where it shares server and "
        "secret with the state database; `trace db migrate` makes it.",
    )
    bucket: Name | None = Field(None, description="Profile aws: the bucket of all objects.")
    signing_key: Name | None = Field(
        None, description="Profile aws: the KMS key (ES256) that signs capability tokens."
    )
    operator_role: Name | None = Field(
        None,
        description="Profile aws: the role that a task gets, narrowed to its own prefixes.",
    )
    queue_prefix: Name | None = Field(
        None, description="Profile aws: what stands before the name of every queue."
    )
    secret_prefix: Name | None = Field(
        None,
        description="Profile aws: secrets are called `<prefix>/<namespace>/<org id>/<name>`.",
    )
    relay_function: Name | None = Field(
        None, description="Profile aws: the function that a push to the outbox relay invokes."
    )
    dispatcher_function: Name | None = Field(
        None, description="Profile aws: the function that a push to the Dispatcher invokes."
    )
    runner_function: Name | None = Field(
        None, description="Profile aws: the function that runs tasks of `runtime: lambda`."
    )
    runner_concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None,
        description="Profile aws: how many tasks of `runtime: lambda` may be reserved or running "
        "at once, in all orgs together; the concurrency of the runner's function.",
    )

    emr_application: Name | None = Field(
        None,
        description="Profile aws: the id of the EMR Serverless application that runs PySpark "
        "operators.",
    )
    emr_role: Name | None = Field(
        None,
        description="Profile aws: the execution role of Spark runs; each run gets it narrowed to "
        "its own prefixes.",
    )
    emr_entry_point: ObjectUri | None = Field(
        None, description="Profile aws: the S3 address of `main.py`, where each run begins."
    )
    emr_code: ObjectUri | None = Field(
        None,
        description="Profile aws: the S3 address of the zip with the modules of Spark runs. A run "
        "must be allowed to read it, and the entry point.",
    )
    emr_logs: ObjectUri | None = Field(
        None,
        description="Profile aws: the S3 folder that runs write their logs to, ending with a "
        "slash. A run must be allowed to write there.",
    )
    emr_runs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Profile aws: how many Spark runs the application takes at once."
    )

    @property
    def timings(self) -> limits.Timings:
        return limits.Timings(
            lease=timedelta(seconds=self.lease_seconds),
            backoff_base=timedelta(seconds=self.retry_seconds),
            run_poll=limits.RUN_POLL if self.profile is Profile.AWS else limits.RUN_POLL_LITE,
        )

    @property
    def quarantine(self) -> limits.Quarantine:
        return limits.Quarantine(
            self.quarantine_failures, timedelta(seconds=self.quarantine_seconds)
        )

    @property
    def request_limits(self) -> limits.RequestLimits:
        return limits.RequestLimits(
            self.user_requests, self.org_requests, self.query_requests, self.hook_requests
        )

    @field_validator("operator_modules", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(value.replace(",", " ").split())
        return value

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read the variables; an empty one counts as not set."""
        given = os.environ if environment is None else environment
        values = {
            name: given[variable(name)] for name in cls.model_fields if given.get(variable(name))
        }
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            # The values stay out of the message: one of them may be a password.
            wrong = sorted({variable(str(each["loc"][0])) for each in error.errors()})
            raise Invalid(f"Not a valid value: {', '.join(wrong)}.", variables=wrong) from None

    @property
    def internal_address(self) -> str:
        return self.internal_url or f"http://127.0.0.1:{self.internal_port}"

    @property
    def issuer_address(self) -> str:
        return self.oidc_issuer or f"http://127.0.0.1:{self.issuer_port}"

    @property
    def task_address(self) -> str:
        return self.task_api_url or f"http://127.0.0.1:{self.task_port}"


def variable(field: str) -> str:
    return f"TRACE_{field.upper()}"
