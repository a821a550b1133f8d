-- name: current_parts
-- The current versions behind a published name or one dataset, and who may change their DAG.
SELECT c.dataset_uuid, c.dataset_version, g.name AS dag, g.created_by, g.deploy_roles
  FROM (SELECT p.dataset_uuid, p.part
          FROM publication_parts p
          JOIN publications n ON n.org_id = p.org_id AND n.dataset_name = p.dataset_name
         WHERE p.org_id = %(org_id)s AND p.dataset_name = %(name)s AND n.hidden_at IS NULL
         UNION ALL
        SELECT d.dataset_uuid, 0
          FROM datasets d
         WHERE d.org_id = %(org_id)s AND d.dataset_uuid = %(dataset_uuid)s) w
  JOIN dataset_current c ON c.dataset_uuid = w.dataset_uuid
  JOIN datasets d ON d.dataset_uuid = w.dataset_uuid
  JOIN dags g ON g.dag_id = d.dag_id
 ORDER BY w.part

-- name: by_client_key
-- What an earlier request with this key has declared.
SELECT i.event_id, i.dataset_uuid, i.dataset_version, i.scope, i.reason, i.number
  FROM invalidations i
 WHERE i.org_id = %(org_id)s AND i.client_key = %(client_key)s
 ORDER BY i.event_id

-- name: invalidation_of
-- Why the scopes of these events are not what they were.
SELECT i.event_id, i.reason, i.source, i.scope, i.range_start, i.range_end
  FROM invalidations i
 WHERE i.event_id = ANY (%(event_ids)b::uuid[])

-- name: list_invalidations
-- The newest first, each with the tasks that were made from it: the id of a task begins with that
-- of its event, so they lie side by side.
SELECT i.event_id, i.dataset_uuid, i.dataset_version, g.name AS dag, o.job_name AS job,
       o.output_index, i.scope, i.range_start, i.range_end, i.number, i.reason, i.source,
       i.task_id, i.deploy_id, u.subject AS declared_by, i.created_at, m.tasks
  FROM (SELECT i.*
          FROM invalidations i
         WHERE i.org_id = %(org_id)s AND i.event_id < %(before)s
           AND (%(dataset_uuids)b::uuid[] IS NULL OR i.dataset_uuid = ANY (%(dataset_uuids)b::uuid[]))
         ORDER BY i.event_id DESC
         LIMIT %(limit)s) i
  JOIN datasets o ON o.dataset_uuid = i.dataset_uuid
  JOIN dags g ON g.dag_id = o.dag_id
  LEFT JOIN users u ON u.user_id = i.user_id
 CROSS JOIN LATERAL (
       SELECT coalesce(jsonb_agg(jsonb_build_object(
                  'task_id', t.task_id, 'dag', d.name, 'job', j.name,
                  'status', CASE WHEN f.outcome IN ('Completed', 'Canceled') THEN f.outcome
                                 WHEN f.outcome IS NOT NULL THEN 'Failed'
                                 WHEN l.started_at IS NOT NULL THEN 'Running'
                                 ELSE 'Queued' END)
                  ORDER BY t.task_id), '[]') AS tasks
         FROM tasks t
         JOIN jobs j ON j.job_id = t.job_id
         JOIN dags d ON d.dag_id = j.dag_id
         LEFT JOIN leases l ON l.task_id = t.task_id
         LEFT JOIN LATERAL (
              SELECT a.outcome FROM attempts a
               WHERE a.task_id = t.task_id AND a.final LIMIT 1) f ON true
        WHERE t.task_id > i.event_id
          AND t.task_id <= (left(i.event_id::text, 32) || 'ffff')::uuid) m
 ORDER BY i.event_id DESC
