-- fragment: completing
-- The batch, with the fence as a lookup by primary key. A lease that moves meanwhile is not
-- deleted here, and the caller looks at that task again on its own.
item AS (
    SELECT *
      FROM unnest(%(task_ids)b::uuid[], %(attempts)s::bigint[], %(lease_tokens)b::uuid[],
                  %(digests)b::uuid[]) AS i (task_id, attempt, lease_token, body_digest)
),
announced AS (
    SELECT *
      FROM unnest(%(event_task_ids)b::uuid[], %(event_ids)b::uuid[], %(event_datasets)b::uuid[],
                  %(event_versions)b::uuid[],
                  %(event_scopes)s::text[], %(event_starts)s::bigint[], %(event_ends)s::bigint[],
                  %(event_revisions)s::bigint[])
           AS e (task_id, event_id, dataset_uuid, dataset_version, scope, range_start, range_end, revision)
),
fenced AS MATERIALIZED (
    SELECT l.row_id, l.job_id, i.task_id, i.body_digest
      FROM item i
     CROSS JOIN LATERAL (
           SELECT l.ctid AS row_id, l.job_id
             FROM leases l
            WHERE l.task_id = i.task_id AND l.attempt = i.attempt
              AND l.lease_token = i.lease_token AND l.org_id = %(org_id)s
              AND l.started_at IS NOT NULL AND l.canceled_at IS NULL
              AND l.metered = %(metered)s AND NOT l.of_source
              FOR UPDATE) l
),
foreign_output AS (
    SELECT a.task_id
      FROM announced a
      JOIN fenced f ON f.task_id = a.task_id
      LEFT JOIN dataset_versions v
        ON v.dataset_version = a.dataset_version AND v.dataset_uuid = a.dataset_uuid
       AND v.job_id = f.job_id AND v.backend = 'control'
     WHERE v.dataset_version IS NULL
),
announcing AS (
    SELECT a.*
      FROM announced a
      JOIN fenced USING (task_id)
     WHERE task_id NOT IN (TABLE foreign_output)
),
-- include: number_events
,
done AS (
    DELETE FROM leases
     WHERE ctid = ANY (ARRAY(SELECT f.row_id
                               FROM fenced f
                              WHERE f.task_id NOT IN (TABLE foreign_output)
                                AND NOT EXISTS (TABLE moved)))
    RETURNING *
),
ended AS (
    INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, leased_at, started_at,
                          ended_at, worker_id, lease_sequence, lease_token, body_digest)
    SELECT d.task_id, d.attempt, d.org_id, d.job_id, 'Completed', true, d.leased_at, d.started_at,
           %(now)s, d.worker_id, d.lease_sequence, d.lease_token, f.body_digest
      FROM done d
      JOIN fenced f ON f.task_id = d.task_id
),
fresh AS (
    INSERT INTO events (producer_task_id, dataset_version, scope, revision, event_id, org_id,
                        attempt, range_start, range_end, accepted_at, number)
    SELECT n.task_id, n.dataset_version, n.scope, n.revision, n.event_id, %(org_id)s, d.attempt,
           n.range_start, n.range_end, %(now)s, n.number
      FROM numbered n
      JOIN done d ON d.task_id = n.task_id
        ON CONFLICT DO NOTHING
    RETURNING producer_task_id, dataset_version, scope, revision, event_id, range_start, range_end,
              rewrites
)

-- fragment: release_capacity
-- Give back what `done` leases of metered jobs held, counters in the order of their ids, and wake
-- whoever waits for them.
released AS (
    SELECT c.capacity_id, count(*) AS held, count(*) FILTER (WHERE d.priority = 1) AS held_backfill
      FROM done d
      JOIN jobs j ON j.job_id = d.job_id
     CROSS JOIN LATERAL unnest(j.capacity_ids) AS c (capacity_id)
     WHERE d.metered
     GROUP BY c.capacity_id
),
counter AS (
    SELECT c.capacity_id
      FROM capacities c
     WHERE c.capacity_id IN (SELECT capacity_id FROM released)
     ORDER BY c.capacity_id
       FOR UPDATE
),
counted AS (
    UPDATE capacities c
       SET running = c.running - r.held, running_backfill = c.running_backfill - r.held_backfill
      FROM released r
      JOIN counter k ON k.capacity_id = r.capacity_id
     WHERE c.capacity_id = r.capacity_id
),
freed AS (
    UPDATE slots s
       SET task_id = NULL
      FROM done d
     WHERE d.metered AND s.slot_id = d.slot_id AND s.task_id = d.task_id
),
rewoken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT (%(release_outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
           w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM (SELECT j.runtime, array_agg(head.task_id) AS task_ids
              FROM jobs j
             CROSS JOIN LATERAL (
                   SELECT r.task_id
                     FROM ready r
                    WHERE r.job_id = j.job_id
                    ORDER BY r.priority, r.task_id
                    LIMIT 1) head
             WHERE j.capacity_ids && ARRAY(SELECT capacity_id FROM released)
             GROUP BY j.runtime) w
    RETURNING target
)

-- fragment: ended_leases
-- What we started ourselves leaves room for another: the relay is woken for the row that waits.
SELECT d.task_id, d.start_token IS NOT NULL AS woke FROM done d

-- name: complete
-- Finish fenced attempts, accept their events, make and queue downstream tasks: one round trip.
WITH
-- include: completing
,
-- include: route_events
-- include: ended_leases
UNION ALL
(SELECT NULL, true FROM woken LIMIT 1)

-- name: complete_metered
-- As `complete`, for tasks that held capacity: it is given back, and whoever waits is woken.
WITH
-- include: completing
,
-- include: route_events
,
-- include: release_capacity
-- include: ended_leases
UNION ALL
(SELECT NULL, true FROM woken LIMIT 1)
UNION ALL
(SELECT NULL, true FROM rewoken LIMIT 1)

-- name: attempt_of_fence
-- How this attempt ended, if it did; locked, so that two late reports take turns.
SELECT a.*
  FROM attempts a
 WHERE a.task_id = %(task_id)s AND a.attempt = %(attempt)s AND a.org_id = %(org_id)s
   FOR UPDATE

-- name: task_of_org
-- The task, if the caller may know of it.
SELECT t.task_id, t.job_id, t.priority, t.event_id IS NULL AS of_source FROM tasks t
 WHERE t.task_id = %(task_id)s AND t.org_id = %(org_id)s

-- name: waiting_fence
-- The fence that a queued task keeps from its last attempt or slice.
SELECT r.attempt, r.lease_token, r.body_digest
  FROM ready r
 WHERE r.job_id = %(job_id)s AND r.priority = %(priority)s AND r.task_id = %(task_id)s
UNION ALL
SELECT d.attempt, d.lease_token, d.body_digest
  FROM delayed d
 WHERE d.task_id = %(task_id)s

-- name: take_back
-- A late completion: the task leaves the queue, or a reservation that has not been exchanged,
-- as long as the token is still that of the last started attempt. Lapsed reservations may have
-- counted as attempts since; they never started.
WITH from_ready AS (
    DELETE FROM ready
     WHERE job_id = %(job_id)s AND priority = %(priority)s AND task_id = %(task_id)s
       AND lease_token = %(lease_token)s
    RETURNING task_id
),
from_delayed AS (
    DELETE FROM delayed
     WHERE task_id = %(task_id)s AND lease_token = %(lease_token)s
    RETURNING task_id
),
done AS (
    DELETE FROM leases
     WHERE task_id = %(task_id)s AND lease_token = %(lease_token)s AND org_id = %(org_id)s
       AND started_at IS NULL
    RETURNING *
),
-- include: release_capacity
-- include: ended_leases
UNION ALL
SELECT task_id, false FROM from_ready
UNION ALL
SELECT task_id, false FROM from_delayed
UNION ALL
(SELECT NULL, true FROM rewoken LIMIT 1)

-- name: reopen_lapsed
-- A task that ended because reservations lapsed: nothing started after the late attempt.
UPDATE attempts
   SET final = false
 WHERE task_id = %(task_id)s AND org_id = %(org_id)s AND attempt > %(attempt)s AND final
   AND outcome = 'Lapsed' AND lease_token = %(lease_token)s
RETURNING attempt

-- name: complete_late
-- The attempt that was given up has succeeded after all, if what it wrote is still there.
UPDATE attempts
   SET outcome = 'Completed', final = true, late = true, ended_at = %(now)s,
       body_digest = %(digest)s
 WHERE task_id = %(task_id)s AND attempt = %(attempt)s AND lease_token = %(lease_token)s
   AND org_id = %(org_id)s AND body_digest IS NULL AND outcome IN ('TimedOut', 'LeaseExpired')
   AND closed_at IS NULL
RETURNING job_id

-- name: note_late_failure
-- The attempt that was given up says why it failed; nothing else changes.
UPDATE attempts
   SET body_digest = %(digest)s, error_code = %(error_code)s, error_message = %(error_message)s
 WHERE task_id = %(task_id)s AND attempt = %(attempt)s AND lease_token = %(lease_token)s
   AND org_id = %(org_id)s AND body_digest IS NULL AND outcome IN ('TimedOut', 'LeaseExpired')
RETURNING outcome

-- name: add_outputs
-- What the attempt wrote.
INSERT INTO task_outputs (task_id, attempt, lease_sequence, output_index, scope, dataset_version,
                          location, row_count)
SELECT %(task_id)s, %(attempt)s, %(lease_sequence)s, o.output_index, o.scope, o.dataset_version,
       o.location, o.row_count
  FROM unnest(%(output_indexes)s::integer[], %(scopes)s::text[], %(versions)b::uuid[],
              %(locations)s::text[], %(row_counts)s::bigint[])
       AS o (output_index, scope, dataset_version, location, row_count)
    ON CONFLICT DO NOTHING

-- name: outputs_of_job
-- The dataset versions that a job produces.
SELECT v.dataset_version, v.dataset_uuid, v.output_index, v.backend
  FROM dataset_versions v
 WHERE v.job_id = %(job_id)s

-- name: backends
-- What dataset versions are kept in.
SELECT v.dataset_version, v.backend
  FROM dataset_versions v
 WHERE v.dataset_version = ANY (%(versions)b::uuid[])

-- name: lock_state
-- Keys of a job's operator state, locked in order until the transaction ends.
SELECT s.key, s.revision, s.value
  FROM operator_state s
 WHERE s.job_id = %(job_id)s AND s.key = ANY (%(keys)s::text[])
 ORDER BY s.key
   FOR UPDATE

-- name: read_state
-- All operator state of a job.
SELECT s.key, s.revision, s.value FROM operator_state s WHERE s.job_id = %(job_id)s ORDER BY s.key

-- name: put_state
-- Compare and set: revision 0 creates a key, any other must be the one that was read.
INSERT INTO operator_state AS s (job_id, key, revision, value, updated_at)
SELECT %(job_id)s, e.key, e.revision + 1, e.value::jsonb, %(now)s
  FROM unnest(%(keys)s::text[], %(revisions)s::bigint[], %(values)s::text[]) AS e (key, revision, value)
 ORDER BY e.key
    ON CONFLICT (job_id, key) DO UPDATE
       SET revision = excluded.revision, value = excluded.value, updated_at = excluded.updated_at
     WHERE s.revision = excluded.revision - 1
RETURNING key

-- name: take_requests
-- Requests that a slice has served.
UPDATE triggers
   SET taken_at = %(now)s
 WHERE job_id = %(job_id)s AND number = ANY (%(numbers)s::bigint[]) AND taken_at IS NULL

-- name: open_requests
-- Requests that wait for a slice, the oldest first.
SELECT t.number, t.request
  FROM triggers t
 WHERE t.job_id = %(job_id)s AND t.taken_at IS NULL
 ORDER BY t.number
 LIMIT %(limit)s

-- name: lock_source
-- A request and a yield of the same source take turns.
SELECT job_id FROM jobs WHERE job_id = %(job_id)s FOR NO KEY UPDATE
