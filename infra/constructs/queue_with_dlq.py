"""A queue, encrypted and TLS-only, whose messages end in a dead-letter queue of its own."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_sqs as sqs
from constructs import Construct

DEAD_SUFFIX = "-dlq"
RECEIVES = 5
VISIBILITY_FACTOR = 6
"""Of the timeout of the function that reads it: Lambda may hold a message while it is throttled."""


class QueueWithDlq(Construct):
    def __init__(
        self, scope: Construct, name: str, *, queue_name: str, consumer_timeout_seconds: int
    ) -> None:
        super().__init__(scope, name)
        self.dead = sqs.Queue(
            self,
            "Dead",
            queue_name=f"{queue_name}{DEAD_SUFFIX}",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=queue_name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(VISIBILITY_FACTOR * consumer_timeout_seconds),
            retention_period=Duration.days(4),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead, max_receive_count=RECEIVES),
            removal_policy=RemovalPolicy.DESTROY,
        )
