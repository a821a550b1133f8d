"""The adapters of AWS on the emulator, for the suites of their ports."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import boto3
import pytest

from tests.conformance.harness import (
    CredentialsHarness,
    ObjectStoreHarness,
    QueueHarness,
    SecretStoreHarness,
    TokenSignerHarness,
    WakerHarness,
    becomes,
)
from tests.conformance.recorder import recording
from tests.conformance.spark_runs import RunPlace, SparkRunnerHarness
from tests.emr_service import ACCOUNT, APPLICATION, EmrService
from tests.fault_proxy import FaultProxy
from tests.localstack_server import ACCOUNT_ID, REGION, LocalStack
from trace_core.adapters.aws.calls import CONFIG
from trace_core.adapters.aws.emr_serverless import EmrApplication, EmrServerlessRunner
from trace_core.adapters.aws.kms import KmsSigner
from trace_core.adapters.aws.lambda_functions import LambdaWaker
from trace_core.adapters.aws.s3 import S3ObjectStore
from trace_core.adapters.aws.secrets_manager import SecretsManagerStore
from trace_core.adapters.aws.sqs import SqsQueue
from trace_core.adapters.aws.sts import StsCredentialIssuer
from trace_core.ports.credential_issuer import Credentials
from trace_core.ports.waker import Function

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MAX_RECEIVES = 3
EMR = EmrApplication(
    application_id=APPLICATION,
    role_arn=f"arn:aws:iam::{ACCOUNT}:role/trace-dev-spark",
    bucket="trace-dev-objects",
    entry_point="s3://assets/0123456789abcdef.py",
    code="s3://assets/fedcba9876543210.zip",
    logs="s3://trace-dev-objects/spark-logs/",
    runs=5,
)


def _parts(request: pytest.FixtureRequest) -> tuple[LocalStack, boto3.Session]:
    return request.getfixturevalue("localstack"), request.getfixturevalue("aws")


def sqs(request: pytest.FixtureRequest) -> Iterator[QueueHarness]:
    localstack, aws = _parts(request)
    client = aws.client("sqs")
    name, other = localstack.name("queue"), localstack.name("queue")
    urls = [queue_with_dead_letters(client, each) for each in (name, other)]
    proxy = FaultProxy(localstack.endpoint)
    queue = SqsQueue(aws.client("sqs", config=CONFIG, endpoint_url=proxy.endpoint))
    try:
        yield QueueHarness(
            queue=queue,
            name=name,
            other_name=other,
            max_receives=MAX_RECEIVES,
            visibility=timedelta(seconds=1),
            let_pass=lambda by: time.sleep(by.total_seconds()),
            wakes_within=timedelta(seconds=2),
            patience=timedelta(seconds=10),
            outage=proxy.outage,
            exact_receipts=False,
        )
    finally:
        queue.close()
        proxy.close()
        for url in urls:
            client.delete_queue(QueueUrl=url)


def queue_with_dead_letters(client: SQSClient, name: str) -> str:
    dead = client.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    found = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {
        "deadLetterTargetArn": found["Attributes"]["QueueArn"],
        "maxReceiveCount": str(MAX_RECEIVES),
    }
    attributes: Any = {"RedrivePolicy": json.dumps(policy)}
    return client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def s3(request: pytest.FixtureRequest) -> Iterator[ObjectStoreHarness]:
    localstack, aws = _parts(request)
    client = aws.client("s3", config=CONFIG)
    bucket = localstack.name("bucket")
    client.create_bucket(Bucket=bucket)

    def fetch(url: str) -> bytes:
        with urlopen(url, timeout=10) as answer:  # noqa: S310
            data: bytes = answer.read()
            return data

    yield ObjectStoreHarness(
        S3ObjectStore(client, bucket, prefix="objects/"),
        lambda: S3ObjectStore(aws.client("s3", config=CONFIG), bucket, prefix="objects/"),
        fetch,
    )


def secrets_manager(request: pytest.FixtureRequest) -> Iterator[SecretStoreHarness]:
    localstack, aws = _parts(request)
    prefix = localstack.name("secrets")

    def store() -> SecretsManagerStore:
        return SecretsManagerStore(aws.client("secretsmanager", config=CONFIG), prefix=prefix)

    yield SecretStoreHarness(store(), store)


def kms(request: pytest.FixtureRequest) -> Iterator[TokenSignerHarness]:
    _, aws = _parts(request)
    client = aws.client("kms", config=CONFIG)

    def new_key() -> str:
        made = client.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")
        return made["KeyMetadata"]["KeyId"]

    key_ids = [new_key()]

    def signer() -> KmsSigner:
        return KmsSigner(aws.client("kms", config=CONFIG), key_ids)

    yield TokenSignerHarness(signer(), signer, lambda: key_ids.insert(0, new_key()))


def waker(request: pytest.FixtureRequest) -> Iterator[WakerHarness]:
    localstack, aws = _parts(request)
    seen = dict.fromkeys(Function, 0)
    proxy = FaultProxy(localstack.endpoint)
    with recording(localstack) as recorder:

        def was_woken(function: Function, timeout: timedelta) -> bool:
            woken = becomes(lambda: len(recorder.calls(function.value)) > seen[function], timeout)
            seen[function] = len(recorder.calls(function.value))
            return woken

        names = {function: recorder.deploy(function.value) for function in Function}
        client = aws.client("lambda", config=CONFIG, endpoint_url=proxy.endpoint)
        yield WakerHarness(
            waker=LambdaWaker(client, names),
            was_woken=was_woken,
            outage=proxy.outage,
            patience=timedelta(seconds=20),
        )
    proxy.close()


def credentials(request: pytest.FixtureRequest) -> Iterator[CredentialsHarness]:
    localstack, aws = _parts(request)
    bucket = localstack.name("bucket")
    client = aws.client("s3", config=CONFIG)
    client.create_bucket(Bucket=bucket)
    issuer = StsCredentialIssuer(
        aws.client("sts", config=CONFIG),
        role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/{localstack.name('operator')}",
        bucket=bucket,
    )

    def read(found: Credentials, key: str) -> bytes:
        session = boto3.Session(
            found.environment["AWS_ACCESS_KEY_ID"],
            found.environment["AWS_SECRET_ACCESS_KEY"],
            found.environment["AWS_SESSION_TOKEN"],
            REGION,
        )
        own = session.client("s3", endpoint_url=localstack.endpoint)
        return own.get_object(Bucket=bucket, Key=key)["Body"].read()

    yield CredentialsHarness(issuer, S3ObjectStore(client, bucket), read)


def emr_serverless(request: pytest.FixtureRequest) -> Iterator[SparkRunnerHarness]:
    """The service is ours and speaks its protocol; the runs are real, in the local runner."""
    service = EmrService(request.getfixturevalue("local_spark"))

    def runner() -> EmrServerlessRunner:
        return EmrServerlessRunner(service.client(config=CONFIG), EMR)

    with closing(runner()) as first:
        yield SparkRunnerHarness(
            first,
            another=lambda: closing(runner()),
            place=RunPlace(request.getfixturevalue("tmp_path"), "emr"),
            counts_what_it_holds=False,
        )
    service.close()
