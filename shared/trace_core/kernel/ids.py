"""Identifiers: one type for each, and time-ordered UUIDs made from given time and randomness.

Keys that grow with time keep index inserts on the right edge, so that ten million finished rows
do not slow down the next insert.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import NewType
from uuid import UUID, SafeUUID

OrgId = NewType("OrgId", UUID)
UserId = NewType("UserId", UUID)
DagId = NewType("DagId", UUID)
DagVersionId = NewType("DagVersionId", UUID)
JobId = NewType("JobId", UUID)
TaskId = NewType("TaskId", UUID)
EventId = NewType("EventId", UUID)
LeaseToken = NewType("LeaseToken", UUID)
DatasetUuid = NewType("DatasetUuid", UUID)
DatasetVersion = NewType("DatasetVersion", UUID)
OutboxId = NewType("OutboxId", UUID)

RandomBits = Callable[[int], int]
"""`random.Random(seed).getrandbits` in a simulation, `secrets.randbits` elsewhere."""

ROUTE_BITS = 16
"""An event id ends in this many zero bits; a task made from it carries its route number there.
The ids of a series end in their number."""


_new, _set = object.__new__, object.__setattr__


def uuid_of(value: int) -> UUID:
    """The UUID of a number that is known to fit: a third of the cost of `UUID(int=…)`."""
    made = _new(UUID)
    _set(made, "int", value)
    _set(made, "is_safe", SafeUUID.unknown)
    return made


def uuid7(now: datetime, random_bits: RandomBits) -> UUID:
    """A version 7 UUID: 48 bits of milliseconds, then 74 random bits."""
    return _compose(_milliseconds(now), random_bits(12), random_bits(62))


def first_uuid7(at: datetime) -> UUID:
    """The smallest version 7 UUID of that millisecond: a bound for ranges of ids."""
    return _compose(_milliseconds(at), 0, 0)


def _milliseconds(at: datetime) -> int:
    if at.tzinfo is None:
        raise ValueError("time must carry a time zone")
    return int(at.timestamp() * 1000)


def _compose(milliseconds: int, high: int, low: int) -> UUID:
    return UUID(int=(milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)


_VERSION_4_BITS = 0x4 << 76 | 0b10 << 62
_VERSION_4_MASK = (2**128 - 1) ^ (0xF << 76) ^ (0b11 << 62)


class Ids:
    """Hands out ids; ids of one source grow strictly, also within a millisecond."""

    def __init__(self, now: Callable[[], datetime], random_bits: RandomBits) -> None:
        self._now = now
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._last_milliseconds = 0
        self._counter = 0

    def uuid(self) -> UUID:
        return self.many(1)[0]

    def many(self, count: int) -> list[UUID]:
        """Ids that grow, made in one go."""
        return self._make(count, 62, 0)

    def event_id(self) -> EventId:
        """An id whose low bits leave room for the route number of each task made from it."""
        return EventId(self.event_ids(1)[0])

    def event_ids(self, count: int) -> list[UUID]:
        return self._make(count, 62 - ROUTE_BITS, ROUTE_BITS)

    def series(self) -> UUID:
        """An id whose low bits are left to a statement, which numbers the rows that it makes: how
        many there will be is known there only."""
        return self._make(1, 62 - ROUTE_BITS, ROUTE_BITS)[0]

    def token(self) -> LeaseToken:
        """An unguessable id: no part of it is a counter."""
        return LeaseToken(self.tokens(1)[0])

    def tokens(self, count: int) -> list[UUID]:
        return [
            uuid_of(self._random_bits(128) & _VERSION_4_MASK | _VERSION_4_BITS)
            for _ in range(count)
        ]

    def bits(self, width: int) -> int:
        """A number that is drawn, for what should happen once in so many times."""
        return self._random_bits(width)

    def secret(self, count: int = 32) -> bytes:
        """Bytes that nobody can guess."""
        return self._random_bits(count * 8).to_bytes(count, "big")

    def _make(self, count: int, random_width: int, zero_bits: int) -> list[UUID]:
        made = []
        with self._lock:
            milliseconds, counter = self._advance()
            for _ in range(count):
                low = self._random_bits(random_width) << zero_bits
                made.append(_compose(milliseconds, counter, low))
                counter += 1
                if counter >= 2**12:
                    milliseconds, counter = milliseconds + 1, 0
            self._last_milliseconds, self._counter = milliseconds, counter
        return made

    def _advance(self) -> tuple[int, int]:
        """Where to count on: at the clock, unless it stands still or went back."""
        milliseconds = _milliseconds(self._now())
        if milliseconds > self._last_milliseconds:
            return milliseconds, self._random_bits(8)
        return self._last_milliseconds, self._counter
