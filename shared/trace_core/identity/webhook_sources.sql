-- name: ensure_source
-- The source of a job, made when it is new: its address outlives deploys.
INSERT INTO webhook_sources (source_id, org_id, dag_id, job_name, created_at)
VALUES (%(source_id)s, %(org_id)s, %(dag_id)s, %(job_name)s, %(now)s)
    ON CONFLICT (dag_id, job_name) DO NOTHING

-- name: source_of_job
-- The source of a job, by names inside the org.
SELECT w.source_id
  FROM dags d
  JOIN webhook_sources w ON w.dag_id = d.dag_id
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND w.job_name = %(job_name)s

-- name: lock_source
-- One rotation at a time.
SELECT source_id, org_id FROM webhook_sources
 WHERE dag_id = %(dag_id)s AND job_name = %(job_name)s
   FOR NO KEY UPDATE

-- name: valid_secrets
-- The secrets that sign, the newest first.
SELECT secret_id, created_at, expires_at FROM webhook_secrets
 WHERE source_id = %(source_id)s AND (expires_at IS NULL OR expires_at > %(now)s)
 ORDER BY secret_id DESC

-- name: expire_secret
-- A secret signs until then, and never longer than was said before.
UPDATE webhook_secrets SET expires_at = least(expires_at, %(expires_at)s::timestamptz)
 WHERE secret_id = %(secret_id)s

-- name: add_secret
-- A new secret; its value is in the secret store.
INSERT INTO webhook_secrets (secret_id, source_id, created_at)
VALUES (%(secret_id)s, %(source_id)s, %(now)s)

-- name: secrets_of_source
-- What may have signed a call to this source, the newest first.
SELECT s.secret_id, w.org_id
  FROM webhook_sources w
  JOIN webhook_secrets s ON s.source_id = w.source_id
 WHERE w.source_id = %(source_id)s AND (s.expires_at IS NULL OR s.expires_at > %(now)s)
 ORDER BY s.secret_id DESC
 LIMIT 2

-- name: target_of_source
-- The job that a source feeds.
SELECT d.name AS dag, w.job_name AS job
  FROM webhook_sources w
  JOIN dags d ON d.dag_id = w.dag_id
 WHERE w.source_id = %(source_id)s AND w.org_id = %(org_id)s
