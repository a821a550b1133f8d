"""Wake-ups: hints that work may be waiting. Lost, repeated, late or reordered ones do no harm."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from trace_core.kernel.errors import Invalid, TooLarge
from trace_core.kernel.ids import OrgId
from trace_core.kernel.limits import QUEUE_MESSAGE_MAX

QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
"""The names that SQS takes, so that a name that works in one profile works in the other."""


def wake_queue(runtime: str, org_id: OrgId) -> str:
    """The queue of one org's wake-ups for one runtime; nothing else names queues.

    At most 47 characters: what is left is for the prefix of an environment and the suffix of a
    dead-letter queue, which are the adapter's.
    """
    return f"{runtime}-{org_id.hex}"


@dataclass(frozen=True)
class Message:
    body: Mapping[str, Any]
    receipt: str
    """Names this one receive; a later receive of the same message has another receipt."""
    receive_count: int


@dataclass(frozen=True)
class QueueDepth:
    visible: int
    in_flight: int
    dead: int


class Queue(Protocol):
    """At-least-once messages with a visibility timeout and a dead-letter queue.

    On AWS an org's queues come from the stack, which knows the orgs of its environment; a queue
    that nobody made is `Denied`. On one machine there is nothing to make.
    """

    def send(self, queue: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Send all bodies; each is JSON under 256 KB, which the platform checks itself."""
        ...

    def receive(
        self, queue: str, *, limit: int, visibility: timedelta, wait: timedelta
    ) -> list[Message]:
        """Up to `limit` messages, hidden from others for `visibility`; waits for the first one."""
        ...

    def extend(self, queue: str, receipt: str, visibility: timedelta) -> None:
        """Hide a received message for longer; a receipt that is no longer current is no error."""
        ...

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        """Acknowledge. A receipt that is no longer current is no error, and may count or not."""
        ...

    def depth(self, queue: str) -> QueueDepth: ...

    def redrive(self, queue: str, *, limit: int) -> int:
        """Move dead messages back to the queue; answers how many."""
        ...


def check_queue_name(queue: str) -> None:
    if not QUEUE_NAME.fullmatch(queue):
        raise Invalid("A queue's name has 1 to 80 letters, digits, hyphens or underscores.")


def encode_body(body: Mapping[str, Any]) -> str:
    """The text of a message. ASCII: every text survives, whatever a queue refuses or counts how."""
    try:
        text = json.dumps(dict(body), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid("A message body must be JSON.") from error
    if len(text) > QUEUE_MESSAGE_MAX:
        raise TooLarge("A queue message is over the limit.", limit=QUEUE_MESSAGE_MAX)
    return text
