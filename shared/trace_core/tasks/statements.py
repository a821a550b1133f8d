"""The SQL of this room, read once."""

from __future__ import annotations

from trace_core.database.sql import Statements

SQL = Statements(
    "trace_core.tasks",
    "route.sql",
    "announcements.sql",
    "claim.sql",
    "complete.sql",
    "events.sql",
    "inputs.sql",
    "leases.sql",
    "admin.sql",
    "views.sql",
    "yields.sql",
    "room.sql",
    "slots.sql",
    "spark_leases.sql",
)
