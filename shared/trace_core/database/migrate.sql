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

-- name: make_data_roles
-- The three roles of the data database, and what they may do in this one. Roles belong to the server:
-- another database may have made them, or be making them now. Nobody logs in with them; a user is
-- granted one, and its sessions take it. A copy or a restore of a database loses what was granted on
-- it, so every migration grants it again.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['trace_data_owner', 'trace_data_writer', 'trace_data_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            BEGIN
                EXECUTE format('GRANT %I TO %I', wanted, current_user);
            EXCEPTION WHEN insufficient_privilege THEN
                -- Whoever made the role has granted it; if not, taking it will say so.
                NULL;
            END;
        END IF;
    END LOOP;
    EXECUTE format('GRANT CONNECT, CREATE, TEMPORARY ON DATABASE %I TO trace_data_owner',
                   current_database());
    EXECUTE format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO trace_data_writer',
                   current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO trace_data_reader', current_database());
END $$;
