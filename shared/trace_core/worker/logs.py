"""The log of one attempt: bounded, without secrets, kept in the object store."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import quote

from trace_core.kernel.errors import Conflict
from trace_core.ports.object_store import ObjectStore
from trace_core.worker.attempt import Attempt
from trace_core.worker.client import TaskApi
from trace_core.worker.outcome import Outcome

LOG_MAX = 1024 * 1024
_HIDDEN = b"***"
logger = logging.getLogger(__name__)


class Redaction:
    """Replaces secret values, also in the forms in which programs like to print them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {
            form
            for secret in secrets
            for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, ""))
            if form
        }
        # The longest first: one secret may be a part of another.
        self._forms = sorted((each.encode() for each in forms), key=len, reverse=True)
        self.overlap = max((len(each) - 1 for each in self._forms), default=0)
        """So many bytes at the end of a piece may be the beginning of a secret."""

    def data(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, _HIDDEN)
        return data

    def text(self, text: str) -> str:
        return self.data(text.encode()).decode("utf-8", "replace")


class BoundedLog:
    """Keeps the first and the last half of what is written; the middle is counted only."""

    def __init__(self, redaction: Redaction, limit: int = LOG_MAX) -> None:
        self._redaction = redaction
        self._half = limit // 2
        self._pending = b""
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def write(self, data: bytes) -> None:
        # Redacted before it is cut into head and tail: half a secret would not be recognised.
        self._pending = self._redaction.data(self._pending + data)
        keep = self._redaction.overlap
        ready = self._pending[:-keep] if keep else self._pending
        self._pending = self._pending[len(ready) :]
        self._store(ready)

    def _store(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Cut rarely: each cut moves the whole tail.
        if len(self._tail) > 2 * self._half:
            self._cut()

    def _cut(self) -> None:
        over = len(self._tail) - self._half
        if over > 0:
            self._left_out += over
            del self._tail[:over]

    def content(self) -> bytes:
        self._store(self._redaction.data(self._pending))
        self._pending = b""
        self._cut()
        if not self._left_out:
            return bytes(self._head + self._tail)
        note = f"\n[... {self._left_out} bytes left out ...]\n".encode()
        return bytes(self._head + note + self._tail)


def log_key(org_id: object, task_id: object, attempt: int, lease_sequence: int) -> str:
    return f"org/{org_id}/logs/{task_id}/{attempt}-{lease_sequence}.log"


class Logs(Protocol):
    """Keeps the log of an attempt; one that cannot be kept never fails the task."""

    def write(self, attempt: Attempt, output: bytes, outcome: Outcome) -> None: ...


class SentLogs:
    """`Logs` for a runner that reaches nothing but the task API, which keeps them."""

    def __init__(self, api: TaskApi) -> None:
        self._api = api

    def write(self, attempt: Attempt, output: bytes, outcome: Outcome) -> None:
        data = output + ending(outcome)
        if not data:
            return
        api = self._api.with_token(attempt.payload["capability_token"])
        try:
            api.log(attempt.fence, attempt.lease_sequence, data)
        except Exception:
            logger.exception("the log of %s could not be sent", attempt)


class AttemptLogs:
    """`Logs` in the object store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def write(self, attempt: Attempt, output: bytes, outcome: Outcome) -> None:
        data = output + ending(outcome)
        # A quiet success leaves no object: most control work is that.
        if not data:
            return
        try:
            key = log_key(attempt.org_id, attempt.task_id, attempt.attempt, attempt.lease_sequence)
            self._store.create(key, data)
        except Conflict:
            logger.warning("%s already has a log", attempt)
        except Exception:
            logger.exception("the log of %s could not be written", attempt)


def ending(outcome: Outcome) -> bytes:
    """What a failed attempt's log ends with."""
    if outcome.status != "Failed":
        return b""
    message = outcome.traceback or str(outcome.fields.get("error_message"))
    return f"\n[{outcome.fields.get('error_code')}]\n{message.rstrip()}\n".encode()
