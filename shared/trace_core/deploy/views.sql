-- name: show_dag
-- One DAG by its name.
SELECT d.dag_id, d.name, v.number AS version, v.activated_at, d.paused_at, d.created_at,
       coalesce(u.name, u.subject) AS created_by, d.deploy_roles, d.active_dag_version_id
  FROM dags d
  LEFT JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
  LEFT JOIN users u ON u.user_id = d.created_by
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s

-- name: jobs_of_version
-- The jobs of one version of a DAG.
SELECT j.job_id, j.name AS job, j.operator, j.runtime, j.activation, j.source_kind,
       j.max_attempts, j.timeout_seconds
  FROM dag_version_jobs a
  JOIN jobs j ON j.job_id = a.job_id
 WHERE a.dag_version_id = %(dag_version_id)s AND j.org_id = %(org_id)s
 ORDER BY j.name

-- fragment: version
SELECT v.number, v.dag_version_id IS NOT DISTINCT FROM d.active_dag_version_id AS active,
       EXISTS (SELECT FROM deploys b
                WHERE b.to_version = v.dag_version_id AND b.dag_id = v.dag_id
                  AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')) AS candidate,
       v.content_sha256, v.created_at, coalesce(u.name, u.subject) AS created_by, v.activated_at,
       (SELECT count(*) FROM dag_version_jobs a
         WHERE a.dag_version_id = v.dag_version_id) AS jobs

-- name: list_versions
-- The versions of a DAG, the newest first, a page at a time.
-- include: version
  FROM dags d
  JOIN dag_versions v ON v.dag_id = d.dag_id
  LEFT JOIN users u ON u.user_id = v.created_by
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND v.number < %(before)s
 ORDER BY v.number DESC
 LIMIT %(limit)s

-- name: show_version
-- One version of a DAG with its file.
-- include: version
       , d.name AS dag, v.source AS text
  FROM dags d
  JOIN dag_versions v ON v.dag_id = d.dag_id
  LEFT JOIN users u ON u.user_id = v.created_by
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND v.number = %(number)s
