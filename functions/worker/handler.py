"""Runs tasks of `runtime: worker`; an event is a batch of wake-ups from one org's queue."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ValidationError

from trace_core import bootstrap
from trace_core.kernel.ids import OrgId
from trace_core.telemetry import Telemetry

_QUEUE = re.compile(r"arn:.*:(?:[A-Za-z0-9_-]+-)?(worker-([0-9a-f]{32}))")

telemetry = Telemetry("worker")


class Hint(BaseModel):
    task_id: UUID


@telemetry.observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    records = {record["messageId"]: _hint(record) for record in event["Records"]}
    hints = [hint for hint in records.values() if hint is not None]
    if hints:
        # A mapping reads one queue, so all records of an event are one org's.
        _drain(event["Records"][0]["eventSourceARN"], hints[0], context)
    unread = [message_id for message_id, hint in records.items() if hint is None]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unread]}


def _drain(queue_arn: str, hint: Hint, context: Any) -> None:
    match = _QUEUE.fullmatch(queue_arn)
    if match is None:
        raise ValueError("the queue's name does not say whose it is")
    queue, org_id = match[1], OrgId(UUID(hex=match[2]))
    telemetry.keys(org_id=org_id)
    app = bootstrap.app()
    with app.org_worker(org_id, f"lambda:{context.aws_request_id}") as worker:
        drained = worker.run(context.get_remaining_time_in_millis() / 1000)
    telemetry.info("drained", claimed=drained.claimed, more=drained.more)
    if drained.more:
        app.queue.send(queue, [{"task_id": str(hint.task_id)}])


def _hint(record: dict[str, Any]) -> Hint | None:
    """None for what is no wake-up: it goes to the dead-letter queue, where somebody looks."""
    try:
        return Hint.model_validate_json(record["body"])
    except ValidationError:
        return None
