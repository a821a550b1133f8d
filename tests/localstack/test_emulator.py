"""The emulator answers."""

from __future__ import annotations

import boto3

from tests.localstack_server import LocalStack


def test_clients_of_the_session_reach_the_emulator(
    localstack: LocalStack, aws: boto3.Session
) -> None:
    queue = aws.client("sqs").create_queue(QueueName=localstack.name("queue"))["QueueUrl"]
    assert queue.startswith("http")
    print(queue)
