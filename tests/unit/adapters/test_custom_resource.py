"""CloudFormation gets its answer, whatever happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from trace_core.adapters.aws.custom_resource import answered
from trace_core.kernel.errors import Conflict, Unavailable


class Bucket:
    """Takes the answer at the address that CloudFormation gave."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str | None, dict[str, Any]]] = []
        self.status = 200
        self.url = ""

    def event(self, **changes: Any) -> dict[str, Any]:
        return {
            "RequestType": "Create",
            "ResponseURL": f"{self.url}/answers/1?Signature=a%2Fb",
            "StackId": "stack-1",
            "RequestId": "request-1",
            "LogicalResourceId": "Migration",
            **changes,
        }


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    made = Bucket()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.answers.append((self.path, self.headers.get("Content-Type"), json.loads(body)))
            self.send_response(made.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield made
        server.shutdown()
        thread.join()


def test_success_carries_the_data_under_a_lasting_id(bucket: Bucket) -> None:
    answered(lambda _event, _context: {"applied": ["0001"]})(bucket.event(), None)
    ((path, content_type, answer),) = bucket.answers
    assert (path, content_type) == ("/answers/1?Signature=a%2Fb", "")
    assert answer["Status"] == "SUCCESS"
    assert answer["PhysicalResourceId"] == "Migration"
    assert answer["Data"] == {"applied": '["0001"]'}
    assert {answer["StackId"], answer["RequestId"]} == {"stack-1", "request-1"}


def test_an_update_keeps_the_id_that_was_given(bucket: Bucket) -> None:
    event = bucket.event(RequestType="Update", PhysicalResourceId="first")
    answered(lambda _event, _context: {})(event, None)
    assert bucket.answers[0][2]["PhysicalResourceId"] == "first"


def test_a_failure_is_answered_in_our_words_and_raised(bucket: Bucket) -> None:
    def fails(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
        raise Conflict("The org exists under another id.")

    with pytest.raises(Conflict):
        answered(fails)(bucket.event(), None)
    answer = bucket.answers[0][2]
    assert (answer["Status"], answer["Reason"]) == (
        "FAILED",
        "Conflict: The org exists under another id.",
    )


def test_the_words_of_others_stay_in_the_log(bucket: Bucket) -> None:
    def fails(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
        raise RuntimeError("password=hunter2")

    with pytest.raises(RuntimeError):
        answered(fails)(bucket.event(), None)
    assert bucket.answers[0][2]["Reason"] == "RuntimeError: see the log of the function."


def test_an_answer_that_is_not_taken_is_a_failure(bucket: Bucket) -> None:
    bucket.status = 403
    with pytest.raises(Unavailable, match="403"):
        answered(lambda _event, _context: {})(bucket.event(), None)
