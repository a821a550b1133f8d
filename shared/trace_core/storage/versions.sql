-- name: take_owner
-- What is made belongs to the owner, whoever is logged in.
SET LOCAL ROLE trace_data_owner;

-- name: lock_versions
-- One at a time makes or drops tables.
SELECT pg_advisory_xact_lock(7274364);

-- name: version
-- The definition of a version, if it was made.
SELECT dataset_uuid, columns, update_strategy, unique_key
  FROM trace.versions WHERE dataset_version = %(dataset_version)s;

-- name: make_schema
-- One schema for each dataset.
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: grant_schema
-- Both may look into it.
GRANT USAGE ON SCHEMA {schema} TO trace_data_writer, trace_data_reader;

-- name: make_table
-- One table for each version: a row is valid from one commit up to another, without that one.
CREATE TABLE {schema}.{table} (
    {definitions},
    _from  bigint NOT NULL,
    _to    bigint,
    _scope text COLLATE "C" NOT NULL,
    _start bigint,
    _end   bigint
);

-- name: grant_table
-- Writers close rows and never delete any.
GRANT SELECT, INSERT, UPDATE (_to) ON {schema}.{table} TO trace_data_writer;

-- name: grant_reader
-- Readers read.
GRANT SELECT ON {schema}.{table} TO trace_data_reader;

-- name: index_range
-- Finds the rows of a range, to close or to read. No index knows `_to`, so closing a row touches none.
CREATE INDEX {index} ON {schema}.{table} (_start, _end);

-- name: index_wide
-- Finds the rows without cursors of their own whose commit reaches into a range; most tables have none.
CREATE INDEX {index} ON {schema}.{table} (_end) WHERE _start < _end;

-- name: index_scope
-- Finds the rows of a scope, to close or to read.
CREATE INDEX {index} ON {schema}.{table} (_scope, _from);

-- name: index_unique
-- Appended rows are told apart by it.
CREATE UNIQUE INDEX {index} ON {schema}.{table} ({unique_key});

-- name: add_version
-- Its counter begins before the first commit.
INSERT INTO trace.versions
       (dataset_version, dataset_uuid, columns, update_strategy, unique_key, last_number)
VALUES (%(dataset_version)s, %(dataset_uuid)s, %(columns)s, %(update_strategy)s, %(unique_key)s, 0);

-- name: drop_table
-- All rows of a version.
DROP TABLE IF EXISTS {schema}.{table};

-- name: drop_records
-- Its commits, with what they were reported as.
DELETE FROM trace.records WHERE dataset_version = %(dataset_version)s;

-- name: drop_completions
-- What no commit refers to any more, of tasks that wrote to this version.
DELETE FROM trace.completions c
 WHERE c.task_id = ANY(%(task_ids)s)
   AND NOT EXISTS (
       SELECT FROM trace.records r
        WHERE r.task_id = c.task_id AND r.epoch = c.epoch AND r.attempt = c.attempt
          AND r.lease_sequence = c.lease_sequence AND r.step = c.step);

-- name: tasks_of_version
-- Who wrote to it.
SELECT DISTINCT task_id FROM trace.records WHERE dataset_version = %(dataset_version)s;

-- name: drop_pin
-- How far the views of its names could show it.
DELETE FROM trace.published_pins WHERE dataset_version = %(dataset_version)s;

-- name: drop_version
-- Its counter.
DELETE FROM trace.versions WHERE dataset_version = %(dataset_version)s;

-- name: other_versions
-- Is anything of the dataset left?
SELECT count(*) AS n FROM trace.versions WHERE dataset_uuid = %(dataset_uuid)s;

-- name: drop_schema
-- The last version takes the schema with it.
DROP SCHEMA IF EXISTS {schema};
