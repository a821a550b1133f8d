-- name: close_attempts
-- Attempts that ended long ago without success, of jobs that write objects: from now on no late
-- completion of them counts. Not the ones that a late report is looking at, nor any that runs.
WITH found AS (
    SELECT e.task_id, e.attempt
      FROM jobs j
     CROSS JOIN LATERAL (
           SELECT a.task_id, a.attempt
             FROM attempts a
            WHERE a.job_id = j.job_id AND a.ended_at <= %(ended_before)s
              AND a.outcome <> 'Completed' AND a.cleaned_at IS NULL
              AND NOT EXISTS (SELECT FROM leases l
                               WHERE l.task_id = a.task_id AND l.attempt = a.attempt
                                 AND l.started_at IS NOT NULL)
            ORDER BY a.ended_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED) e
     WHERE EXISTS (SELECT FROM dataset_versions v
                    WHERE v.job_id = j.job_id AND v.backend = 's3')
     LIMIT %(limit)s
)
UPDATE attempts a
   SET closed_at = coalesce(a.closed_at, %(now)s)
  FROM found f
 WHERE a.task_id = f.task_id AND a.attempt = f.attempt
RETURNING a.task_id, a.attempt, a.org_id, a.job_id

-- name: staged_outputs
-- Where tasks of these jobs write objects.
SELECT v.job_id, v.dataset_uuid, v.dataset_version
  FROM dataset_versions v
 WHERE v.job_id = ANY (%(job_ids)b::uuid[]) AND v.backend = 's3'
 ORDER BY v.job_id, v.output_index

-- name: committed_objects
-- What an attempt has committed, in any of its slices.
SELECT c.manifest_key, o.key
  FROM commits c
  LEFT JOIN LATERAL jsonb_to_recordset(c.objects) AS o (key text) ON true
 WHERE c.task_id = %(task_id)s AND c.attempt = %(attempt)s AND c.manifest_key IS NOT NULL

-- name: mark_cleaned
-- What the attempt left behind is gone.
UPDATE attempts
   SET cleaned_at = %(now)s
 WHERE task_id = %(task_id)s AND attempt = %(attempt)s AND closed_at IS NOT NULL
