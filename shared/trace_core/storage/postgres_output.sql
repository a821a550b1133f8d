-- name: current_epoch
-- The epoch; whoever raises it locks the table, so what was read holds until this commit.
SELECT epoch FROM trace.epoch;

-- name: lock_epoch
-- Wait for every transaction that has read the epoch, and let no other read it.
LOCK TABLE trace.epoch IN ACCESS EXCLUSIVE MODE;

-- name: raise_epoch
-- Whatever came before may not write again.
UPDATE trace.epoch SET epoch = epoch + 1 RETURNING epoch;

-- name: advance_fence
-- Take over from lower attempts and leases; no row means that a higher one is there.
INSERT INTO trace.fences AS held (task_id, epoch, attempt, lease_sequence)
SELECT %(task_id)s, epoch, %(attempt)s, %(lease_sequence)s FROM trace.epoch
ON CONFLICT (task_id) DO UPDATE
   SET epoch = EXCLUDED.epoch,
       attempt = EXCLUDED.attempt,
       lease_sequence = EXCLUDED.lease_sequence
 WHERE (held.epoch, held.attempt, held.lease_sequence)
    <= (EXCLUDED.epoch, EXCLUDED.attempt, EXCLUDED.lease_sequence)
RETURNING epoch, attempt, lease_sequence;

-- name: lock_fence
-- The fence of a task, held until this commit: nobody takes over in the middle of it.
SELECT epoch, attempt, lease_sequence FROM trace.fences WHERE task_id = %(task_id)s FOR UPDATE;

-- name: last_completion
-- The newest data transaction of a task.
SELECT epoch, attempt, lease_sequence, step, input_pins, body
  FROM trace.completions
 WHERE task_id = %(task_id)s
 ORDER BY epoch DESC, attempt DESC, lease_sequence DESC, step DESC
 LIMIT 1;

-- name: this_completion
-- What this very call left behind, if it was here before.
SELECT request_digest, body
  FROM trace.completions
 WHERE task_id = %(task_id)s AND epoch = %(epoch)s AND attempt = %(attempt)s
   AND lease_sequence = %(lease_sequence)s AND step = %(step)s;

-- name: records_of_completion
-- The commits of one data transaction.
SELECT v.dataset_uuid, r.dataset_version, r.number, r.output_index, r.scope, r.start_at, r.end_at,
       r.replaces, r.row_count
  FROM trace.records r JOIN trace.versions v USING (dataset_version)
 WHERE r.task_id = %(task_id)s AND r.epoch = %(epoch)s AND r.attempt = %(attempt)s
   AND r.lease_sequence = %(lease_sequence)s AND r.step = %(step)s
 ORDER BY r.output_index, r.dataset_version, r.number;

-- name: read_cursor
-- How far a source has come.
SELECT value FROM trace.cursors WHERE task_id = %(task_id)s;

-- name: move_cursor
-- Move a source's cursor, if it still is where the slice began.
INSERT INTO trace.cursors AS held (task_id, value)
SELECT %(task_id)s, %(value)s
 WHERE %(expected)s::jsonb IS NULL
    OR EXISTS (SELECT FROM trace.cursors WHERE task_id = %(task_id)s)
ON CONFLICT (task_id) DO UPDATE SET value = EXCLUDED.value WHERE held.value = %(expected)s::jsonb
RETURNING task_id;

-- name: lock_versions
-- The counters of all versions that are written to, in one order for everybody.
SELECT dataset_version, dataset_uuid, columns, update_strategy, unique_key, last_number
  FROM trace.versions
 WHERE dataset_version = ANY(%(versions)s)
 ORDER BY dataset_version
   FOR UPDATE;

-- name: set_last_number
-- Numbers are taken when their commit is, and leave no gap.
UPDATE trace.versions SET last_number = %(number)s WHERE dataset_version = %(dataset_version)s;

-- name: record_completion
-- What the attempt will report, whoever reports it.
INSERT INTO trace.completions
       (task_id, epoch, attempt, lease_sequence, step, request_digest, input_pins, body,
        committed_at)
VALUES (%(task_id)s, %(epoch)s, %(attempt)s, %(lease_sequence)s, %(step)s, %(request_digest)s,
        %(input_pins)s, %(body)s, %(now)s);

-- name: open_commits
-- Commits that hold some of the scope: by its name, by its range, or because they hold all.
WITH met AS (
    SELECT dataset_version, number FROM trace.records
     WHERE dataset_version = %(dataset_version)s AND replaced_at IS NULL
       AND scope = ANY(ARRAY['', %(scope)s])
    UNION
    SELECT dataset_version, number FROM trace.records
     WHERE replaced_at IS NULL AND start_at IS NOT NULL
       AND int8range(start_at, end_at, '[]') && int8range(%(start_at)s, %(end_at)s, '[]')
       AND dataset_version = %(dataset_version)s AND %(start_at)s::bigint IS NOT NULL
    UNION
    SELECT dataset_version, number FROM trace.records
     WHERE dataset_version = %(dataset_version)s AND replaced_at IS NULL AND %(scope)s = ''
)
SELECT r.number, r.scope, r.start_at, r.end_at, r.row_cursors, c.input_pins
  FROM met
  JOIN trace.records r USING (dataset_version, number)
  JOIN trace.completions c USING (task_id, epoch, attempt, lease_sequence, step)
 ORDER BY r.number;

-- name: last_append
-- The newest commit of the scope; appends replace nothing.
SELECT coalesce(max(number), 0) AS number
  FROM trace.records
 WHERE dataset_version = %(dataset_version)s AND scope = %(scope)s AND replaced_at IS NULL;

-- name: close_commits
-- Commits of which nothing is left at this number.
UPDATE trace.records SET replaced_at = %(number)s
 WHERE dataset_version = %(dataset_version)s AND number = ANY(%(numbers)s)
   AND replaced_at IS NULL;

-- name: close_all_rows
-- A rewrite closes rows, it does not delete them: earlier pins go on reading them.
UPDATE {schema}.{table} SET _to = %(number)s WHERE _to IS NULL;

-- name: close_rows_of_scope
-- Rows of the scope by its name.
UPDATE {schema}.{table} SET _to = %(number)s WHERE _to IS NULL AND _scope = %(scope)s;

-- name: close_rows_of_range
-- Rows that lie inside the range, whatever scope they were written with.
UPDATE {schema}.{table} SET _to = %(number)s
 WHERE _to IS NULL AND _start >= %(start_at)s AND _start <= %(end_at)s AND _end <= %(end_at)s;

-- name: copy_rows
-- New rows, in bulk.
COPY {schema}.{table} ({columns}, _from, _scope, _start, _end) FROM STDIN (FORMAT csv);

-- name: make_appended
-- Where rows wait to be compared with those that are there.
CREATE TEMPORARY TABLE {appended} ON COMMIT DROP AS
SELECT {columns}, _from, _scope, _start, _end, 0::bigint AS "#position"
  FROM {schema}.{table} WITH NO DATA;

-- name: copy_appended
-- Rows that may be there already, in the order in which they were given.
COPY {appended} ({columns}, _from, _scope, _start, _end, "#position") FROM STDIN (FORMAT csv);

-- name: append_rows
-- The first row of a key stays.
INSERT INTO {schema}.{table} ({columns}, _from, _scope, _start, _end)
SELECT {columns}, _from, _scope, _start, _end FROM {appended} ORDER BY "#position"
ON CONFLICT ({unique_key}) DO NOTHING;

-- name: drop_appended
-- A transaction may append to several versions.
DROP TABLE {appended};

-- name: add_record
-- One commit of one scope.
INSERT INTO trace.records
       (dataset_version, number, task_id, output_index, scope, start_at, end_at, replaces,
        row_cursors, row_count, epoch, attempt, lease_sequence, step)
VALUES (%(dataset_version)s, %(number)s, %(task_id)s, %(output_index)s, %(scope)s, %(start_at)s,
        %(end_at)s, %(replaces)s, %(row_cursors)s, %(row_count)s, %(epoch)s, %(attempt)s,
        %(lease_sequence)s, %(step)s);

-- name: unregistered
-- Commits that the state database may not know yet.
SELECT v.dataset_uuid, r.dataset_version, r.number, r.task_id, r.output_index, r.scope, r.start_at,
       r.end_at, r.replaces, r.row_count, r.epoch, r.attempt, r.lease_sequence, r.step,
       c.input_pins, c.body, c.committed_at
  FROM trace.records r
  JOIN trace.versions v USING (dataset_version)
  JOIN trace.completions c USING (task_id, epoch, attempt, lease_sequence, step)
 WHERE r.registered_at IS NULL
   AND (r.dataset_version, r.number) > (%(dataset_version)s, %(number)s)
 ORDER BY r.dataset_version, r.number
 LIMIT %(limit)s;

-- name: mark_registered
-- The state database knows these commits.
UPDATE trace.records r SET registered_at = %(now)s
  FROM unnest(%(versions)s::uuid[], %(numbers)s::bigint[]) AS known (dataset_version, number)
 WHERE r.dataset_version = known.dataset_version AND r.number = known.number
   AND r.registered_at IS NULL;

-- name: definition
-- What the rows of a version must look like; it never changes.
SELECT dataset_uuid, columns, update_strategy, unique_key
  FROM trace.versions WHERE dataset_version = %(dataset_version)s;
