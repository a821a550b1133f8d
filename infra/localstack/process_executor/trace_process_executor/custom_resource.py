"""Custom resources, which LocalStack leaves out: a function is asked, and answers by a PUT.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

from __future__ import annotations

import json
import queue
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from localstack.services.cloudformation.resource_provider import (
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
    ResourceRequest,
)

TYPE = "AWS::CloudFormation::CustomResource"
_known: dict[tuple[str, str], str] = {}
"""Stack and logical id -> physical id. LocalStack does not hand it to a deletion."""


class CustomResourceProvider(ResourceProvider[Any]):
    SCHEMA = {"typeName": TYPE, "primaryIdentifier": ["/properties/PhysicalResourceId"]}  # noqa: RUF012

    def create(self, request: ResourceRequest[Any]) -> ProgressEvent[Any]:
        return _ask(request, "Create", {})

    def update(self, request: ResourceRequest[Any]) -> ProgressEvent[Any]:
        return _ask(request, "Update", {"OldResourceProperties": request.previous_state or {}})

    def delete(self, request: ResourceRequest[Any]) -> ProgressEvent[Any]:
        return _ask(request, "Delete", {})


def _ask(request: ResourceRequest[Any], what: str, more: dict[str, Any]) -> ProgressEvent[Any]:
    place = (request.stack_id, request.logical_resource_id)
    properties = request.desired_state
    with _mailbox() as (url, answers):
        event = {
            "RequestType": what,
            "ResponseURL": url,
            "StackId": request.stack_id,
            "RequestId": str(uuid.uuid4()),
            "ResourceType": request.resource_type,
            "LogicalResourceId": request.logical_resource_id,
            "ResourceProperties": properties,
            **({"PhysicalResourceId": _known[place]} if place in _known else {}),
            **more,
        }
        # AWS does not wait for the function but for its answer, and for an hour when there is
        # none. Here a function that fails without one is seen at once.
        answered = request.aws_client_factory.lambda_.invoke(
            FunctionName=properties["ServiceToken"], Payload=json.dumps(event).encode()
        )
        try:
            answer = answers.get_nowait()
        except queue.Empty:
            said = answered["Payload"].read().decode(errors="replace")
            return _failed(f"the function ended without an answer: {said[:1000]}")
    if answer.get("Status") != "SUCCESS":
        return _failed(str(answer.get("Reason")))
    if what == "Delete":
        _known.pop(place, None)
    else:
        _known[place] = answer["PhysicalResourceId"]
    model = {**properties, **(answer.get("Data") or {})}
    model["PhysicalResourceId"] = answer["PhysicalResourceId"]
    return ProgressEvent(OperationStatus.SUCCESS, resource_model=model)


def _failed(reason: str) -> ProgressEvent[Any]:
    message = f"Received response status [FAILED] from custom resource. Message returned: {reason}"
    return ProgressEvent(OperationStatus.FAILED, resource_model={}, message=message)


@contextmanager
def _mailbox() -> Iterator[tuple[str, queue.SimpleQueue[dict[str, Any]]]]:
    """An address on loopback that takes an answer, in place of a signed one on S3."""
    answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """LocalStack's log has the deployment already."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/answer?for=cloudformation", answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
