-- name: recorded
-- Who made these commits, of which scope and in place of what.
SELECT r.dataset_version, r.number, r.task_id, r.attempt, r.lease_sequence, r.output_index, r.scope,
       r.replaces
  FROM unnest(%(versions)b::uuid[], %(numbers)s::bigint[]) AS w (dataset_version, number)
  JOIN trace.records r ON r.dataset_version = w.dataset_version AND r.number = w.number
