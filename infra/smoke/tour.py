"""What members do beside deploying: logs, secrets, queues, dead letters, tokens, the audit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

import boto3

from infra.environments import ENVIRONMENTS
from trace_client import Client

_ENVIRONMENT = ENVIRONMENTS["local"]
_SECRET = "smoke_secret"  # noqa: S105  # the name of the secret, not the secret
VALUES = ("canary-of-the-smoke-1", "canary-of-the-smoke-2")
"""What the secret is set to, one after the other."""


def problems(api: Client, session: boto3.Session) -> Iterator[str]:
    """Each thing that is not as a member would expect it."""
    (task,) = api.tasks(job="measure", limit=1).tasks
    if not any("measuring blocks" in each.text for each in api.logs(task.task_id).logs):
        yield "the log of a task lacks what its operator printed"

    made, again = (api.set_secret(_SECRET, value) for value in VALUES)
    names = [each.name for each in api.secrets().secrets]
    api.remove_secret(_SECRET)
    after = api.secrets().secrets
    if (made.created, again.created, names, after) != (True, False, [_SECRET], []):
        yield "a secret is not there after it was written, or there after it was removed"

    sqs = session.client("sqs")
    name = f"{_ENVIRONMENT.queue_name(_ENVIRONMENT.orgs[0])}-dlq"
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"task_id": str(UUID(int=0))}))
    (depth,) = api.queues().queues
    moved = api.redrive("worker", 10).moved
    if (depth.dead, moved) != (1, 1):
        yield f"a dead letter was counted {depth.dead} times and moved {moved} times"

    tokens = api.worker_tokens().worker_tokens
    if [(each.name, each.valid) for each in tokens] != [("worker", True)]:
        yield f"the worker token of the deploy is not the one that is valid: {tokens}"

    subject = _ENVIRONMENT.orgs[0].administrators[0]
    entries = api.audit(action="dag.deploy").entries
    if [entry.actor_name for entry in entries] != [subject]:
        yield "the audit does not know who deployed"
