-- name: others
-- What else lies under the published name of current versions: other parts, the later the colder.
SELECT v.dataset_version, v.dataset_uuid, p.part, x.part AS other_part,
       c.dataset_uuid AS other_dataset, c.dataset_version AS other, w.backend, w.update_strategy,
       w.columns
  FROM dataset_versions v
  JOIN dataset_current o
    ON o.dataset_uuid = v.dataset_uuid AND o.dataset_version = v.dataset_version
  JOIN publication_parts p ON p.dataset_uuid = v.dataset_uuid
  JOIN publication_parts x
    ON x.org_id = p.org_id AND x.dataset_name = p.dataset_name AND x.part <> p.part
  JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
  JOIN dataset_versions w ON w.dataset_version = c.dataset_version
 WHERE v.dataset_version = ANY (%(versions)b::uuid[])
 ORDER BY v.dataset_version, x.part

-- name: changed_after
-- Whether a scope has changed, for those who read it, since a pin of a version was taken.
SELECT m.number
  FROM commits m
  JOIN version_counters k ON k.dataset_version = m.dataset_version
 WHERE m.dataset_version = %(dataset_version)s AND m.number > %(number)s
   AND m.number <= k.readable
   AND (m.scope IN (%(scope)s, '') OR %(scope)s = ''
        OR (m.range_start <= %(range_end)s AND m.range_end >= %(range_start)s))
 LIMIT 1

-- name: straddling
-- A live commit whose rows have no cursors, with some of them in a range and some outside.
SELECT m.number, m.scope
  FROM commits m
 WHERE m.dataset_version = %(dataset_version)s AND m.replaced_at IS NULL
   AND m.cursor_column IS NULL AND m.row_count > 0
   AND (m.scope = ''
        OR (m.range_start <= %(range_end)s AND m.range_end >= %(range_start)s
            AND (m.range_start < %(range_start)s OR m.range_end > %(range_end)s)))
 ORDER BY m.number
 LIMIT 1

-- fragment: hot_and_cold
-- Current versions of two parts of what a DAG publishes: one, and a colder one that commits can be
-- taken from.
  FROM publications n
  JOIN publication_parts p ON p.org_id = n.org_id AND p.dataset_name = n.dataset_name
  JOIN publication_parts q
    ON q.org_id = n.org_id AND q.dataset_name = n.dataset_name AND q.part > p.part
  JOIN dataset_current hot ON hot.dataset_uuid = p.dataset_uuid
  JOIN version_counters k ON k.dataset_version = hot.dataset_version
  JOIN dataset_current cold ON cold.dataset_uuid = q.dataset_uuid
  JOIN dataset_versions v
    ON v.dataset_version = cold.dataset_version AND v.backend = 's3'
   AND v.update_strategy = 'replace'

-- name: rewritten_since
-- Rewrites in hotter parts of what a DAG publishes that live commits of colder parts do not know:
-- they are made from an earlier pin of that part or, if from none, are older.
SELECT hot.dataset_version AS hot, m.range_start, m.range_end,
       cold.dataset_version AS cold, e.number
-- include: hot_and_cold
  JOIN commits m
    ON m.dataset_version = hot.dataset_version AND m.replaces > 0 AND m.number <= k.readable
   AND m.range_start IS NOT NULL
  JOIN commits e
    ON e.dataset_version = cold.dataset_version AND e.replaced_at IS NULL
   AND e.range_end >= m.range_start AND e.range_start <= m.range_end
  LEFT JOIN LATERAL (
       SELECT i.dataset_version, i.number
         FROM jsonb_to_recordset(e.input_pins)
              AS i (dataset_uuid uuid, dataset_version uuid, number bigint)
        WHERE i.dataset_uuid = hot.dataset_uuid
        LIMIT 1) i ON true
 WHERE n.dag_id = %(dag_id)s
   AND CASE WHEN i.dataset_version IS NULL THEN m.registered_at > e.registered_at
            ELSE i.dataset_version = hot.dataset_version AND i.number < m.number END

-- name: rewritten_whole_since
-- Rewrites of all of a hotter part, as ranges of every cursor, and the live commits of colder parts
-- that hold what was moved before.
SELECT hot.dataset_version AS hot, (-9223372036854775807 - 1)::bigint AS range_start,
       9223372036854775807::bigint AS range_end, cold.dataset_version AS cold, e.number
-- include: hot_and_cold
 CROSS JOIN LATERAL (
       SELECT max(c.number) AS number FROM commits c
        WHERE c.dataset_version = hot.dataset_version AND c.scope = '' AND c.number <= k.readable) m
  JOIN commits e
    ON e.dataset_version = cold.dataset_version AND e.replaced_at IS NULL
   AND e.range_start IS NOT NULL
 WHERE n.dag_id = %(dag_id)s
   AND EXISTS (SELECT FROM jsonb_to_recordset(e.input_pins)
                           AS i (dataset_version uuid, number bigint)
                WHERE i.dataset_version = hot.dataset_version AND i.number < m.number)

-- fragment: commit
-- A commit with what is left of it.
SELECT c.number, c.scope, c.range_start, c.range_end, c.input_pins, c.replaced_at,
       c.cursor_column,
       (SELECT jsonb_agg(jsonb_build_array(k.cut_at, k.range_start, k.range_end)
                         ORDER BY k.cut_at, k.range_start)
          FROM commit_cuts k
         WHERE c.is_cut AND k.dataset_version = c.dataset_version AND k.number = c.number) AS cuts
  FROM commits c

-- name: held
-- Live commits that hold something of a range, however they lie to each other.
-- include: commit
 WHERE c.dataset_version = %(dataset_version)s AND c.replaced_at IS NULL
   AND (c.scope = ''
        OR (c.range_end >= %(range_start)s AND c.range_start <= %(range_end)s))

-- name: commits
-- Commits by their numbers.
-- include: commit
 WHERE c.dataset_version = %(dataset_version)s AND c.number = ANY (%(numbers)s::bigint[])
 ORDER BY c.number
