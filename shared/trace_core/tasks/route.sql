-- fragment: number_events
-- Each of the `announcing` events gets the next number of its version. The counter is locked until
-- the commit, in the order of ids, so that the order of numbers is the order of commits. Whoever
-- changes where events of a version go raises its epoch under the same lock: then the routes that
-- this statement sees are old, nothing is accepted (`moved`), and the caller asks again.
tally AS MATERIALIZED (
    SELECT *
      FROM version_counters
     WHERE dataset_version IN (SELECT dataset_version FROM announcing)
     ORDER BY dataset_version
       FOR UPDATE
),
moved AS MATERIALIZED (
    -- Not locked, the counter is as it was when this statement began.
    SELECT FROM tally t JOIN version_counters c USING (dataset_version) WHERE c.epoch <> t.epoch
),
tallied AS (
    UPDATE version_counters c
       SET last_number = t.last_number + a.count, readable = t.last_number + a.count,
           max_end = greatest(t.max_end, a.max)
      FROM tally t
      JOIN (SELECT dataset_version, count(*), max(range_end) FROM announcing GROUP BY 1) a
     USING (dataset_version)
     WHERE c.dataset_version = t.dataset_version AND NOT EXISTS (TABLE moved)
),
numbered AS (
    SELECT a.*, last_number + row_number() OVER (PARTITION BY dataset_version ORDER BY event_id)
                AS number
      FROM announcing a
      JOIN tally USING (dataset_version)
     WHERE NOT EXISTS (TABLE moved)
)

-- fragment: route_events
-- From `fresh` events to tasks, to the queue, to one wake-up for each runtime that got work.
made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT (left(f.event_id::text, 32) || r.route)::uuid, %(org_id)s, r.job_id, r.priority,
           %(now)s, f.event_id, f.producer_task_id, f.dataset_version, f.scope, f.range_start,
           f.range_end, f.revision
      FROM fresh f
      JOIN routes r ON r.dataset_version = f.dataset_version AND (r.triggers OR f.rewrites)
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
