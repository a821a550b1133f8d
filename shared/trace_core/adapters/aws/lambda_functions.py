"""Lambda: runs of `runtime: lambda`, and the push that wakes the platform's own functions."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trace_core.adapters.aws.calls import calling
from trace_core.kernel.errors import Conflict
from trace_core.kernel.limits import QUEUE_MESSAGE_MAX
from trace_core.ports.object_store import ObjectStore
from trace_core.ports.waker import Function

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

logger = logging.getLogger(__name__)
_SERVICE = "Lambda"
_PAYLOAD_MAX = QUEUE_MESSAGE_MAX
"""What an asynchronous invoke takes for certain; more goes by reference."""
_ROOM = 100
"""Lambda queues invokes itself; this only bounds how many are reserved ahead of their runs."""


class LambdaRuntime:
    """`TaskRuntime`: asynchronous invokes of the operator runner.

    The function retries nothing by itself (`retry_attempts=0` in the stack): retries, their
    backoff and their count belong to the task.
    """

    def __init__(self, client: LambdaClient, function: str, objects: ObjectStore) -> None:
        self._client = client
        self._function = function
        self._objects = objects

    def room(self) -> int:
        return _ROOM

    def start(self, payload: Mapping[str, Any]) -> None:
        body = json.dumps(payload, separators=(",", ":")).encode()
        if len(body) > _PAYLOAD_MAX:
            body = self._by_reference(payload, body)
        with calling(_SERVICE):
            self._client.invoke(FunctionName=self._function, InvocationType="Event", Payload=body)

    def close(self) -> None:
        self._client.close()

    def _by_reference(self, payload: Mapping[str, Any], body: bytes) -> bytes:
        key = payload_key(payload)
        try:
            self._objects.create(key, body)
        except Conflict:
            # The same reservation, sent again: what is there is what would be written.
            logger.debug("payload %s is there already", key)
        return json.dumps({"payload_object": key}).encode()


def payload_key(payload: Mapping[str, Any]) -> str:
    """One object for each reservation: the start token is its name's unguessable part."""
    return f"payloads/{payload['org_id']}/{payload['task_id']}/{payload['start_token']}.json"


def read_payload(event: Mapping[str, Any], objects: ObjectStore) -> Mapping[str, Any]:
    """The payload of an invoke, wherever it was put."""
    key = event.get("payload_object")
    if key is None:
        return event
    payload: dict[str, Any] = json.loads(objects.read(str(key)))
    return payload


class LambdaWaker:
    """`Waker`: an asynchronous invoke after the commit that left something to do."""

    def __init__(self, client: LambdaClient, functions: Mapping[Function, str]) -> None:
        self._client = client
        self._functions = functions

    def wake(self, function: Function) -> None:
        try:
            with calling(_SERVICE):
                self._client.invoke(
                    FunctionName=self._functions[function], InvocationType="Event", Payload=b"{}"
                )
        except Exception:
            # A lost push costs latency, never work: the schedule finds what it left behind.
            logger.warning("could not wake %s", function.value, exc_info=True)
