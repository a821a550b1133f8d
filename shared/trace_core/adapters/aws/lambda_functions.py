"""Lambda: runs of `runtime: lambda`, and the push that wakes the platform's own functions."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trace_core.adapters.aws.calls import calling
from trace_core.kernel.limits import QUEUE_MESSAGE_MAX
from trace_core.ports.waker import Function

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

logger = logging.getLogger(__name__)
_SERVICE = "Lambda"
_PAYLOAD_MAX = QUEUE_MESSAGE_MAX
"""What an asynchronous invoke takes for certain; emulators take more."""
_ROOM = 20
"""Handed over at once. Lambda queues whatever it cannot start, and what waits there longer than a
reservation lapses. So whoever reserves counts what runs, in the state database."""


class LambdaRuntime:
    """`TaskRuntime`: asynchronous invokes of the operator runner.

    The function retries nothing by itself (`retry_attempts=0` in the stack): retries, their
    backoff and their count belong to the task.
    """

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def room(self) -> int:
        return _ROOM

    def start(self, payload: Mapping[str, Any]) -> None:
        body = json.dumps(payload, separators=(",", ":")).encode()
        if len(body) > _PAYLOAD_MAX:
            body = json.dumps(reference(payload), separators=(",", ":")).encode()
        with calling(_SERVICE):
            self._client.invoke(FunctionName=self._function, InvocationType="Event", Payload=body)

    def close(self) -> None:
        self._client.close()


def reference(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for a payload that is too large: the exchange answers with the whole of it."""
    job = payload["job"]
    return {
        "task_id": payload["task_id"],
        "org_id": payload["org_id"],
        "attempt": payload["attempt"],
        "start_token": payload["start_token"],
        "job": {"dag_name": job["dag_name"], "name": job["name"]},
    }


class LambdaWaker:
    """`Waker`: an asynchronous invoke after the commit that left something to do.

    A function without a name is not pushed: its schedule alone finds what there is to do.
    """

    def __init__(self, client: LambdaClient, functions: Mapping[Function, str]) -> None:
        self._client = client
        self._functions = functions

    def wake(self, function: Function) -> None:
        name = self._functions.get(function)
        if name is None:
            return
        try:
            with calling(_SERVICE):
                self._client.invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
        except Exception:
            # A lost push costs latency, never work: the schedule finds what it left behind.
            logger.warning("could not wake %s", function.value, exc_info=True)
