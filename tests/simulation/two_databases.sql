-- name: prepare_state
-- What puts the rows of a kept state back. A lock that somebody holds is never waited for: there is
-- one thread, and the holder waits for whoever steps in.
CREATE SCHEMA small;
DROP TRIGGER audit_is_append_only ON audit;
CREATE FUNCTION small.put_back(kept jsonb) RETURNS void LANGUAGE plpgsql
SET session_replication_role = replica AS $$
BEGIN
    DELETE FROM outbox;
    DELETE FROM audit;
    IF kept ? 'ready' THEN
        DELETE FROM ready;
        INSERT INTO ready SELECT * FROM jsonb_populate_recordset(NULL::ready, kept -> 'ready');
    END IF;
    IF kept ? 'delayed' THEN
        DELETE FROM delayed;
        INSERT INTO delayed SELECT * FROM jsonb_populate_recordset(NULL::delayed, kept -> 'delayed');
    END IF;
    IF kept ? 'leases' THEN
        DELETE FROM leases;
        INSERT INTO leases SELECT * FROM jsonb_populate_recordset(NULL::leases, kept -> 'leases');
    END IF;
    IF kept ? 'tasks' THEN
        DELETE FROM tasks_202601;
        INSERT INTO tasks SELECT * FROM jsonb_populate_recordset(NULL::tasks, kept -> 'tasks');
    END IF;
    IF kept ? 'attempts' THEN
        DELETE FROM attempts_202601;
        INSERT INTO attempts
        SELECT * FROM jsonb_populate_recordset(NULL::attempts, kept -> 'attempts');
    END IF;
    IF kept ? 'task_inputs' THEN
        DELETE FROM task_inputs_202601;
        INSERT INTO task_inputs
        SELECT * FROM jsonb_populate_recordset(NULL::task_inputs, kept -> 'task_inputs');
    END IF;
    IF kept ? 'task_outputs' THEN
        DELETE FROM task_outputs_202601;
        INSERT INTO task_outputs
        SELECT * FROM jsonb_populate_recordset(NULL::task_outputs, kept -> 'task_outputs');
    END IF;
    IF kept ? 'events' THEN
        DELETE FROM events_202601;
        INSERT INTO events SELECT * FROM jsonb_populate_recordset(NULL::events, kept -> 'events');
    END IF;
    IF kept ? 'invalidations' THEN
        DELETE FROM invalidations;
        INSERT INTO invalidations
        SELECT * FROM jsonb_populate_recordset(NULL::invalidations, kept -> 'invalidations');
    END IF;
    IF kept ? 'commits' THEN
        DELETE FROM commits;
        INSERT INTO commits SELECT * FROM jsonb_populate_recordset(NULL::commits, kept -> 'commits');
    END IF;
    IF kept ? 'version_counters' THEN
        DELETE FROM version_counters;
        INSERT INTO version_counters
        SELECT * FROM jsonb_populate_recordset(NULL::version_counters, kept -> 'version_counters');
    END IF;
END $$;
DO $$
DECLARE name text;
BEGIN
    EXECUTE format('ALTER DATABASE %I SET lock_timeout = %L', current_database(), '5ms');
    FOR name IN SELECT c.oid::regclass::text FROM pg_class c
                 WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
    END LOOP;
END $$

-- name: keep_state
-- The rows that make up a state, one text for each table.
SELECT (SELECT coalesce(json_agg(r ORDER BY r.task_id), '[]') FROM ready r)::text AS ready,
       (SELECT coalesce(json_agg(d ORDER BY d.task_id), '[]') FROM delayed d)::text AS delayed,
       (SELECT coalesce(json_agg(l ORDER BY l.task_id), '[]') FROM leases l)::text AS leases,
       (SELECT coalesce(json_agg(t ORDER BY t.task_id), '[]') FROM tasks_202601 t)::text AS tasks,
       (SELECT coalesce(json_agg(a ORDER BY a.task_id, a.attempt), '[]')
          FROM attempts_202601 a)::text AS attempts,
       (SELECT coalesce(json_agg(i ORDER BY i.task_id, i.attempt, i.lease_sequence), '[]')
          FROM task_inputs_202601 i)::text AS task_inputs,
       (SELECT coalesce(json_agg(o ORDER BY o.task_id, o.attempt), '[]')
          FROM task_outputs_202601 o)::text AS task_outputs,
       (SELECT coalesce(json_agg(e ORDER BY e.dataset_version, e.number), '[]')
          FROM events_202601 e)::text AS events,
       (SELECT coalesce(json_agg(i ORDER BY i.event_id), '[]')
          FROM invalidations i)::text AS invalidations,
       (SELECT coalesce(json_agg(c ORDER BY c.number), '[]') FROM commits c)::text AS commits,
       (SELECT json_agg(v ORDER BY v.dataset_version)
          FROM version_counters v)::text AS version_counters

-- name: put_back_state
-- As it was when it was kept; tables that are not named stay as they are.
SELECT small.put_back(%(kept)s::jsonb)

-- name: prepare_data
-- The same for the data database, and a sequence for the planted bug that takes numbers from one.
CREATE SCHEMA small;
CREATE SEQUENCE small.numbers;
CREATE FUNCTION small.put_back(kept jsonb) RETURNS void LANGUAGE plpgsql
SET session_replication_role = replica AS $$
BEGIN
    IF kept ? 'numbers' THEN
        PERFORM setval('small.numbers', (kept -> 'numbers' -> 0 ->> 'last_value')::bigint,
                       (kept -> 'numbers' -> 0 ->> 'is_called')::boolean);
    END IF;
    IF kept ? 'fences' THEN
        DELETE FROM trace.fences;
        INSERT INTO trace.fences
        SELECT * FROM jsonb_populate_recordset(NULL::trace.fences, kept -> 'fences');
    END IF;
    IF kept ? 'versions' THEN
        UPDATE trace.versions SET last_number = (kept -> 'versions' -> 0 ->> 'last_number')::bigint;
    END IF;
    IF kept ? 'completions' THEN
        DELETE FROM trace.completions;
        INSERT INTO trace.completions
        SELECT * FROM jsonb_populate_recordset(NULL::trace.completions, kept -> 'completions');
    END IF;
    IF kept ? 'records' THEN
        DELETE FROM trace.records;
        INSERT INTO trace.records
        SELECT * FROM jsonb_populate_recordset(NULL::trace.records, kept -> 'records');
    END IF;
    IF kept ? 'rows' THEN
        DELETE FROM {schema}.{table};
        INSERT INTO {schema}.{table}
        SELECT * FROM jsonb_populate_recordset(NULL::{schema}.{table}, kept -> 'rows');
    END IF;
END $$;
DO $$
DECLARE name text;
BEGIN
    EXECUTE format('ALTER DATABASE %I SET lock_timeout = %L', current_database(), '5ms');
    FOR name IN SELECT c.oid::regclass::text FROM pg_class c
                 WHERE c.relkind = 'r' AND c.relnamespace = 'trace'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
    END LOOP;
END $$

-- name: keep_data
-- The rows that make up a state, one text for each table.
SELECT (SELECT coalesce(json_agg(f ORDER BY f.task_id), '[]')
          FROM trace.fences f)::text AS fences,
       (SELECT json_agg(json_build_object('last_number', v.last_number))
          FROM trace.versions v)::text AS versions,
       (SELECT coalesce(json_agg(c ORDER BY c.task_id, c.attempt), '[]')
          FROM trace.completions c)::text AS completions,
       (SELECT coalesce(json_agg(r ORDER BY r.number), '[]') FROM trace.records r)::text AS records,
       (SELECT coalesce(json_agg(r ORDER BY r._from, r.value), '[]')
          FROM {schema}.{table} r)::text AS rows,
       (SELECT json_agg(json_build_object('last_value', n.last_value, 'is_called', n.is_called))
          FROM small.numbers n)::text AS numbers

-- name: put_back_data
-- As it was when it was kept; tables that are not named stay as they are.
SELECT small.put_back(%(kept)s::jsonb)

-- name: keep_rows_in
-- Until a deploy says so: where the rows of an output are kept, and what they look like.
UPDATE dataset_versions SET backend = %(backend)s, columns = %(columns)s
 WHERE dataset_version = %(dataset_version)s

-- name: output_of_job
-- The dataset and the version that a job writes.
SELECT v.dataset_uuid, v.dataset_version
  FROM dataset_versions v
  JOIN jobs j ON j.job_id = v.job_id
 WHERE j.name = %(job)s

-- name: vacuum
-- The rows of earlier states slow every look.
VACUUM

-- name: next_number
-- Of a planted bug: a number that is taken whether its commit is or not.
SELECT nextval('small.numbers') AS number

-- name: newest_lease
-- Of a planted bug: who has the task now, instead of who wrote.
SELECT i.attempt, i.lease_sequence
  FROM task_inputs i
 WHERE i.task_id = %(task_id)s
 ORDER BY i.attempt DESC, i.lease_sequence DESC
 LIMIT 1

-- name: canceled_tasks
-- Of a planted bug: whose commits are forgotten.
SELECT a.task_id FROM attempts a WHERE a.outcome = 'Canceled'
