-- fragment: standing
-- What a version `v` of the dataset `s` is: current; made by a deploy that is open; what the last
-- cutover of its DAG left behind and a rollback would bring back.
       EXISTS (SELECT FROM dataset_current c
                WHERE c.dataset_uuid = v.dataset_uuid
                  AND c.dataset_version = v.dataset_version) AS is_current,
       EXISTS (SELECT
                 FROM deploys b
                 JOIN dag_version_jobs a ON a.dag_version_id = b.to_version AND a.job_id = v.job_id
                WHERE b.dag_id = s.dag_id
                  AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')) AS is_candidate,
       EXISTS (SELECT
                 FROM dag_version_jobs a
                WHERE a.job_id = v.job_id
                  AND a.dag_version_id = (
                      SELECT b.from_version FROM deploys b
                       WHERE b.dag_id = s.dag_id AND b.cut_over_at IS NOT NULL
                       ORDER BY b.number DESC LIMIT 1)) AS is_rollback_target,
       v.purge_marked_at, v.purged_at

-- fragment: stored
-- What lies behind a version `v`: what its last commits show, and what they took the place of.
(SELECT count(*) FILTER (WHERE m.replaced_at IS NULL) AS commits,
        coalesce(sum(m.row_count) FILTER (WHERE m.replaced_at IS NULL), 0)::bigint AS row_count,
        coalesce(sum(m.bytes) FILTER (WHERE m.replaced_at IS NULL), 0)::bigint AS bytes,
        coalesce(sum(m.bytes) FILTER (WHERE m.replaced_at > m.number), 0)::bigint
            AS superseded_bytes,
        coalesce(sum(CASE WHEN jsonb_typeof(m.objects) = 'array'
                          THEN jsonb_array_length(m.objects) END), 0)::bigint AS objects
   FROM commits m
  WHERE m.dataset_version = v.dataset_version) t
