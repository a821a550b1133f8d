"""The SQL of this room, read once."""

from __future__ import annotations

from trace_core.database.sql import Statements

SQL = Statements("trace_core.deploy", "deploy.sql", "build.sql", "switch.sql", "repoint.sql")
