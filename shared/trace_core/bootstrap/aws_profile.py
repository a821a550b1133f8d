"""The adapters of the profile `aws`. Imported only there: the library takes its time to load."""

from __future__ import annotations

from typing import Any

import boto3

from trace_core.adapters.aws.calls import CONFIG
from trace_core.adapters.aws.database_secret import read_dsn
from trace_core.adapters.aws.emr_serverless import EmrApplication, EmrServerlessRunner
from trace_core.adapters.aws.kms import KmsSigner
from trace_core.adapters.aws.lambda_functions import LambdaRuntime, LambdaWaker
from trace_core.adapters.aws.s3 import S3ObjectStore
from trace_core.adapters.aws.secrets_manager import SecretsManagerStore
from trace_core.adapters.aws.sqs import SqsQueue
from trace_core.adapters.aws.sts import StsCredentialIssuer
from trace_core.adapters.no_arrivals import NoArrivals
from trace_core.bootstrap.profiles import HasState
from trace_core.database.data import DataDatabase, DataRole
from trace_core.database.databases import ensure_database, named
from trace_core.database.state import StateDatabase
from trace_core.kernel.errors import Invalid
from trace_core.ports.arrivals import Arrivals
from trace_core.ports.credential_issuer import CredentialIssuer
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.queue import Queue
from trace_core.ports.secret_store import SecretStore
from trace_core.ports.spark_runner import SparkRunner
from trace_core.ports.task_runtime import TaskRuntime
from trace_core.ports.token_signer import TokenSigner
from trace_core.ports.waker import Function, Waker
from trace_core.settings import variable


class AwsAdapters:
    """What the stack made, by the names that it gave to this function."""

    def __init__(self, parts: HasState) -> None:
        self._parts = parts
        # Finds region, role and, on an emulator, the endpoint in the environment.
        self._session = boto3.Session()

    def state_dsn(self) -> str:
        given = self._parts.settings.state_dsn
        if given is not None:
            return given.get_secret_value()
        return self._read_dsn("state_secret")

    def _read_dsn(self, field: str) -> str:
        client = self._session.client("secretsmanager", config=CONFIG)
        return read_dsn(client, self._required(field))

    def state(self) -> StateDatabase:
        parts = self._parts
        return StateDatabase(
            parts.state_dsn,
            size=parts.settings.state_connections,
            # The password may have been rotated since this process read it.
            refresh=self.state_dsn,
        )

    def data_dsn(self) -> str:
        settings = self._parts.settings
        if settings.data_dsn is not None:
            return settings.data_dsn.get_secret_value()
        dsn = self._read_dsn("data_secret")
        return named(dsn, settings.data_database) if settings.data_database else dsn

    def make_data_database(self) -> None:
        settings = self._parts.settings
        if settings.data_dsn is None and settings.data_database:
            ensure_database(self._read_dsn("data_secret"), settings.data_database)

    def data(self, role: DataRole | None) -> DataDatabase:
        parts = self._parts
        return DataDatabase(
            parts.data_dsn,
            role=role,
            size=parts.settings.data_connections,
            refresh=self.data_dsn,
        )

    def queue(self) -> Queue:
        client = self._session.client("sqs", config=CONFIG)
        return SqsQueue(client, prefix=self._required("queue_prefix"))

    def arrivals(self) -> Arrivals:
        return NoArrivals()

    def waker(self) -> Waker:
        settings = self._parts.settings
        names = {
            Function.OUTBOX_RELAY: settings.relay_function,
            Function.DISPATCHER: settings.dispatcher_function,
        }
        client = self._session.client("lambda", config=CONFIG)
        return LambdaWaker(client, {each: name for each, name in names.items() if name})

    def objects(self) -> ObjectStore:
        client = self._session.client("s3", config=CONFIG)
        return S3ObjectStore(client, self._required("bucket"))

    def secrets(self) -> SecretStore:
        client = self._session.client("secretsmanager", config=CONFIG)
        return SecretsManagerStore(client, prefix=self._required("secret_prefix"))

    def signer(self) -> TokenSigner:
        client = self._session.client("kms", config=CONFIG)
        return KmsSigner(client, self._required("signing_key").split(","))

    def task_runtime(self) -> TaskRuntime:
        client = self._session.client("lambda", config=CONFIG)
        return LambdaRuntime(client, self._required("runner_function"))

    def runner_concurrency(self) -> int | None:
        limit: int = self._required("runner_concurrency")
        return limit

    def spark_runner(self) -> SparkRunner:
        client = self._session.client("emr-serverless", config=CONFIG)
        required = self._required
        return EmrServerlessRunner(
            client,
            EmrApplication(
                required("emr_application"), required("emr_role"), required("bucket"),
                required("emr_entry_point"), required("emr_code"), required("emr_logs"),
                required("emr_runs"),
            ),
        )  # fmt: skip

    def spark_concurrency(self) -> int | None:
        limit: int = self._required("emr_runs")
        return limit

    def object_address(self, key: str) -> str:
        return f"s3://{self._required('bucket')}/{key}"

    def credential_issuer(self) -> CredentialIssuer:
        client = self._session.client("sts", config=CONFIG)
        return StsCredentialIssuer(
            client, role_arn=self._required("operator_role"), bucket=self._required("bucket")
        )

    def close(self) -> None:
        pass

    def _required(self, field: str) -> Any:
        value = getattr(self._parts.settings, field)
        if value is None:
            name = variable(field)
            raise Invalid(f"The profile aws needs {name} for that.", variables=[name])
        return value
