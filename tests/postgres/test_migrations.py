"""Migrations: once each, in order; partitions ahead of time."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from trace_core.database import migrate as migrations
from trace_core.database.migrate import Migration, MigrationChanged, migrate, status

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def test_migrating_twice_changes_nothing(empty_dsn: str) -> None:
    assert next(each.applied_at for each in status(empty_dsn)) is None
    applied = migrate(empty_dsn, NOW)
    assert [each.number for each in applied] == [each.number for each in migrations.migrations()]
    assert migrate(empty_dsn, NOW) == []
    assert all(each.applied_at == NOW for each in status(empty_dsn))


def test_a_changed_migration_is_refused(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(empty_dsn, NOW)
    changed = [Migration(m.number, m.name, m.text + "-- edited") for m in migrations.migrations()]
    monkeypatch.setattr(migrations, "migrations", lambda _which: changed)
    with pytest.raises(MigrationChanged):
        migrate(empty_dsn, NOW)


def test_partitions_of_the_coming_months_are_there_before_they_are_needed(empty_dsn: str) -> None:
    migrate(empty_dsn, NOW)
    later = datetime(2027, 2, 3, tzinfo=UTC)
    migrate(empty_dsn, later)
    with psycopg.connect(empty_dsn) as connection:
        names = {
            row[0]
            for row in connection.execute(
                "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
                " WHERE i.inhparent = 'tasks'::regclass"
            )
        }
    assert {"tasks_before", "tasks_202611", "tasks_202701", "tasks_202705"} <= names


@pytest.mark.parametrize("which", ["state", "data"])
def test_no_statement_reads_the_server_clock_or_makes_ids(which: migrations.Which) -> None:
    texts = [migration.text for migration in migrations.migrations(which)]
    assert texts
    for word in ("now()", "clock_timestamp", "gen_random_uuid", "random()"):
        assert not any(word in text for text in texts)
