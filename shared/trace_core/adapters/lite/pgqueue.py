"""The queue of the profile `lite`: messages are rows, a receive hides them for a while."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from trace_core.adapters.lite.arrivals import CHANNEL, QueueArrivals
from trace_core.database.sql import Statements
from trace_core.database.state import StateDatabase
from trace_core.kernel.errors import Invalid
from trace_core.kernel.ids import Ids
from trace_core.ports.clock import Clock
from trace_core.ports.queue import Message, QueueDepth, check_queue_name, encode_body

_STATEMENTS = Statements("trace_core.adapters.lite", "pgqueue.sql")
_RECHECK_SECONDS = 1.0
"""A waiting receiver looks this often even when nothing was heard."""
_SHORTEST_WAIT_SECONDS = 0.001
_RECEIPT = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{32})")


class PgQueue:
    """`Queue` on two tables of the state database; any number of processes may use it at once."""

    def __init__(
        self, database: StateDatabase, clock: Clock, ids: Ids, *, max_receives: int = 10
    ) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._max_receives = max_receives
        self._arrivals = QueueArrivals(database.dsn)

    def close(self) -> None:
        """Stop listening; receivers that still wait fall back to looking every second."""
        self._arrivals.close()

    def send(self, queue: str, bodies: Sequence[Mapping[str, Any]]) -> None:
        check_queue_name(queue)
        # All are checked before any is sent.
        texts = [encode_body(body) for body in bodies]
        if texts:
            self._database.write(
                "pgqueue_send",
                _STATEMENTS["send"],
                {
                    "queue": queue,
                    "message_ids": self._ids.many(len(texts)),
                    "bodies": texts,
                    "now": self._clock.now(),
                    "channel": CHANNEL,
                },
            )

    def receive(
        self, queue: str, *, limit: int, visibility: timedelta, wait: timedelta
    ) -> list[Message]:
        check_queue_name(queue)
        if limit < 1:
            raise Invalid("A receive takes at least one message.", field="limit")
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            # Read before looking: what arrives after the look then ends the wait below.
            seen = self._arrivals.heard_of(queue) if wait else 0
            messages = self._take(queue, limit, visibility)
            remaining = deadline - time.monotonic()
            if messages or remaining <= 0:
                return messages
            patience = min(remaining, _RECHECK_SECONDS, self._until_next_visible(queue))
            self._arrivals.wait(queue, seen, patience)

    def extend(self, queue: str, receipt: str, visibility: timedelta) -> None:
        check_queue_name(queue)
        for message_id, receive_token in _decode_receipts([receipt]):
            self._database.write(
                "pgqueue_extend",
                _STATEMENTS["extend"],
                {
                    "queue": queue,
                    "message_id": message_id,
                    "receive_token": receive_token,
                    "visible_at": self._clock.now() + visibility,
                },
            )

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        check_queue_name(queue)
        decoded = _decode_receipts(receipts)
        if decoded:
            self._database.write(
                "pgqueue_delete",
                _STATEMENTS["delete"],
                {
                    "queue": queue,
                    "message_ids": [message_id for message_id, _ in decoded],
                    "receive_tokens": [receive_token for _, receive_token in decoded],
                },
            )

    def depth(self, queue: str) -> QueueDepth:
        check_queue_name(queue)
        params = {"queue": queue, "now": self._clock.now()}
        row = self._database.read(_STATEMENTS["depth"], params)[0]
        return QueueDepth(visible=row.visible, in_flight=row.in_flight, dead=row.dead)

    def redrive(self, queue: str, *, limit: int) -> int:
        check_queue_name(queue)
        params = {"queue": queue, "limit": limit, "now": self._clock.now(), "channel": CHANNEL}
        rows = self._database.write("pgqueue_redrive", _STATEMENTS["redrive"], params)
        return int(rows[0].moved_count)

    def _take(self, queue: str, limit: int, visibility: timedelta) -> list[Message]:
        now = self._clock.now()
        token = self._ids.token()
        params = {
            "queue": queue,
            "limit": limit,
            "max_receives": self._max_receives,
            "receive_token": token,
            "now": now,
            "visible_at": now + visibility,
        }
        while True:
            rows = self._database.write("pgqueue_receive", _STATEMENTS["receive"], params)
            messages = [
                Message(
                    body=json.loads(row.body),
                    receipt=f"{row.message_id.hex}.{token.hex}",
                    receive_count=row.receive_count,
                )
                for row in rows
                if row.message_id is not None
            ]
            # Dead messages took the places of live ones behind them: look again.
            if messages or rows[0].buried_count == 0:
                return messages

    def _until_next_visible(self, queue: str) -> float:
        now = self._clock.now()
        rows = self._database.read(_STATEMENTS["next_visible_at"], {"queue": queue, "now": now})
        if not rows:
            return _RECHECK_SECONDS
        visible_at: datetime = rows[0].visible_at
        return max((visible_at - now).total_seconds(), _SHORTEST_WAIT_SECONDS)


def _decode_receipts(receipts: Sequence[str]) -> list[tuple[UUID, UUID]]:
    # What never was a receipt is no longer one either.
    matches = (_RECEIPT.fullmatch(receipt) for receipt in receipts)
    return [(UUID(hex=match[1]), UUID(hex=match[2])) for match in matches if match]
