-- fragment: route_events
-- From `fresh` events to tasks, to the queue, to one wake-up for each runtime that got work.
-- The routes are looked up once for each dataset version of the batch, then joined.
route AS MATERIALIZED (
    SELECT v.dataset_version, e.job_id, e.route, j.priority, j.runtime
      FROM (SELECT DISTINCT f.dataset_version FROM fresh f) v
      JOIN dataset_current c ON c.dataset_version = v.dataset_version
      JOIN edges e ON e.dataset_uuid = c.dataset_uuid AND e.triggers
      JOIN jobs j ON j.job_id = e.job_id
      JOIN dags d ON d.dag_id = j.dag_id
      JOIN dag_version_jobs a
        ON a.dag_version_id = d.active_dag_version_id AND a.job_id = j.job_id
),
made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT (left(f.event_id::text, 32) || r.route)::uuid, %(org_id)s, r.job_id, r.priority,
           %(now)s, f.event_id, f.producer_task_id, f.dataset_version, f.scope, f.range_start,
           f.range_end, f.revision
      FROM fresh f
      JOIN route r ON r.dataset_version = f.dataset_version
    RETURNING task_id, job_id, priority
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    SELECT m.job_id, m.priority, m.task_id, %(now)s
      FROM made m
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
           w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM (SELECT r.runtime, array_agg(m.task_id) AS task_ids
              FROM made m
              JOIN (SELECT DISTINCT job_id, runtime FROM route) r ON r.job_id = m.job_id
             GROUP BY r.runtime) w
    RETURNING target
)
