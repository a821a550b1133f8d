-- name: list
-- The snapshots of a dataset with their pins, by name, a page at a time.
SELECT s.snapshot_name AS snapshot, s.description, s.created_at,
       coalesce(u.name, u.subject) AS created_by,
       (SELECT jsonb_agg(jsonb_build_object(
                   'part', p.part, 'dataset_uuid', p.dataset_uuid,
                   'dataset_version', p.dataset_version, 'number', p.number, 'swap', p.swap)
                   ORDER BY p.part)
          FROM snapshot_parts p
         WHERE p.org_id = s.org_id AND p.snapshot_name = s.snapshot_name) AS pins
  FROM snapshots s
  LEFT JOIN users u ON u.user_id = s.created_by
 WHERE s.org_id = %(org_id)s AND s.dataset_name = %(dataset)s AND s.snapshot_name > %(after)s
   AND (%(snapshot)s::text IS NULL OR s.snapshot_name = %(snapshot)s::text)
 ORDER BY s.snapshot_name
 LIMIT %(limit)s

-- name: add
-- Pin all parts of a dataset at once under a new name; no row when the org has that name already.
WITH made AS (
    INSERT INTO snapshots (org_id, snapshot_name, dataset_name, description, created_by,
                           created_at)
    VALUES (%(org_id)s, %(snapshot)s, %(dataset)s, %(description)s, %(user_id)s, %(now)s)
        ON CONFLICT (org_id, snapshot_name) DO NOTHING
    RETURNING snapshot_name
)
INSERT INTO snapshot_parts (org_id, snapshot_name, part, dataset_uuid, dataset_version, number,
                            swap)
SELECT %(org_id)s, m.snapshot_name, x.part, x.dataset_uuid, c.dataset_version, k.readable, c.swap
  FROM made m
 CROSS JOIN publication_parts x
  JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
  JOIN version_counters k ON k.dataset_version = c.dataset_version
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s
RETURNING part, dataset_uuid, dataset_version, number, swap

-- name: marked
-- Whether a snapshot names a version that goes. The rows that it refers to are locked by now: whoever
-- marks them waits, and then finds the snapshot.
SELECT v.dataset_version
  FROM snapshot_parts p
  JOIN dataset_versions v ON v.dataset_version = p.dataset_version
 WHERE p.org_id = %(org_id)s AND p.snapshot_name = %(snapshot)s AND v.purge_marked_at IS NOT NULL

-- name: lock_snapshot
-- A snapshot of a dataset, and who made it.
SELECT created_by FROM snapshots
 WHERE org_id = %(org_id)s AND snapshot_name = %(snapshot)s AND dataset_name = %(dataset)s
   FOR UPDATE

-- name: remove
-- The name is free again, and what it pinned may be purged.
DELETE FROM snapshots
 WHERE org_id = %(org_id)s AND snapshot_name = %(snapshot)s AND dataset_name = %(dataset)s
