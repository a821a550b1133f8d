"""The worker function: wake-ups in, work done, and what could not be read handed back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from functions.worker.handler import handler
from tests.unit.operators.payloads import ORG, make_payload
from tests.unit.worker.conftest import OPERATORS
from tests.unit.worker.platform_for_tests import (
    WORKER_TOKEN,
    MemoryObjects,
    MemoryQueue,
    Platform,
    SystemClock,
    serve,
)
from trace_core import bootstrap
from trace_core.adapters.lite.file_secrets import FileSecretStore
from trace_core.bootstrap import App
from trace_core.identity.provision import WORKER_TOKEN as TOKEN_NAME
from trace_core.kernel.errors import NotFound, Unavailable
from trace_core.kernel.ids import OrgId
from trace_core.ports.secret_store import Namespace
from trace_core.settings import Settings
from trace_core.worker.children import ChildPool

ORG_ID = OrgId(UUID(ORG))
QUEUE = f"worker-{ORG_ID.hex}"


@dataclass
class Context:
    aws_request_id: str = "request-1"
    seconds: float = 30.0

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture(scope="module")
def pool() -> Iterator[ChildPool]:
    made = ChildPool(2, modules=[OPERATORS], task_api="http://127.0.0.1:9")
    made.warm()
    yield made
    made.close()


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture
def queue() -> MemoryQueue:
    return MemoryQueue()


@pytest.fixture
def app(platform: Platform, queue: MemoryQueue, pool: ChildPool, tmp_path: Path) -> Iterator[App]:
    secrets = FileSecretStore(tmp_path / "secrets")
    secrets.put(ORG_ID, Namespace.PLATFORM, TOKEN_NAME, WORKER_TOKEN)
    with serve(platform) as url:
        own = App(
            Settings(home=tmp_path, internal_url=url),
            queue=queue,
            worker_pool=pool,
            secrets=secrets,
            objects=MemoryObjects(),
            clock=SystemClock(),
        )
        with bootstrap.running(own):
            yield own


def event(*bodies: str, queue: str = f"trace-dev-{QUEUE}") -> dict[str, Any]:
    return {
        "Records": [
            {
                "messageId": f"message-{number}",
                "body": body,
                "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{queue}",
            }
            for number, body in enumerate(bodies)
        ]
    }


def hint() -> str:
    return json.dumps({"task_id": str(uuid4())})


def test_a_wake_up_is_followed_by_whatever_waits(app: App, platform: Platform) -> None:
    tasks = [make_payload("pass_on", trigger={"cursor": cursor}) for cursor in range(5)]
    platform.waiting.extend(tasks)
    assert handler(event(hint(), hint()), Context()) == {"batchItemFailures": []}
    assert set(platform.completed) == {task["task_id"] for task in tasks}
    (claim, *_) = [body for path, body in platform.calls if path == "/internal/task-claim"]
    assert claim["worker_id"] == "lambda:request-1"


def test_what_is_no_wake_up_is_handed_back_and_the_others_are_not(
    app: App, platform: Platform
) -> None:
    platform.waiting.append(task := make_payload("pass_on", trigger={"cursor": 1}))
    answer = handler(event("not json", hint(), '{"task_id": "7"}'), Context())
    failed = [each["itemIdentifier"] for each in answer["batchItemFailures"]]
    assert failed == ["message-0", "message-2"]
    assert task["task_id"] in platform.completed


def test_without_a_single_wake_up_nothing_is_claimed(app: App, platform: Platform) -> None:
    assert handler(event("[]"), Context())["batchItemFailures"]
    assert not platform.calls


def test_work_that_is_left_wakes_the_next_function(
    app: App, platform: Platform, queue: MemoryQueue
) -> None:
    platform.waiting.append(make_payload("sleep", {"seconds": 60}))
    sent = hint()
    handler(event(sent), Context(seconds=1.0))
    assert queue.messages.get_nowait().body == json.loads(sent)


def test_work_that_is_done_wakes_nobody(app: App, platform: Platform, queue: MemoryQueue) -> None:
    handler(event(hint()), Context())
    assert queue.messages.empty()


def test_an_api_that_does_not_answer_leaves_the_wake_up_in_the_queue(
    app: App, platform: Platform
) -> None:
    platform.outages["/internal/task-claim"].append(Unavailable())
    with pytest.raises(Unavailable):
        handler(event(hint()), Context())


def test_an_org_without_a_worker_token_is_refused(app: App) -> None:
    with pytest.raises(NotFound):
        handler(event(hint(), queue=f"trace-dev-worker-{uuid4().hex}"), Context())


def test_a_queue_that_is_nobodys_is_refused(app: App) -> None:
    with pytest.raises(ValueError, match="whose"):
        handler(event(hint(), queue="trace-dev-worker-abc"), Context())
