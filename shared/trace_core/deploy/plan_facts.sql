-- What a plan must know about the running state.

-- name: active_version
-- The active version of a DAG, with its file.
SELECT d.dag_id, d.created_by, d.deploy_roles, v.number, v.content_sha256, v.source
  FROM dags d
  LEFT JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
 WHERE d.org_id = %(org_id)s AND d.name = %(name)s

-- name: active_jobs
-- The jobs of the active version, as they were registered.
SELECT j.name, j.fingerprint, s.code_version
  FROM dags d
  JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id
  JOIN jobs j ON j.job_id = a.job_id
  LEFT JOIN LATERAL jsonb_to_recordset(v.settings -> 'jobs') AS s (name text, code_version text)
    ON s.name = j.name
 WHERE d.dag_id = %(dag_id)s

-- name: built_jobs
-- Jobs of other versions whose data is still there, and what they have missed since they were current.
SELECT j.name, j.fingerprint,
       (SELECT max(v.number) FROM dag_version_jobs x
          JOIN dag_versions v ON v.dag_version_id = x.dag_version_id
         WHERE x.job_id = j.job_id) AS version,
       coalesce((SELECT sum(c.last_number - g.after_number)
                   FROM gaps g
                   JOIN version_counters c ON c.dataset_version = g.dataset_version
                  WHERE g.job_id = j.job_id AND NOT g.latest AND g.up_to IS NULL), 0)::bigint
       + (SELECT count(*) FROM attempts f
           WHERE f.job_id = j.job_id AND f.outcome <> 'Completed' AND f.outcome = 'Canceled'
             AND f.final AND f.error_code = 'VersionReplaced') AS missed
  FROM jobs j
  JOIN dags d ON d.dag_id = j.dag_id
 WHERE j.dag_id = %(dag_id)s AND j.built_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM dag_version_jobs a
                    WHERE a.dag_version_id = d.active_dag_version_id AND a.job_id = j.job_id)
   AND NOT EXISTS (SELECT FROM dataset_versions p
                    WHERE p.job_id = j.job_id AND p.purge_marked_at IS NOT NULL)

-- name: outputs_of_dag
-- What each output of the active version holds: live commits, or the scopes that were announced.
SELECT j.name AS job, v.output_index,
       CASE WHEN v.backend = 'control'
            THEN (SELECT count(DISTINCT e.scope)
                    FROM (SELECT e.scope FROM events e
                           WHERE e.dataset_version = v.dataset_version AND e.number > 0
                           LIMIT 1000000) e)
            ELSE k.partitions END AS partitions,
       k.rows, k.bytes
  FROM dags d
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id
  JOIN jobs j ON j.job_id = a.job_id
  JOIN dataset_versions v ON v.job_id = j.job_id
 CROSS JOIN LATERAL (
       SELECT count(*) AS partitions, sum(c.row_count)::bigint AS rows, sum(c.bytes)::bigint AS bytes
         FROM commits c
        WHERE c.dataset_version = v.dataset_version AND c.replaced_at IS NULL) k
 WHERE d.dag_id = %(dag_id)s

-- name: durations_of_dag
-- How long the last tasks of each job took, the newest first: found by what they announced.
SELECT j.name AS job, extract(epoch FROM t.ended_at - t.started_at)::double precision AS seconds
  FROM dags d
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id
  JOIN jobs j ON j.job_id = a.job_id AND j.activation = 'reactive'
  JOIN dataset_versions v ON v.job_id = j.job_id AND v.output_index = 0
 CROSS JOIN LATERAL (
       SELECT e.producer_task_id, max(e.number) AS number
         FROM (SELECT e.producer_task_id, e.number FROM events e
                WHERE e.dataset_version = v.dataset_version AND e.number > 0
                ORDER BY e.number DESC LIMIT 200) e
        GROUP BY e.producer_task_id
        ORDER BY 2 DESC
        LIMIT 20) e
 CROSS JOIN LATERAL (
       SELECT f.started_at, f.ended_at FROM attempts f
        WHERE f.task_id = e.producer_task_id AND f.outcome = 'Completed' AND f.final
          AND f.started_at IS NOT NULL
        LIMIT 1) t
 WHERE d.dag_id = %(dag_id)s
 ORDER BY j.name, e.number DESC

-- name: root_scopes
-- What jobs at the root of a build would work on: requests of sources, scopes of other DAGs' datasets.
SELECT j.name AS job,
       (SELECT count(*) FROM triggers t WHERE t.job_id = j.job_id)
       + (SELECT count(DISTINCT (e.dataset_version, e.scope))
            FROM edges x
            JOIN datasets s ON s.dataset_uuid = x.dataset_uuid AND s.dag_id <> j.dag_id
            JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
            JOIN events e ON e.dataset_version = c.dataset_version AND e.number > 0
           WHERE x.job_id = j.job_id AND x.triggers) AS scopes
  FROM dags d
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id
  JOIN jobs j ON j.job_id = a.job_id
 WHERE d.dag_id = %(dag_id)s
   AND (j.source_kind IN ('manual', 'webhook')
        OR EXISTS (SELECT FROM edges x JOIN datasets s ON s.dataset_uuid = x.dataset_uuid
                    WHERE x.job_id = j.job_id AND s.dag_id <> j.dag_id))

-- name: readers_of_dag
-- Jobs of other DAGs that read what this one publishes.
SELECT DISTINCT p.dataset_name, d.name AS dag, j.name AS job
  FROM publications p
  JOIN publication_parts q ON q.org_id = p.org_id AND q.dataset_name = p.dataset_name
  JOIN edges e ON e.dataset_uuid = q.dataset_uuid
  JOIN jobs j ON j.job_id = e.job_id AND j.dag_id <> p.dag_id
  JOIN dags d ON d.dag_id = j.dag_id
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id AND a.job_id = j.job_id
 WHERE p.dag_id = %(dag_id)s AND p.hidden_at IS NULL
 ORDER BY p.dataset_name, d.name, j.name
