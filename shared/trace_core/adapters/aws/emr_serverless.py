"""PySpark operators on EMR Serverless: one job run for each start of a task."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from trace_core.adapters.aws.calls import calling, error_code
from trace_core.adapters.aws.emr_policy import execution_policy
from trace_core.kernel.errors import Busy, Conflict, Invalid, NotFound, Unavailable
from trace_core.ports.spark_runner import (
    LOGGERS_THAT_QUOTE,
    RunRequest,
    RunState,
    RunStatus,
    Usage,
    check_request,
)

if TYPE_CHECKING:
    from mypy_boto3_emr_serverless import EMRServerlessClient
    from mypy_boto3_emr_serverless.type_defs import JobRunTypeDef

logger = logging.getLogger(__name__)
_SERVICE = "EMR Serverless"
_RUN_ID = re.compile(r"[0-9a-z]{1,64}")
_MINUTES_MAX = 7 * 24 * 60
_NAME_MAX = 256
TIMEOUT_TAG, QUEUE_TAG = "trace-timeout-seconds", "trace-queue-seconds"
_LOGGING = {"rootLogger.level": "error"}
for _number, _name in enumerate(LOGGERS_THAT_QUOTE):
    _LOGGING |= {f"logger.quotes{_number}.name": _name, f"logger.quotes{_number}.level": "off"}
_FOUND_WITHIN = timedelta(days=2)
"""How far back a run is looked for whose client token is known to have begun one."""


@dataclass(frozen=True)
class EmrApplication:
    """What the stack made."""

    application_id: str
    role_arn: str
    bucket: str
    entry_point: str
    """The address of `main.py`."""
    code: str
    """The address of the zip with the modules."""
    logs: str
    """The address of a folder, ending with a slash."""
    runs: int
    """How many the application takes at once."""


class EmrServerlessRunner:
    """`SparkRunner`. `payload_uri` is `s3://`, the bucket, and the payload's key as it is.

    The service knows a time limit in minutes for the whole of a run, and none for one run's
    waiting. So both limits are tags of the run as well, and whoever looks at a run that is past
    one cancels it; the service's own limit lies behind both, for when nobody looks.
    """

    def __init__(self, client: EMRServerlessClient, application: EmrApplication) -> None:
        self._client = client
        self._application = application

    def close(self) -> None:
        self._client.close()

    def room(self) -> int:
        return self._application.runs

    def start(self, request: RunRequest) -> str:
        check_request(request)
        given = start_fields(self._application, request)
        with calling(_SERVICE):
            try:
                return self._client.start_job_run(**given)["jobRunId"]
            except ClientError as error:
                match error_code(error):
                    case "ServiceQuotaExceededException":
                        raise Busy("EMR Serverless has as many runs as it takes.") from error
                    case "ConflictException":
                        never: Conflict | Invalid = Conflict(
                            "EMR Serverless knows the client token, and shows no run of it.",
                            client_token=request.client_token,
                        )
                    case "ValidationException":
                        # An earlier call may have begun it all the same, whose answer was lost.
                        never = Invalid("EMR Serverless does not take the run.")
                    case _:
                        raise
                if (begun := self._begun(request)) is None:
                    raise never from error
                return begun

    def status(self, run_id: str) -> RunStatus:
        found = self._get(run_id)
        state = _state(found)
        detail = str(found["stateDetails"]).strip()
        passed = _limit_passed(found, found.get("endedAt") or datetime.now(UTC))
        if passed is not None and state is RunState.CANCELLED:
            detail = passed
        elif passed is not None and not state.has_ended and state is not RunState.CANCELLING:
            self.cancel(run_id)
        queued = found.get("queuedDurationMilliseconds")
        return RunStatus(
            run_id=run_id,
            state=state,
            detail=detail,
            submitted_at=found["createdAt"],
            started_at=found.get("startedAt"),
            ended_at=found.get("endedAt"),
            queued_seconds=None if queued is None else queued / 1000,
            usage=_usage(found),
        )

    def cancel(self, run_id: str) -> None:
        with calling(_SERVICE), _known(run_id):
            try:
                self._client.cancel_job_run(
                    applicationId=self._application.application_id, jobRunId=run_id
                )
            except ClientError as error:
                # What has ended, or is about to, is refused.
                if error_code(error) not in ("ValidationException", "ConflictException"):
                    raise
                state = _state(self._get(run_id))
                if not state.has_ended and state is not RunState.CANCELLING:
                    raise

    def _get(self, run_id: str) -> JobRunTypeDef:
        with calling(_SERVICE), _known(run_id):
            answer = self._client.get_job_run(
                applicationId=self._application.application_id, jobRunId=run_id
            )
        return answer["jobRun"]

    def _begun(self, request: RunRequest) -> str | None:
        """The run that a client token has begun, found by its name.

        A token is a conflict when it comes with other fields: a release may change the code between
        a start and its repetition.
        """
        pages = self._client.get_paginator("list_job_runs").paginate(
            applicationId=self._application.application_id,
            createdAtAfter=datetime.now(UTC) - _FOUND_WITHIN,
        )
        name = run_name(request)
        for page in pages:
            for each in page["jobRuns"]:
                if each.get("name") == name:
                    return each["id"]
        return None


@contextmanager
def _known(run_id: str) -> Iterator[None]:
    """Around a call about one run: without such a run it is `NotFound`."""
    if not _RUN_ID.fullmatch(run_id):
        raise NotFound("EMR Serverless has no such run.", run_id=run_id)
    try:
        yield
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            raise NotFound("EMR Serverless has no such run.", run_id=run_id) from error
        raise


def run_name(request: RunRequest) -> str:
    """For people, and unique: a run can be found by it."""
    return f"{request.name[: _NAME_MAX - 66]} {request.client_token}"


def start_fields(application: EmrApplication, request: RunRequest) -> Any:
    """All of StartJobRun. Without a client token of ours the library would make one up."""
    # A folder of its own, so that no run may write into the log of another.
    logs = f"{application.logs}{request.client_token}/"
    policy = execution_policy(
        application.bucket,
        request.read_prefixes,
        request.write_prefixes,
        code=(application.entry_point, application.code),
        logs=logs,
        partition=application.role_arn.split(":")[1],
    )
    return {
        "applicationId": application.application_id,
        "clientToken": request.client_token,
        "executionRoleArn": application.role_arn,
        "executionIamPolicy": {"policy": policy},
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": application.entry_point,
                "entryPointArguments": [request.payload_uri],
                "sparkSubmitParameters": f"--conf spark.submit.pyFiles={application.code}",
            }
        },
        "configurationOverrides": {
            "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": logs}},
            "applicationConfiguration": [
                {"classification": f"spark-{part}-log4j2", "properties": dict(_LOGGING)}
                for part in ("driver", "executor")
            ],
        },
        "name": run_name(request),
        "tags": {
            **request.tags,
            TIMEOUT_TAG: str(request.timeout_seconds),
            QUEUE_TAG: str(request.queue_seconds),
        },
        "executionTimeoutMinutes": timeout_minutes(request),
        # Attempts are counted by the platform, each with a payload of its own.
        "retryPolicy": {"maxAttempts": 1},
    }


def timeout_minutes(request: RunRequest) -> int:
    """Long enough for a run that waits as long as it may, and then runs as long as it may."""
    seconds = request.queue_seconds + request.timeout_seconds
    return min(-(-seconds // 60), _MINUTES_MAX)


def _state(found: JobRunTypeDef) -> RunState:
    try:
        return RunState(found["state"])
    except ValueError as error:
        raise Unavailable(
            "EMR Serverless reports a state that this release does not know.", state=found["state"]
        ) from error


def _usage(found: JobRunTypeDef) -> Usage | None:
    """What is paid for; while that is not known, what was used."""
    used = found.get("billedResourceUtilization") or found.get("totalResourceUtilization")
    if not used:
        return None
    return Usage(
        used.get("vCPUHour", 0.0), used.get("memoryGBHour", 0.0), used.get("storageGBHour", 0.0)
    )


def _limit_passed(found: JobRunTypeDef, now: datetime) -> str | None:
    tags, started_at = found.get("tags", {}), found.get("startedAt")
    tag, since, told = (
        (QUEUE_TAG, found["createdAt"], "it waited longer than {} s to begin")
        if started_at is None
        else (TIMEOUT_TAG, started_at, "it ran longer than {} s")
    )
    limit = tags.get(tag, "")
    if not limit.isdecimal() or now - since <= timedelta(seconds=int(limit)):
        return None
    return told.format(limit)
