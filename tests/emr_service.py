"""Speaks EMR Serverless over HTTP, and runs the jobs for real in a local runner.

Requests and answers are held against the service model of the AWS library, with the patterns and
bounds that the library itself does not check. A client token is remembered with what was asked
under it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import ParamValidator

from trace_core.ports.spark_runner import RunRequest, RunState, RunStatus, SparkRunner

APPLICATION = "00f1abcdefghij09"
ACCOUNT = "123456789012"
_ARN = f"arn:aws:emr-serverless:eu-central-1:{ACCOUNT}:/applications/{APPLICATION}"
_MODEL = botocore.session.get_session().get_service_model("emr-serverless")
_FOR_EVER = 86_400
_DETAILS = {RunState.FAILED: "Job failed. ExitCode: 1", RunState.RUNNING: "Job is running"}


class Refused(Exception):
    def __init__(self, code: str, status: int, message: str = "no") -> None:
        self.code, self.status, self.message = code, status, message
        super().__init__(f"{code}: {message}")


class EmrService:
    """`fail_with` are answers to the next requests; `lose_answers` does them and hangs up."""

    def __init__(self, runner: SparkRunner) -> None:
        self._runner = runner
        self._lock = threading.Lock()
        self._runs: dict[str, dict[str, Any]] = {}
        self._tokens: dict[str, str] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.fail_with: list[Refused] = []
        self.lose_answers = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def any_method(self) -> None:
                service._serve(self)

            do_GET = do_POST = do_DELETE = any_method

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def client(self, **changes: Any) -> Any:
        return boto3.client(
            "emr-serverless",
            endpoint_url=self.endpoint,
            region_name="eu-central-1",
            aws_access_key_id="AKIAEXAMPLE",
            aws_secret_access_key="secret",
            **changes,
        )

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        try:
            if "/emr-serverless/aws4_request" not in handler.headers.get("authorization", ""):
                raise Refused("AccessDeniedException", 403)
            operation, given = _parsed(handler.command, handler.path, body)
            with self._lock:
                self.requests.append((operation, given))
                if self.fail_with:
                    raise self.fail_with.pop(0)
                answer = {
                    "StartJobRun": self._start,
                    "GetJobRun": self._get,
                    "CancelJobRun": self._cancel,
                    "ListJobRuns": self._list,
                }[operation](given)
                if self.lose_answers and operation == "StartJobRun":
                    self.lose_answers -= 1
                    handler.close_connection = True
                    return
            output = _MODEL.operation_model(operation).output_shape
            _check(_as_parsed(answer), output)
            _send(handler, 200, answer)
        except Refused as error:
            headers = {"x-amzn-ErrorType": error.code}
            _send(handler, error.status, {"message": error.message}, headers)

    def _start(self, given: dict[str, Any]) -> dict[str, Any]:
        token = given["clientToken"]
        run_id = self._tokens.get(token)
        if run_id is None:
            run_id = f"00f{len(self._runs):013}"
            self._tokens[token] = run_id
            self._runs[run_id] = {"given": given, "local": self._begin(token, given)}
        elif self._runs[run_id]["given"] != given:
            raise Refused("ConflictException", 409, "the client token has other parameters")
        return {
            "applicationId": APPLICATION,
            "jobRunId": run_id,
            "arn": f"{_ARN}/jobruns/{run_id}",
        }

    def _begin(self, token: str, given: dict[str, Any]) -> str:
        if len(given["executionIamPolicy"]["policy"]) > 2048:
            raise Refused("ValidationException", 400, "the policy is too long")
        json.loads(given["executionIamPolicy"]["policy"])
        [payload] = given["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        return self._runner.start(
            RunRequest(
                client_token=f"emr-{token}"[:64],
                name=given["name"],
                payload_uri=payload,
                read_prefixes=(),
                write_prefixes=(),
                timeout_seconds=given["executionTimeoutMinutes"] * 60,
                queue_seconds=_FOR_EVER,
            )
        )

    def _known(self, run_id: str) -> dict[str, Any]:
        if run_id not in self._runs:
            raise Refused("ResourceNotFoundException", 404, f"there is no {run_id}")
        return self._runs[run_id]

    def _get(self, given: dict[str, Any]) -> dict[str, Any]:
        run = self._known(given["jobRunId"])
        found, asked = self._runner.status(run["local"]), run["given"]
        fields = {
            "applicationId": APPLICATION,
            "jobRunId": given["jobRunId"],
            "arn": f"{_ARN}/jobruns/{given['jobRunId']}",
            "name": asked["name"],
            "createdBy": f"arn:aws:sts::{ACCOUNT}:assumed-role/relay/trace",
            "createdAt": _seconds(found.submitted_at),
            "updatedAt": _seconds(found.ended_at or found.started_at or found.submitted_at),
            "executionRole": asked["executionRoleArn"],
            "state": found.state.value,
            "stateDetails": _DETAILS.get(found.state, " -"),
            "releaseLabel": "emr-spark-8.0.0",
            "jobDriver": asked["jobDriver"],
            "tags": asked["tags"],
            "executionTimeoutMinutes": asked["executionTimeoutMinutes"],
            "attempt": 1,
            "startedAt": _seconds(found.started_at),
            "endedAt": _seconds(found.ended_at),
            "queuedDurationMilliseconds": (
                None if found.queued_seconds is None else int(found.queued_seconds * 1000)
            ),
            "billedResourceUtilization": _usage(found),
        }
        return {"jobRun": {name: value for name, value in fields.items() if value is not None}}

    def _cancel(self, given: dict[str, Any]) -> dict[str, Any]:
        run = self._known(given["jobRunId"])
        if self._runner.status(run["local"]).state.has_ended:
            raise Refused("ValidationException", 400, "the job run is in a terminal state")
        self._runner.cancel(run["local"])
        return {"applicationId": APPLICATION, "jobRunId": given["jobRunId"]}

    def _list(self, given: dict[str, Any]) -> dict[str, Any]:
        """One run for each page."""
        at = int(given.get("nextToken", 0))
        found = []
        for run_id in list(self._runs)[at : at + 1]:
            run = self._get({"jobRunId": run_id})["jobRun"]
            names = ("applicationId", "name", "arn", "createdBy", "createdAt", "updatedAt")
            same = (*names, "executionRole", "state", "stateDetails", "releaseLabel")
            found.append({"id": run_id, **{name: run[name] for name in same}})
        more = {"nextToken": str(at + 1)} if at + 1 < len(self._runs) else {}
        return {"jobRuns": found, **more}


def _parsed(method: str, path: str, body: bytes) -> tuple[str, dict[str, Any]]:
    """The operation, and its input as the model names it; refused when the model refuses it."""
    parts = urlsplit(path)
    for name in ("StartJobRun", "GetJobRun", "CancelJobRun", "ListJobRuns"):
        operation = _MODEL.operation_model(name)
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", operation.http["requestUri"])
        match = re.fullmatch(pattern, parts.path)
        if match is None or operation.http["method"] != method:
            continue
        given: dict[str, Any] = json.loads(body) if body else {}
        given |= {key: unquote(value) for key, value in match.groupdict().items()}
        given |= {key: values[0] for key, values in parse_qs(parts.query).items()}
        checked = dict(given)
        if "createdAtAfter" in checked:
            checked["createdAtAfter"] = datetime.fromisoformat(checked["createdAtAfter"])
        _check(checked, operation.input_shape)
        if given["applicationId"] != APPLICATION:
            raise Refused("ResourceNotFoundException", 404, "there is no such application")
        return name, given
    raise Refused("UnknownOperationException", 404, f"{method} {path}")


def check_input(operation: str, given: Mapping[str, Any]) -> None:
    """Raises what the service would answer."""
    _check(given, _MODEL.operation_model(operation).input_shape)


def _check(given: Mapping[str, Any], shape: Shape) -> None:
    report = ParamValidator().validate(given, shape)
    found = [report.generate_report()] if report.has_errors() else list(_problems(given, shape))
    if found:
        raise Refused("ValidationException", 400, "; ".join(found))


def _problems(value: Any, shape: Shape) -> Iterator[str]:
    match shape:
        case StructureShape():
            for name in set(value) - set(shape.members):
                yield f"{shape.name} has no {name}"
            for name, each in value.items():
                if name in shape.members:
                    yield from _problems(each, shape.members[name])
        case ListShape():
            for each in value:
                yield from _problems(each, shape.member)
        case MapShape():
            for key, each in value.items():
                yield from _problems(key, shape.key)
                yield from _problems(each, shape.value)
    rules = shape.metadata
    if shape.type_name == "string":
        if "enum" in rules and value not in rules["enum"]:
            yield f"{shape.name}: {value} is none of its values"
        # What is left of some patterns in the model is not what was meant: those for any text.
        pattern = rules.get("pattern", r"\S")
        if not ("\\S" in pattern or "ÿ" in pattern or re.fullmatch(pattern, value)):
            yield f"{shape.name}: {value!r} does not match {pattern}"
        if len(value) > rules.get("max", len(value)):
            yield f"{shape.name} is longer than {rules['max']}"
    elif shape.type_name in ("integer", "long") and value > rules.get("max", value):
        yield f"{shape.name} is more than {rules['max']}"


def _as_parsed(answer: dict[str, Any]) -> dict[str, Any]:
    """Instants travel as seconds; the validator wants what they mean."""
    return {
        key: (
            datetime.fromtimestamp(value, UTC)
            if key.endswith("At")
            else _as_parsed(value)
            if isinstance(value, dict)
            else [_as_parsed(each) for each in value]
            if isinstance(value, list) and value and isinstance(value[0], dict)
            else value
        )
        for key, value in answer.items()
    }


def _seconds(instant: datetime | None) -> float | None:
    return None if instant is None else instant.timestamp()


def _usage(found: RunStatus) -> dict[str, float] | None:
    if found.usage is None:
        return None
    return {
        "vCPUHour": found.usage.vcpu_hours,
        "memoryGBHour": found.usage.memory_gb_hours,
        "storageGBHour": 0.0,
    }


def _send(
    handler: BaseHTTPRequestHandler,
    status: int,
    answer: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> None:
    data = json.dumps(answer).encode()
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)
