-- name: current_pins
-- What a published name stands for now: all its parts as of this statement.
SELECT x.part, c.dataset_uuid, c.dataset_version, k.readable AS number, c.swap
  FROM publication_parts x
  JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
  JOIN version_counters k ON k.dataset_version = c.dataset_version
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s
 ORDER BY x.part

-- name: pin_of_version
-- A part of a published name at a commit of a version that is, or was, current.
SELECT x.part, v.dataset_uuid, v.dataset_version, k.readable, coalesce(c.swap, m.swap) AS swap
  FROM publication_parts x
  JOIN dataset_versions v ON v.dataset_uuid = x.dataset_uuid
  JOIN version_counters k ON k.dataset_version = v.dataset_version
  LEFT JOIN dataset_current c
    ON c.dataset_uuid = v.dataset_uuid AND c.dataset_version = v.dataset_version
 CROSS JOIN LATERAL (
       SELECT max(w.swap) AS swap FROM pointer_moves w
        WHERE w.dataset_uuid = v.dataset_uuid AND w.dataset_version = v.dataset_version) m
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s
   AND v.dataset_version = %(dataset_version)s AND coalesce(c.swap, m.swap) IS NOT NULL

-- name: layouts
-- How the rows of versions are kept; one that is marked takes no new reader.
SELECT v.dataset_version, v.backend, v.update_strategy, v.unique_key, v.columns,
       v.purge_marked_at IS NOT NULL AS is_marked
  FROM dataset_versions v
 WHERE v.dataset_version = ANY (%(versions)s::uuid[])

-- fragment: entry
-- A commit `m` as a reader of a pin needs it, but for its objects.
SELECT m.number, m.replaced_at, m.scope, m.range_start, m.range_end, m.cursor_column,
       (SELECT jsonb_agg(jsonb_build_array(k.cut_at, k.range_start, k.range_end)
                         ORDER BY k.cut_at, k.range_start)
          FROM commit_cuts k
         WHERE m.is_cut AND k.dataset_version = m.dataset_version AND k.number = m.number
           AND k.cut_at <= %(number)s) AS cuts

-- name: first_entries
-- The first commits with rows that are valid at a pin, with their objects.
-- include: entry
       , m.objects
  FROM commits m
 WHERE m.dataset_version = %(dataset_version)s AND m.number <= %(number)s
   AND (m.replaced_at IS NULL OR m.replaced_at > %(number)s) AND m.row_count > 0
 ORDER BY m.number
 LIMIT %(limit)s

-- name: ranges
-- What the later commits at a pin cover, without their objects.
-- include: entry
       , NULL AS objects
  FROM commits m
 WHERE m.dataset_version = %(dataset_version)s AND m.number <= %(number)s
   AND (m.replaced_at IS NULL OR m.replaced_at > %(number)s) AND m.range_start IS NOT NULL
 ORDER BY m.number

-- name: commits_to_verify
-- Live commits of a version with all that was recorded of their objects, a page at a time.
SELECT m.number, m.scope, m.range_start, m.range_end, m.task_id, m.attempt, m.lease_sequence,
       m.output_index, m.manifest_key, m.manifest_sha256, m.objects
  FROM commits m
 WHERE m.dataset_version = %(dataset_version)s AND m.replaced_at IS NULL
   AND m.number > %(after)s AND m.number <= %(number)s
   AND (%(scope)s::text IS NULL OR m.scope = ANY (%(scopes)s::text[]))
 ORDER BY m.number
 LIMIT %(limit)s

-- name: count_to_verify
-- How many there are in all.
SELECT count(*) AS commits
  FROM commits m
 WHERE m.dataset_version = ANY (%(versions)s::uuid[]) AND m.replaced_at IS NULL
   AND (%(scope)s::text IS NULL OR m.scope = ANY (%(scopes)s::text[]))
