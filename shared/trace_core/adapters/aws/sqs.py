"""The queue on SQS. Queues, their dead-letter queues and redrive policies come from the stack."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from trace_core.adapters.aws.calls import (
    LONG_POLL_SECONDS,
    calling,
    chunks,
    error_code,
)
from trace_core.kernel.errors import Denied, Invalid, Unavailable
from trace_core.kernel.limits import QUEUE_MESSAGE_MAX
from trace_core.ports.queue import Message, QueueDepth, check_queue_name, encode_body

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

logger = logging.getLogger(__name__)
_SERVICE = "The queue service"
_BATCH = 10
_TRIES = 3
_NOT_CURRENT = {
    "ReceiptHandleIsInvalid",
    "InvalidReceiptHandle",
    "MessageNotInflight",
    # A handle that never was one, or whose message is visible again.
    "InvalidParameterValue",
    "InvalidIdFormat",
}
_NO_QUEUE = {"NonExistentQueue", "QueueDoesNotExist"}
_REDRIVE_VISIBILITY_SECONDS = 30


class SqsQueue:
    """`Queue` on SQS. A queue's own name is the environment's prefix and the name."""

    def __init__(self, client: SQSClient, *, prefix: str = "") -> None:
        self._client = client
        self._prefix = prefix
        self._lock = threading.Lock()
        self._urls: dict[str, str] = {}

    def close(self) -> None:
        self._client.close()

    def send(self, queue: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        # All are checked before any is sent.
        texts = [encode_body(body) for body in bodies]
        url = self._url(queue)
        for batch in _batches(texts):
            self._send_batch(url, batch)

    def _send_batch(self, url: str, texts: list[str]) -> None:
        left: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(number), "MessageBody": text} for number, text in enumerate(texts)
        ]
        for _ in range(_TRIES):
            with calling(_SERVICE):
                answer = self._client.send_message_batch(QueueUrl=url, Entries=left)
            failed = {each["Id"]: each for each in answer.get("Failed", [])}
            if any(each["SenderFault"] for each in failed.values()):
                reasons = {each["Code"] for each in failed.values()}
                raise Denied("The queue service refused a message.", reasons=sorted(reasons))
            left = [entry for entry in left if entry["Id"] in failed]
            if not left:
                return
        raise Unavailable("The queue service did not take all messages.", left=len(left))

    def receive(
        self, queue: str, *, limit: int, visibility: timedelta, wait: timedelta
    ) -> list[Message]:
        url = self._url(queue)
        if limit < 1:
            raise Invalid("A receive takes at least one message.", field="limit")
        deadline = time.monotonic() + wait.total_seconds()
        found: list[Message] = []
        while True:
            left = max(deadline - time.monotonic(), 0)
            batch = self._receive(url, min(limit - len(found), _BATCH), visibility, left)
            found += batch
            # More than ten are fetched in turns, and only as long as each turn brings some.
            if (found and not batch) or len(found) >= limit:
                return found
            if not batch and time.monotonic() >= deadline:
                return found
            if batch:
                deadline = 0.0

    def _receive(
        self, url: str, limit: int, visibility: timedelta, wait_seconds: float
    ) -> list[Message]:
        with calling(_SERVICE):
            answer = self._client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=limit,
                VisibilityTimeout=_seconds(visibility),
                WaitTimeSeconds=min(math.ceil(wait_seconds), LONG_POLL_SECONDS),
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return [
            Message(
                body=body,
                receipt=each["ReceiptHandle"],
                receive_count=int(each["Attributes"]["ApproximateReceiveCount"]),
            )
            for each in answer.get("Messages", [])
            if (body := _decode(each.get("Body", ""))) is not None
        ]

    def extend(self, queue: str, receipt: str, visibility: timedelta) -> None:
        url = self._url(queue)
        with calling(_SERVICE):
            try:
                self._client.change_message_visibility(
                    QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=_seconds(visibility)
                )
            except ClientError as error:
                if error_code(error) not in _NOT_CURRENT:
                    raise

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        url = self._url(queue)
        for batch in chunks(list(dict.fromkeys(receipts)), _BATCH):
            with calling(_SERVICE):
                answer = self._client.delete_message_batch(
                    QueueUrl=url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": receipt}
                        for number, receipt in enumerate(batch)
                    ],
                )
            failed = [each for each in answer.get("Failed", []) if each["Code"] not in _NOT_CURRENT]
            if failed:
                raise Unavailable("The queue service did not delete all.", left=len(failed))

    def depth(self, queue: str) -> QueueDepth:
        url = self._url(queue)
        visible, in_flight = self._counts(url)
        dead = sum(self._counts(self._dead_url(url)))
        return QueueDepth(visible=visible, in_flight=in_flight, dead=dead)

    def redrive(self, queue: str, *, limit: int) -> int:
        """One by one rather than by a move task, which knows no limit and answers no count."""
        url = self._url(queue)
        dead_url = self._dead_url(url)
        moved = 0
        while moved < limit:
            with calling(_SERVICE):
                answer = self._client.receive_message(
                    QueueUrl=dead_url,
                    MaxNumberOfMessages=min(limit - moved, _BATCH),
                    VisibilityTimeout=_REDRIVE_VISIBILITY_SECONDS,
                    WaitTimeSeconds=1,
                )
            messages = answer.get("Messages", [])
            if not messages:
                break
            # Sent before it is deleted: a crash in between repeats a hint, and loses none.
            self._send_batch(url, [each["Body"] for each in messages])
            with calling(_SERVICE):
                self._client.delete_message_batch(
                    QueueUrl=dead_url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": each["ReceiptHandle"]}
                        for number, each in enumerate(messages)
                    ],
                )
            moved += len(messages)
        return moved

    def _counts(self, url: str) -> tuple[int, int]:
        with calling(_SERVICE):
            answer = self._client.get_queue_attributes(
                QueueUrl=url,
                AttributeNames=[
                    "ApproximateNumberOfMessages",
                    "ApproximateNumberOfMessagesNotVisible",
                ],
            )
        counts = answer["Attributes"]
        return (
            int(counts["ApproximateNumberOfMessages"]),
            int(counts["ApproximateNumberOfMessagesNotVisible"]),
        )

    def _dead_url(self, url: str) -> str:
        key = f"dead letters of {url}"
        if key not in self._urls:
            with calling(_SERVICE):
                answer = self._client.get_queue_attributes(
                    QueueUrl=url, AttributeNames=["RedrivePolicy"]
                )
            policy = json.loads(answer.get("Attributes", {}).get("RedrivePolicy", "{}"))
            arn = policy.get("deadLetterTargetArn")
            if arn is None:
                raise Denied("The queue has no dead-letter queue.", queue=url.rpartition("/")[2])
            self._urls[key] = self._find(arn.rpartition(":")[2])
        return self._urls[key]

    def _url(self, queue: str) -> str:
        check_queue_name(queue)
        name = self._prefix + queue
        check_queue_name(name)
        with self._lock:
            if name not in self._urls:
                self._urls[name] = self._find(name)
            return self._urls[name]

    def _find(self, name: str) -> str:
        with calling(_SERVICE):
            try:
                return self._client.get_queue_url(QueueName=name)["QueueUrl"]
            except ClientError as error:
                if error_code(error) in _NO_QUEUE:
                    raise Denied("There is no such queue.", queue=name) from error
                raise


def _batches(texts: list[str]) -> list[list[str]]:
    """At most ten messages each, and together no larger than one message may be."""
    batches: list[list[str]] = []
    size = QUEUE_MESSAGE_MAX + 1
    for text in texts:
        size += len(text)
        if size > QUEUE_MESSAGE_MAX or len(batches[-1]) == _BATCH:
            batches.append([])
            size = len(text)
        batches[-1].append(text)
    return batches


def _seconds(visibility: timedelta) -> int:
    return math.ceil(visibility.total_seconds())


def _decode(text: str) -> Mapping[str, Any] | None:
    """None for what is not ours: it is not acknowledged, and ends among the dead letters."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        logger.warning("a queue message is not a JSON object; it stays for the dead-letter queue")
        return None
    return body
