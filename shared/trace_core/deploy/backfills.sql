-- name: job_to_backfill
-- A reactive job of the active version, and who may change its DAG; the DAG is locked.
SELECT d.dag_id, d.created_by, d.deploy_roles, j.job_id, j.activation
  FROM dags d
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id
  JOIN jobs j ON j.job_id = a.job_id
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND j.name = %(job)s
   FOR NO KEY UPDATE OF d

-- name: add_backfill
-- One more recompute of a job.
INSERT INTO backfills (backfill_id, org_id, dag_id, number, job_id, range_start, range_end, status,
                       window_size, reason, created_by, created_at)
SELECT %(backfill_id)s, %(org_id)s, %(dag_id)s,
       1 + coalesce((SELECT max(b.number) FROM backfills b WHERE b.dag_id = %(dag_id)s), 0),
       %(job_id)s, %(range_start)s, %(range_end)s, 'Running', %(window_size)s, %(reason)s,
       %(user_id)s, %(now)s
RETURNING number

-- name: add_scopes
-- The last announcement of each scope that lies in the range, of every version that triggers the job.
WITH wanted AS (
    SELECT DISTINCT ON (e.dataset_version, e.scope)
           e.dataset_version, e.scope, e.range_start, e.range_end, e.revision
      FROM routes r
      JOIN events e ON e.dataset_version = r.dataset_version AND e.number > 0
     WHERE r.job_id = %(job_id)s AND r.triggers AND e.range_start IS NOT NULL
       AND e.range_start <= %(range_end)s AND e.range_end >= %(range_start)s
     ORDER BY e.dataset_version, e.scope, e.number DESC
)
INSERT INTO backfill_scopes (backfill_id, place, dataset_version, scope, range_start, range_end,
                             revision)
SELECT %(backfill_id)s,
       row_number() OVER (ORDER BY w.range_start, w.range_end, w.dataset_version, w.scope),
       w.dataset_version, w.scope, w.range_start, w.range_end, w.revision
  FROM wanted w

-- name: running_backfills
-- Those that have tasks to make, or to wait for.
SELECT b.backfill_id, b.org_id, b.job_id, b.window_size, b.status, j.runtime, j.standing,
       (SELECT min(e.route) FROM edges e WHERE e.job_id = b.job_id) AS route
  FROM backfills b
  JOIN jobs j ON j.job_id = b.job_id
 WHERE b.ended_at IS NULL AND b.status = 'Running'
 ORDER BY b.backfill_id

-- name: lock_backfill
-- Whoever makes its next tasks is alone at it.
SELECT b.backfill_id FROM backfills b
 WHERE b.backfill_id = %(backfill_id)s AND b.status = 'Running' AND b.ended_at IS NULL
   FOR UPDATE SKIP LOCKED

-- name: backfill_progress
-- How far one is.
SELECT count(*) AS scopes, count(s.task_id) AS made,
       count(*) FILTER (WHERE a.outcome = 'Completed') AS completed,
       count(*) FILTER (WHERE a.outcome = 'Canceled') AS canceled,
       count(*) FILTER (WHERE a.outcome NOT IN ('Completed', 'Canceled')) AS failed
  FROM backfill_scopes s
  LEFT JOIN LATERAL (
       SELECT a.outcome FROM attempts a
        WHERE a.task_id = s.task_id AND a.final ORDER BY a.attempt DESC LIMIT 1) a ON true
 WHERE s.backfill_id = %(backfill_id)s

-- name: make_backfill_tasks
-- The next scopes become tasks, below live work. The low digits of their ids are free, as those of a
-- task that an event makes carry its route.
WITH next AS (
    SELECT s.place, (%(task_ids)b::uuid[])[row_number() OVER (ORDER BY s.place)] AS task_id,
           s.dataset_version, s.scope, s.range_start, s.range_end, s.revision
      FROM (SELECT * FROM backfill_scopes s
             WHERE s.backfill_id = %(backfill_id)s AND s.task_id IS NULL
             ORDER BY s.place
             LIMIT cardinality(%(task_ids)b::uuid[])) s
),
made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT n.task_id, %(org_id)s, %(job_id)s, 1, %(now)s, n.task_id, %(backfill_id)s,
           n.dataset_version, n.scope, n.range_start, n.range_end, n.revision
      FROM next n
    RETURNING task_id
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    SELECT %(job_id)s, 1, m.task_id, %(now)s FROM made m
),
noted AS (
    UPDATE backfill_scopes s SET task_id = n.task_id
      FROM next n
     WHERE s.backfill_id = %(backfill_id)s AND s.place = n.place AND s.task_id IS NULL
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT %(outbox_id)s, %(org_id)s, 'wake', %(runtime)s,
           (array_agg(m.task_id))[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM made m
    HAVING count(*) > 0
)
SELECT task_id FROM made

-- name: end_backfill
-- All of its tasks have ended.
UPDATE backfills SET status = 'Done', ended_at = %(now)s
 WHERE backfill_id = %(backfill_id)s AND status = 'Running' AND ended_at IS NULL

-- name: backfill_by_number
-- One backfill of a DAG, with who may change it.
SELECT b.backfill_id, b.number, b.status, d.created_by, d.deploy_roles, d.dag_id
  FROM dags d
  JOIN backfills b ON b.dag_id = d.dag_id
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND b.number = %(number)s
   FOR NO KEY UPDATE OF b

-- name: set_backfill_status
-- Let it rest, go on, or give it up; from the very status that the caller saw.
UPDATE backfills
   SET status = %(status)s,
       ended_at = CASE WHEN %(status)s = 'Canceled' THEN %(now)s::timestamptz END
 WHERE backfill_id = %(backfill_id)s AND status = %(was)s AND ended_at IS NULL
RETURNING number

-- name: open_tasks_of_backfill
-- What it made and has not ended.
SELECT s.task_id
  FROM backfill_scopes s
 WHERE s.backfill_id = %(backfill_id)s AND s.task_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM attempts a WHERE a.task_id = s.task_id AND a.final)

-- name: list_backfills
-- The backfills of a DAG, the newest first.
SELECT b.backfill_id, b.number, j.name AS job, b.range_start, b.range_end, b.status, b.reason,
       b.window_size, b.created_at, b.ended_at, coalesce(u.name, u.subject) AS created_by
  FROM dags d
  JOIN backfills b ON b.dag_id = d.dag_id
  JOIN jobs j ON j.job_id = b.job_id
  LEFT JOIN users u ON u.user_id = b.created_by
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND b.number < %(before)s
 ORDER BY b.number DESC
 LIMIT %(limit)s
