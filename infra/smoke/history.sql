-- name: tasks_of_dag
-- Every task of a DAG with what made it and how it ended.
SELECT j.name AS job, t.scope, t.revision,
       p.name AS producer, p.operator AS producer_operator, made.scope AS producer_scope,
       coalesce(a.outcome, 'open') AS outcome
  FROM tasks t
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  LEFT JOIN tasks made ON made.task_id = t.producer_task_id
  LEFT JOIN jobs p ON p.job_id = made.job_id
  LEFT JOIN attempts a ON a.task_id = t.task_id AND a.final
 WHERE d.name = %(dag)s;

-- name: events_of_dag
-- Every event of a DAG with the task that announced it.
SELECT j.name AS producer, j.operator AS producer_operator, t.scope AS producer_scope,
       v.output_index, e.scope, e.revision, e.range_start, e.range_end
  FROM events e
  JOIN tasks t ON t.task_id = e.producer_task_id
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  JOIN dataset_versions v ON v.dataset_version = e.dataset_version
 WHERE d.name = %(dag)s;

-- name: attempts_before_the_last
-- How often a task of a DAG had to begin again.
SELECT count(*) AS number
  FROM attempts a
  JOIN jobs j ON j.job_id = a.job_id
  JOIN dags d ON d.dag_id = j.dag_id
 WHERE d.name = %(dag)s AND NOT a.final;

-- name: claims_of_event
-- When the event of that value was accepted, and when each task that it made was claimed.
SELECT j.name AS job, e.accepted_at, a.started_at, a.outcome, l.task_id IS NOT NULL AS leased
  FROM events e
  JOIN tasks t ON t.event_id = e.event_id
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  LEFT JOIN attempts a ON a.task_id = t.task_id AND a.final
  LEFT JOIN leases l ON l.task_id = t.task_id
 WHERE d.name = %(dag)s AND e.range_start = %(number)s;

-- name: counted
-- The tasks of `count` that found a text of that length.
SELECT count(DISTINCT e.producer_task_id) AS number
  FROM events e
  JOIN tasks t ON t.task_id = e.producer_task_id
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
 WHERE d.name = %(dag)s AND j.name = 'count' AND e.range_end = %(length)s;
