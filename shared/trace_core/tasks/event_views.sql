-- fragment: announced
SELECT e.event_id, e.producer_task_id AS task_id, e.attempt, o.dataset_uuid, e.dataset_version,
       e.scope, e.range_start, e.range_end, e.revision, e.accepted_at, d.name AS dag, j.name AS job
  FROM events e
  JOIN dataset_versions o ON o.dataset_version = e.dataset_version
  JOIN jobs j ON j.job_id = o.job_id
  JOIN dags d ON d.dag_id = j.dag_id

-- fragment: wanted
   AND (%(dag)s::text IS NULL OR d.name = %(dag)s) AND (%(job)s::text IS NULL OR j.name = %(job)s)
   AND (%(scope)s::text IS NULL OR e.scope IN ('c' || %(scope)s, 'p' || %(scope)s))
 ORDER BY e.event_id DESC
 LIMIT %(limit)s

-- name: began
-- Since when there can be events of an org, and of one of its tasks.
SELECT o.created_at, j.activation
  FROM orgs o
  LEFT JOIN tasks t ON t.task_id = %(task_id)s AND t.org_id = o.org_id
  LEFT JOIN jobs j ON j.job_id = t.job_id
 WHERE o.org_id = %(org_id)s

-- name: events_between
-- The newest events of a span of time. With both ends of it the planner takes the summary index and
-- reads nothing outside; a statement without a task may not depend on one either.
-- include: announced
 WHERE e.org_id = %(org_id)s AND e.event_id >= %(since)s AND e.event_id < %(before)s
-- include: wanted

-- name: events_of_source_between
-- The same of one source, whose one task may have announced millions.
-- include: announced
 WHERE e.org_id = %(org_id)s AND e.event_id >= %(since)s AND e.event_id < %(before)s
   -- Not a comparison of the key: that index knows the task, but not the time.
   AND e.producer_task_id IS NOT DISTINCT FROM %(task_id)s
-- include: wanted

-- name: events_of_producer
-- The newest events of one task that is no source: as many as an attempt announces.
-- include: announced
 WHERE e.org_id = %(org_id)s AND e.producer_task_id = %(task_id)s AND e.event_id < %(before)s
-- include: wanted
