-- name: versions_named
-- What a name stands for: the current versions of a published dataset or of one output, or one
-- version by its own id. With how far each can be read.
SELECT v.dataset_uuid, v.dataset_version, c.readable
  FROM (SELECT p.part, u.dataset_version
          FROM publication_parts p
          JOIN publications n ON n.org_id = p.org_id AND n.dataset_name = p.dataset_name
          JOIN dataset_current u ON u.dataset_uuid = p.dataset_uuid
         WHERE p.org_id = %(org_id)s AND p.dataset_name = %(name)s AND n.hidden_at IS NULL
         UNION ALL
        SELECT 0, u.dataset_version FROM dataset_current u WHERE u.dataset_uuid = %(id)s
         UNION ALL
        SELECT 0, %(id)s) w
  JOIN dataset_versions v ON v.dataset_version = w.dataset_version AND v.org_id = %(org_id)s
  JOIN version_counters c ON c.dataset_version = v.dataset_version
 ORDER BY w.part

-- fragment: wanted
   AND (%(scope)s::text IS NULL OR %(scope)s = '' OR c.scope IN (%(scope)s, '')
        OR (c.range_end >= %(range_start)s AND c.range_start <= %(range_end)s))

-- name: commits_at
-- The commits that a pin shows for a scope: those that are live, and those that were replaced after
-- it. The newest first.
SELECT c.number, c.scope, c.range_start, c.range_end, c.replaced_at, c.task_id, c.attempt,
       c.lease_sequence, c.input_pins, c.bytes, c.row_count, c.registered_at
  FROM (SELECT c.number FROM commits c
         WHERE c.dataset_version = %(dataset_version)s AND c.replaced_at IS NULL
           AND c.number <= %(number)s
-- include: wanted
         UNION ALL
        SELECT c.number FROM commits c
         WHERE c.dataset_version = %(dataset_version)s AND c.replaced_at > %(number)s
           AND c.number <= %(number)s
-- include: wanted
         ORDER BY number DESC
         LIMIT %(limit)s) w
 CROSS JOIN LATERAL (
       SELECT * FROM commits c
        WHERE c.dataset_version = %(dataset_version)s AND c.number = w.number
        LIMIT 1) c
 ORDER BY c.number DESC

-- name: task_of_lineage
-- A task with its code and what made it.
SELECT t.task_id, j.job_id, d.name AS dag, j.name AS job, j.operator, j.fingerprint,
       j.definition -> 'config' AS config, t.event_id, t.producer_task_id,
       t.dataset_version AS trigger_version, v.dataset_uuid AS trigger_dataset, t.scope,
       t.range_start, t.range_end, i.reason AS invalidation,
       (SELECT a.attempt FROM attempts a
         WHERE a.task_id = t.task_id AND a.final AND a.outcome = 'Completed') AS completed_attempt
  FROM tasks t
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  LEFT JOIN dataset_versions v ON v.dataset_version = t.dataset_version
  LEFT JOIN invalidations i ON i.event_id = t.event_id
 WHERE t.task_id = %(task_id)s AND t.org_id = %(org_id)s

-- name: pins_of_attempt
-- What an attempt read, by its last lease.
SELECT DISTINCT v.dataset_uuid, i.dataset_version, coalesce(i.commit_number, 0) AS number,
       coalesce(i.swap, 0) AS swap
  FROM task_inputs i
  JOIN dataset_versions v ON v.dataset_version = i.dataset_version
 WHERE i.task_id = %(task_id)s AND i.attempt = %(attempt)s
 ORDER BY v.dataset_uuid

-- name: input_datasets
-- What the inputs of a job are called, and whether they have rows.
SELECT v.dataset_version, e.alias, g.name AS dag, s.job_name AS job, s.output_index, v.backend
  FROM dataset_versions v
  JOIN datasets s ON s.dataset_uuid = v.dataset_uuid
  JOIN dags g ON g.dag_id = s.dag_id
  LEFT JOIN LATERAL (
       SELECT e.alias FROM edges e
        WHERE e.job_id = %(job_id)s AND e.dataset_uuid = v.dataset_uuid
        ORDER BY e.input_index LIMIT 1) e ON true
 WHERE v.dataset_version = ANY (%(versions)b::uuid[])
