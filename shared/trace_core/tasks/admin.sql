-- name: cancel_running
-- Ask a running task to stop; it keeps its slot until it says so or its lease ends.
UPDATE leases
   SET canceled_at = %(now)s
 WHERE task_id = %(task_id)s AND org_id = %(org_id)s AND started_at IS NOT NULL
   AND canceled_at IS NULL
RETURNING task_id

-- name: cancel_waiting
-- End a task that has not begun its next attempt: queued, waiting for a retry, or reserved.
WITH from_ready AS (
    DELETE FROM ready
     WHERE job_id = %(job_id)s AND priority = %(priority)s AND task_id = %(task_id)s
    RETURNING task_id, job_id, priority, attempt, lease_sequence, keeps_capacity AS metered,
              (SELECT s.slot_id FROM slots s WHERE s.task_id = %(task_id)s) AS slot_id,
              NULL::uuid AS start_token
),
from_delayed AS (
    DELETE FROM delayed
     WHERE task_id = %(task_id)s
    RETURNING task_id, job_id, priority, attempt, lease_sequence, keeps_capacity AS metered,
              (SELECT s.slot_id FROM slots s WHERE s.task_id = %(task_id)s) AS slot_id,
              NULL::uuid AS start_token
),
reserved AS (
    DELETE FROM leases
     WHERE task_id = %(task_id)s AND org_id = %(org_id)s AND started_at IS NULL
    RETURNING task_id, job_id, priority, attempt, lease_sequence, metered, slot_id, start_token
),
done AS (
    SELECT * FROM from_ready
    UNION ALL
    SELECT * FROM from_delayed
    UNION ALL
    SELECT * FROM reserved
),
ended AS (
    INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, ended_at,
                          lease_sequence)
    SELECT d.task_id, d.attempt + 1, %(org_id)s, d.job_id, 'Canceled', true, %(now)s,
           d.lease_sequence
      FROM done d
),
-- include: release_capacity
-- include: ended_leases
UNION ALL
(SELECT NULL, true FROM rewoken LIMIT 1)

-- name: retry_ended
-- Queue a task again that ended without success, with its count of failures at zero.
WITH reopened AS (
    UPDATE attempts
       SET final = false
     WHERE task_id = %(task_id)s AND org_id = %(org_id)s AND final AND outcome <> 'Completed'
    RETURNING task_id, job_id, attempt, lease_sequence, lease_token
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, attempt, lease_sequence, lease_token, ready_at)
    SELECT r.job_id, %(priority)s, r.task_id, r.attempt, r.lease_sequence, r.lease_token, %(now)s
      FROM reopened r
    RETURNING job_id, task_id
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT %(outbox_id)s, %(org_id)s, 'wake', j.runtime, ARRAY[q.task_id], %(now)s, %(now)s
      FROM queued q
      JOIN jobs j ON j.job_id = q.job_id
)
SELECT task_id FROM queued

-- name: final_outcome
-- How a task ended, if it has.
SELECT a.outcome, j.activation
  FROM attempts a
  JOIN jobs j ON j.job_id = a.job_id
 WHERE a.task_id = %(task_id)s AND a.org_id = %(org_id)s AND a.final

-- name: job_of_task
-- Whether the task is a source's durable run, and who may change its DAG.
SELECT j.activation, j.name AS job, d.name AS dag, d.created_by, d.deploy_roles
  FROM tasks t
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
 WHERE t.task_id = %(task_id)s AND t.org_id = %(org_id)s

-- name: lock_org
-- Quotas of an org change one at a time.
SELECT org_id FROM orgs WHERE org_id = %(org_id)s FOR NO KEY UPDATE

-- name: lock_jobs
-- Before any counter, as a yield locks them.
SELECT job_id FROM jobs WHERE org_id = %(org_id)s ORDER BY job_id FOR NO KEY UPDATE

-- name: lock_counters
-- Claims of metered work hold theirs from the look at them to the commit: this waits for those that
-- are under way, and those that come later see what was changed meanwhile.
SELECT capacity_id FROM capacities WHERE org_id = %(org_id)s ORDER BY capacity_id FOR UPDATE

-- name: set_quota
-- The org's own counter, made or changed.
INSERT INTO capacities (capacity_id, org_id, kind, name, max_running, reserved_for_live,
                        max_starts_hourly)
VALUES (%(capacity_id)s, %(org_id)s, 'org', 'quota', %(max_running)s, %(reserved_for_live)s,
        %(max_starts_hourly)s)
    ON CONFLICT (org_id) WHERE kind = 'org' DO UPDATE
       SET max_running = excluded.max_running, reserved_for_live = excluded.reserved_for_live,
           max_starts_hourly = excluded.max_starts_hourly
RETURNING capacity_id

-- name: unmeter_jobs
-- From now on the org's counter meters nothing; jobs before counters, as a yield locks them.
UPDATE jobs j
   SET capacity_ids = array_remove(j.capacity_ids, c.capacity_id)
  FROM capacities c
 WHERE c.org_id = %(org_id)s AND c.kind = 'org' AND j.org_id = %(org_id)s
   AND c.capacity_id = ANY (j.capacity_ids)

-- name: delete_quota
-- The org's own counter goes.
DELETE FROM capacities WHERE org_id = %(org_id)s AND kind = 'org' RETURNING capacity_id

-- name: wake_org
-- What waits for capacity may have it now: one wake-up for each runtime with ready tasks.
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
       w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
  FROM (SELECT j.runtime, array_agg(head.task_id) AS task_ids
          FROM jobs j
         CROSS JOIN LATERAL (
               SELECT r.task_id
                 FROM ready r
                WHERE r.job_id = j.job_id
                ORDER BY r.priority, r.task_id
                LIMIT 1) head
         WHERE j.org_id = %(org_id)s AND j.claimable
         GROUP BY j.runtime) w
RETURNING target

-- name: list_counters
-- What meters the claims of an org: its quota, worker pools, jobs with a max_concurrency.
SELECT c.kind, coalesce(p.dag, j.dag) AS dag, c.name, c.max_running, c.reserved_for_live,
       c.running, c.running_backfill, c.max_starts_hourly,
       CASE WHEN c.hour_started_at > %(now)s - interval '1 hour' THEN c.starts_this_hour ELSE 0 END
           AS starts_this_hour
  FROM capacities c
  LEFT JOIN LATERAL (
       SELECT d.name AS dag FROM worker_pools w JOIN dags d ON d.dag_id = w.dag_id
        WHERE c.kind = 'pool' AND w.capacity_id = c.capacity_id) p ON true
  LEFT JOIN LATERAL (
       SELECT d.name AS dag FROM jobs b JOIN dags d ON d.dag_id = b.dag_id
        WHERE c.kind IN ('job', 'deploy') AND b.capacity_ids @> ARRAY[c.capacity_id]
        LIMIT 1) j ON true
 WHERE c.org_id = %(org_id)s
 ORDER BY array_position(ARRAY['org', 'pool', 'job', 'deploy'], c.kind), 2, c.name, c.capacity_id

-- name: meter_jobs
-- From now on the org's counter meters its jobs; answers those that were not metered by it before.
UPDATE jobs
   SET capacity_ids = capacity_ids || %(capacity_id)s::uuid
 WHERE org_id = %(org_id)s AND NOT %(capacity_id)s::uuid = ANY (capacity_ids)
RETURNING job_id

-- name: adopt_leases
-- What runs already counts, and so does a resting source that kept its capacity: both are charged
-- to the counter that newly meters their jobs.
WITH adopted AS (
    UPDATE leases
       SET metered = true
     WHERE org_id = %(org_id)s AND job_id = ANY (%(job_ids)b::uuid[])
    RETURNING priority
),
kept AS (
    SELECT r.priority FROM ready r WHERE r.keeps_capacity AND r.job_id = ANY (%(job_ids)b::uuid[])
    UNION ALL
    SELECT d.priority FROM delayed d WHERE d.keeps_capacity AND d.job_id = ANY (%(job_ids)b::uuid[])
),
holder AS (
    SELECT priority FROM adopted
    UNION ALL
    SELECT priority FROM kept
)
UPDATE capacities
   SET running = running + (SELECT count(*) FROM holder),
       running_backfill = running_backfill + (SELECT count(*) FROM holder WHERE priority = 1)
 WHERE capacity_id = %(capacity_id)s

-- name: adopt_strays
-- Leases that no counter knows of although their job is metered: they were claimed while it became
-- so, by statements that could not see it yet.
WITH stray AS (
    SELECT l.task_id, l.job_id, l.priority
      FROM leases l
      JOIN jobs j ON j.job_id = l.job_id
     WHERE NOT l.metered AND j.capacity_ids <> '{}'
     ORDER BY l.task_id
     LIMIT %(limit)s
       FOR UPDATE OF l SKIP LOCKED
),
adopted AS (
    UPDATE leases l
       SET metered = true
      FROM stray s
     WHERE l.task_id = s.task_id
    RETURNING s.job_id, s.priority
),
held AS (
    SELECT c.capacity_id, count(*) AS held, count(*) FILTER (WHERE a.priority = 1) AS held_backfill
      FROM adopted a
      JOIN jobs j ON j.job_id = a.job_id
     CROSS JOIN LATERAL unnest(j.capacity_ids) AS c (capacity_id)
     GROUP BY c.capacity_id
),
counter AS (
    SELECT c.capacity_id
      FROM capacities c
     WHERE c.capacity_id IN (SELECT capacity_id FROM held)
     ORDER BY c.capacity_id
       FOR UPDATE
)
UPDATE capacities c
   SET running = c.running + h.held, running_backfill = c.running_backfill + h.held_backfill
  FROM held h
  JOIN counter k ON k.capacity_id = h.capacity_id
 WHERE c.capacity_id = h.capacity_id
RETURNING c.capacity_id

-- fragment: holders
-- Who holds capacity: what runs, and sources that rest with it in hand.
holder AS (
    SELECT l.job_id, l.priority FROM leases l WHERE l.metered
     UNION ALL
    SELECT r.job_id, r.priority FROM ready r WHERE r.keeps_capacity
     UNION ALL
    SELECT d.job_id, d.priority FROM delayed d WHERE d.keeps_capacity
)

-- name: lock_to_recount
-- A statement of its own: the next one sees what the last holder of the lock did.
SELECT capacity_id
  FROM capacities
 WHERE capacity_id = ANY (%(capacity_ids)b::uuid[])
 ORDER BY capacity_id
   FOR UPDATE

-- name: recount
-- Locked counters come to say what is held of the jobs that they meter.
WITH
-- include: holders
UPDATE capacities c
   SET running = h.running, running_backfill = h.backfill
  FROM unnest(%(capacity_ids)b::uuid[]) AS k (capacity_id)
 CROSS JOIN LATERAL (
       SELECT count(o.job_id) AS running, count(o.job_id) FILTER (WHERE o.priority = 1) AS backfill
         FROM jobs j
         JOIN holder o ON o.job_id = j.job_id
        WHERE j.capacity_ids @> ARRAY[k.capacity_id]) h
 WHERE c.capacity_id = k.capacity_id

-- name: drifted
-- Counters that say something else than what is held: a task ended while its job was given the
-- counter, which whoever ended it could not see yet.
WITH
-- include: holders
,
held AS (
    SELECT u.capacity_id, count(*) AS running, count(*) FILTER (WHERE o.priority = 1) AS backfill
      FROM holder o
      JOIN jobs j ON j.job_id = o.job_id
     CROSS JOIN LATERAL unnest(j.capacity_ids) AS u (capacity_id)
     GROUP BY u.capacity_id
)
SELECT c.capacity_id
  FROM capacities c
  LEFT JOIN held h ON h.capacity_id = c.capacity_id
 WHERE (c.running, c.running_backfill)
       IS DISTINCT FROM (coalesce(h.running, 0), coalesce(h.backfill, 0))
