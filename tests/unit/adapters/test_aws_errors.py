"""What answers of AWS mean: throttling and outages are retried, denials are not."""

from __future__ import annotations

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from trace_core.adapters.aws.calls import calling, error_code
from trace_core.adapters.aws.sqs import SqsQueue
from trace_core.kernel.errors import Denied, TraceError, Unavailable

SECRET = "canary-in-the-message"


def answer(code: str, status: int) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": SECRET},
            "ResponseMetadata": {"HTTPStatusCode": status},  # type: ignore[typeddict-item]
        },
        "Call",
    )


@pytest.mark.parametrize(
    ("code", "status", "meaning"),
    [
        ("ThrottlingException", 400, Unavailable),
        ("RequestThrottled", 400, Unavailable),
        ("AWS.SimpleQueueService.RequestThrottled", 400, Unavailable),
        ("com.amazonaws.sqs#RequestThrottled", 400, Unavailable),
        ("TooManyRequestsException", 429, Unavailable),
        ("SlowDown", 503, Unavailable),
        ("KmsThrottlingException", 400, Unavailable),
        ("ServiceUnavailable", 503, Unavailable),
        ("InternalError", 500, Unavailable),
        ("Anything", 502, Unavailable),
        ("RequestTimeout", 400, Unavailable),
        ("AccessDenied", 403, Denied),
        ("AccessDeniedException", 400, Denied),
        ("ExpiredToken", 400, Denied),
        ("InvalidClientTokenId", 403, Denied),
        ("UnrecognizedClientException", 403, Denied),
        ("ValidationException", 400, Denied),
        ("ResourceNotFoundException", 404, Denied),
        ("NoSuchBucket", 404, Denied),
    ],
)
def test_an_answer_means_one_of_two_things(
    code: str, status: int, meaning: type[TraceError]
) -> None:
    with pytest.raises(meaning) as caught, calling("It"):
        raise answer(code, status)
    assert type(caught.value) is meaning
    assert SECRET not in str(caught.value.body())


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
        ConnectTimeoutError(endpoint_url="http://127.0.0.1:1"),
        ReadTimeoutError(endpoint_url="http://127.0.0.1:1"),
    ],
)
def test_silence_is_an_outage(error: Exception) -> None:
    with pytest.raises(Unavailable), calling("It"):
        raise error


def test_missing_credentials_are_a_denial() -> None:
    with pytest.raises(Denied), calling("It"):
        raise NoCredentialsError


def test_a_mistake_of_ours_stays_what_it_is() -> None:
    with pytest.raises(ParamValidationError), calling("It"):
        raise ParamValidationError(report="a parameter is missing")


def test_the_code_of_an_error_has_no_prefix() -> None:
    assert error_code(answer("AWS.SimpleQueueService.NonExistentQueue", 400)) == "NonExistentQueue"
    assert error_code(answer("com.amazonaws.sqs#QueueDoesNotExist", 400)) == "QueueDoesNotExist"


def test_a_service_that_is_not_there_is_unavailable_soon() -> None:
    client = boto3.client(
        "sqs",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=1),
    )
    with pytest.raises(Unavailable):
        SqsQueue(client).depth("any")
