"""Clients of AWS services, and what their errors mean to us.

Throttling and outages are worth another try; a denial is not, and neither is a call that the
service does not understand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as ConnectionFailed,
)

from trace_core.kernel.errors import Denied, TraceError, Unavailable

LONG_POLL_SECONDS = 20
CONFIG = Config(
    connect_timeout=3,
    read_timeout=LONG_POLL_SECONDS + 10,
    # The library's own tries ride out a hiccup; what lasts longer waits in the outbox.
    retries={"mode": "standard", "total_max_attempts": 3},
    user_agent_extra="trace",
)

_THROTTLED = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "OverLimit",
    "KmsThrottlingException",
    "ProvisionedThroughputExceededException",
    "EC2ThrottledException",
}
_FOR_NOW = {
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "InternalError",
    "InternalFailure",
    "InternalServiceError",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "KMSInternalException",
    "DependencyTimeoutException",
    "ResourceConflictException",
    "ResourceNotReadyException",
}


def error_code(error: ClientError) -> str:
    """The service's own name of the error, without the prefix that some protocols add."""
    code = str(error.response.get("Error", {}).get("Code", "Unknown"))
    return code.rpartition("#")[2].removeprefix("AWS.SimpleQueueService.")


def translated(error: ClientError, what: str) -> TraceError:
    """What an answer of a service comes to. Its text stays out: it may quote what we sent."""
    code = error_code(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _THROTTLED or status == 429:
        return Unavailable(f"{what} asks us to slow down.", reason=code)
    if code in _FOR_NOW or status >= 500:
        return Unavailable(f"{what} does not answer.", reason=code)
    return Denied(f"{what} refused the call.", reason=code)


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Around a call: its errors become ours. `what` names the service for people."""
    try:
        yield
    except ClientError as error:
        raise translated(error, what) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise Denied(f"There are no credentials for {what}.") from error
    except (ConnectionFailed, HTTPClientError) as error:
        raise Unavailable(f"{what} cannot be reached.") from error


def chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
