-- name: lock_migrations
-- One migration at a time; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(7274363);

-- name: create_migrations_table
-- Which migrations this database has.
CREATE TABLE IF NOT EXISTS schema_migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL
);

-- name: migrations_table_exists
-- A database that was never migrated has no such table.
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- name: applied_migrations
-- What was applied, and when.
SELECT number, checksum, applied_at FROM schema_migrations ORDER BY number;

-- name: record_migration
-- Remember one applied file.
INSERT INTO schema_migrations (number, name, checksum, applied_at)
VALUES (%(number)s, %(name)s, %(checksum)s, %(now)s);
