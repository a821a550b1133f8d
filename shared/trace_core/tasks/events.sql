-- fragment: accept_announced
-- Events of the one task in `fenced`; all of them are outputs of its job, or none is accepted. What
-- has rows is announced by its commits.
announced AS (
    SELECT *
      FROM unnest(%(event_ids)b::uuid[], %(event_datasets)b::uuid[], %(event_versions)b::uuid[],
                  %(event_scopes)s::text[],
                  %(event_starts)s::bigint[], %(event_ends)s::bigint[],
                  %(event_revisions)s::bigint[])
           AS e (event_id, dataset_uuid, dataset_version, scope, range_start, range_end, revision)
),
refused AS (
    SELECT a.dataset_version
      FROM announced a
     CROSS JOIN fenced f
      LEFT JOIN dataset_versions v
        ON v.dataset_version = a.dataset_version AND v.dataset_uuid = a.dataset_uuid
       AND v.job_id = f.job_id AND v.backend = 'control'
     WHERE v.dataset_version IS NULL
),
announcing AS (
    SELECT a.*, f.task_id, f.attempt
      FROM announced a
     CROSS JOIN fenced f
     WHERE NOT EXISTS (SELECT FROM refused)
),
-- include: number_events
,
fresh AS (
    INSERT INTO events (producer_task_id, dataset_version, scope, revision, event_id, org_id,
                        attempt, range_start, range_end, accepted_at, number)
    SELECT n.task_id, n.dataset_version, n.scope, n.revision, n.event_id, %(org_id)s, n.attempt,
           n.range_start, n.range_end, %(now)s, n.number
      FROM numbered n
        ON CONFLICT DO NOTHING
    RETURNING producer_task_id, dataset_version, scope, revision, event_id, range_start, range_end,
              rewrites
)

-- name: accept
-- Accept events of a running task under its fence, make and queue downstream tasks.
WITH fenced AS MATERIALIZED (
    SELECT l.task_id, l.job_id, l.attempt
      FROM leases l
     WHERE l.task_id = %(task_id)s AND l.attempt = %(attempt)s
       AND l.lease_token = %(lease_token)s AND l.org_id = %(org_id)s
       AND l.started_at IS NOT NULL AND l.canceled_at IS NULL
       FOR NO KEY UPDATE
),
-- include: accept_announced
,
-- include: route_events
SELECT (SELECT count(*) FROM fenced) AS fenced,
       (SELECT count(*) FROM refused) AS refused,
       (SELECT count(*) FROM moved) AS moved,
       (SELECT count(*) FROM fresh) AS accepted,
       (SELECT count(*) FROM made) AS tasks_made,
       (SELECT count(*) FROM woken) AS woken

-- name: accept_verified
-- As `accept`, for an attempt whose fence the caller has verified and holds locked.
WITH fenced AS MATERIALIZED (
    SELECT %(task_id)s::uuid AS task_id, %(job_id)s::uuid AS job_id, %(attempt)s::integer AS attempt
),
-- include: accept_announced
,
-- include: route_events
SELECT (SELECT count(*) FROM fenced) AS fenced,
       (SELECT count(*) FROM refused) AS refused,
       (SELECT count(*) FROM moved) AS moved,
       (SELECT count(*) FROM fresh) AS accepted,
       (SELECT count(*) FROM made) AS tasks_made,
       (SELECT count(*) FROM woken) AS woken
