"""The words of the outbox, for whoever speaks about it without a database."""

from __future__ import annotations

from enum import StrEnum


class OutboxStatus(StrEnum):
    PENDING = "Pending"
    FAILED = "Failed"
