-- name: announce
-- Announce what has its number already, once, and make and queue downstream tasks. The counters of
-- the versions are locked by an earlier statement, so that the routes seen here are those of now.
-- What rewrites is noted with its reason, and goes to everybody who reads it.
WITH announced AS (
    SELECT *
      FROM unnest(%(event_ids)b::uuid[], %(producers)b::uuid[], %(attempts)s::integer[],
                  %(versions)b::uuid[], %(scopes)s::text[], %(starts)s::bigint[],
                  %(ends)s::bigint[], %(revisions)s::bigint[], %(numbers)s::bigint[],
                  %(rewrites)s::boolean[], %(reasons)s::text[])
           AS e (event_id, producer_task_id, attempt, dataset_version, scope, range_start,
                 range_end, revision, number, rewrites, reason)
),
fresh AS (
    INSERT INTO events (producer_task_id, dataset_version, scope, revision, event_id, org_id,
                        attempt, range_start, range_end, accepted_at, number, rewrites)
    SELECT a.producer_task_id, a.dataset_version, a.scope, a.revision, a.event_id, %(org_id)s,
           a.attempt, a.range_start, a.range_end, %(now)s, a.number, a.rewrites
      FROM announced a
        ON CONFLICT DO NOTHING
    RETURNING producer_task_id, dataset_version, scope, revision, event_id, range_start, range_end,
              rewrites, number
),
noted AS (
    INSERT INTO invalidations (event_id, org_id, dataset_uuid, dataset_version, scope, range_start,
                               range_end, number, reason, source, task_id, deploy_id, user_id,
                               client_key, created_at)
    SELECT f.event_id, %(org_id)s, v.dataset_uuid, f.dataset_version, f.scope, f.range_start,
           f.range_end, f.number, a.reason, %(source)s,
           CASE WHEN f.producer_task_id <> f.event_id THEN f.producer_task_id END,
           %(deploy_id)s, %(user_id)s, %(client_key)s, %(now)s
      FROM fresh f
      JOIN announced a ON a.event_id = f.event_id
      JOIN dataset_versions v ON v.dataset_version = f.dataset_version
     WHERE f.rewrites
),
-- include: route_events
SELECT (SELECT count(*) FROM fresh) AS accepted, (SELECT count(*) FROM made) AS tasks_made,
       (SELECT count(*) FROM woken) AS woken
