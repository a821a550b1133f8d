-- name: told_before
-- What checks have said about this scope already: how often, when last, and this very report.
SELECT count(*) AS times, max(i.created_at) AS last_at,
       coalesce(bool_or(i.client_key = %(client_key)s), false) AS repeated
  FROM invalidations i
 WHERE i.dataset_version = %(dataset_version)s AND i.dataset_uuid = %(dataset_uuid)s
   AND i.scope = %(scope)s AND i.source = 'task'

-- name: written_since
-- Was anything of that scope written after that time?
SELECT 1
  FROM commits c
 WHERE c.dataset_version = %(dataset_version)s AND c.registered_at > %(since)s
   AND (c.scope IN ('', %(scope)s) OR %(scope)s = ''
        OR (c.range_start <= %(range_end)s AND c.range_end >= %(range_start)s))
 LIMIT 1

-- name: holds_scope
-- Commits of a version that meet the scope, each with what was taken from it; one that is whole speaks
-- for all others.
SELECT c.number, c.scope, c.range_start, c.range_end, c.input_pins, c.replaced_at, c.cursor_column,
       (SELECT jsonb_agg(jsonb_build_array(k.cut_at, k.range_start, k.range_end)
                         ORDER BY k.cut_at, k.range_start)
          FROM commit_cuts k
         WHERE c.is_cut AND k.dataset_version = c.dataset_version AND k.number = c.number) AS cuts
  FROM commits c
 WHERE c.dataset_version = %(dataset_version)s AND c.replaced_at IS NULL
   AND (c.scope IN ('', %(scope)s) OR %(scope)s = ''
        OR (c.range_start <= %(range_end)s AND c.range_end >= %(range_start)s))
 ORDER BY c.is_cut
 LIMIT 1000

-- name: producer
-- The job that writes a version, if the version is still the current one.
SELECT j.job_id, j.org_id, j.activation, j.operator, j.runtime, j.priority,
       (SELECT min(e.route) FROM edges e WHERE e.job_id = j.job_id) AS route
  FROM dataset_versions v
  JOIN dataset_current c
    ON c.dataset_uuid = v.dataset_uuid AND c.dataset_version = v.dataset_version
  JOIN jobs j ON j.job_id = v.job_id
 WHERE v.dataset_version = %(dataset_version)s

-- name: announcements_of_scope
-- What the producer has to work on again: of each scope that triggers it and meets the bad one, the
-- last announcement.
SELECT DISTINCT ON (e.dataset_version, e.scope)
       e.dataset_version, e.scope, e.range_start, e.range_end, e.revision
  FROM routes r
  JOIN events e ON e.dataset_version = r.dataset_version AND e.number > 0
 WHERE r.job_id = %(job_id)s AND r.triggers
   AND (e.scope IN ('', %(scope)s) OR %(scope)s = ''
        OR (e.range_start <= %(range_end)s AND e.range_end >= %(range_start)s))
 ORDER BY e.dataset_version, e.scope, e.number DESC
 LIMIT %(limit)s

-- name: make_repair_tasks
-- The producer works on these scopes again; ids as those of tasks that an event makes.
WITH made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT n.task_id, %(org_id)s, %(job_id)s, %(priority)s, %(now)s, n.task_id,
           %(checked_by)s, n.dataset_version, n.scope, n.range_start, n.range_end, n.revision
      FROM unnest(%(task_ids)b::uuid[], %(versions)b::uuid[], %(scopes)s::text[],
                  %(starts)s::bigint[], %(ends)s::bigint[], %(revisions)s::bigint[])
           AS n (task_id, dataset_version, scope, range_start, range_end, revision)
    RETURNING task_id
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    SELECT %(job_id)s, %(priority)s, m.task_id, %(now)s FROM made m
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT %(outbox_id)s, %(org_id)s, 'wake', %(runtime)s,
       (array_agg(m.task_id))[1:%(wake_fanout)s], %(now)s, %(now)s
  FROM made m
HAVING count(*) > 0
RETURNING target

-- name: ask_source
-- A request in the words that its operator understands: write this again.
INSERT INTO triggers (trigger_id, org_id, job_id, number, request, requested_at)
SELECT %(trigger_id)s, %(org_id)s, %(job_id)s,
       1 + coalesce((SELECT max(t.number) FROM triggers t WHERE t.job_id = %(job_id)s), 0),
       %(request)s, %(now)s
RETURNING number
