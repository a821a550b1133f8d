-- name: pins_of_input
-- One input of a running attempt, as its lease pinned it; a published name has several parts, from
-- hot to cold.
SELECT v.dataset_uuid, i.dataset_version, coalesce(i.commit_number, 0) AS number,
       coalesce(i.swap, 0) AS swap
  FROM leases l
  JOIN task_inputs i
    ON i.task_id = l.task_id AND i.attempt = l.attempt AND i.lease_sequence = l.lease_sequence
  JOIN dataset_versions v ON v.dataset_version = i.dataset_version
  JOIN edges e
    ON e.job_id = l.job_id AND e.input_index = i.input_index AND e.dataset_uuid = v.dataset_uuid
  LEFT JOIN LATERAL (
       SELECT min(p.part) AS part FROM publication_parts p WHERE p.dataset_uuid = e.dataset_uuid) p
    ON true
 WHERE l.task_id = %(task_id)s AND l.attempt = %(attempt)s AND l.lease_token = %(lease_token)s
   AND l.org_id = %(org_id)s AND l.started_at IS NOT NULL AND e.alias = %(alias)s
 ORDER BY p.part, v.dataset_uuid
