-- fragment: route_events
-- From `fresh` events to tasks, to the queue, to one wake-up for each runtime that got work.
made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT (left(f.event_id::text, 32) || r.route)::uuid, %(org_id)s, r.job_id, r.priority,
           %(now)s, f.event_id, f.producer_task_id, f.dataset_version, f.scope, f.range_start,
           f.range_end, f.revision
      FROM fresh f
      JOIN routes r ON r.dataset_version = f.dataset_version
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
      FROM (SELECT j.runtime, array_agg(m.task_id) AS task_ids
              FROM made m
              JOIN jobs j ON j.job_id = m.job_id
             GROUP BY j.runtime) w
    RETURNING target
)
