-- fragment: resolved_part
-- What a pin names, with the commits of the S3 layout in `found`, a page of them at most.
SELECT w.place, v.dataset_uuid, v.dataset_version, w.number, w.swap, v.backend, v.update_strategy,
       v.unique_key, v.columns, e.entries
  FROM unnest(%(versions)b::uuid[], %(numbers)s::bigint[], %(swaps)s::bigint[]) WITH ORDINALITY
       AS w (dataset_version, number, swap, place)
  JOIN dataset_versions v ON v.dataset_version = w.dataset_version
  LEFT JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object(
                  'number', c.number, 'replaced_at', c.replaced_at, 'scope', c.scope,
                  'start', c.range_start, 'end', c.range_end, 'objects', c.objects,
                  'cursor_column', c.cursor_column, 'cuts', c.cuts)
                  ORDER BY c.number) AS entries
         FROM (SELECT c.*,
                      (SELECT jsonb_agg(jsonb_build_array(k.cut_at, k.range_start, k.range_end)
                                        ORDER BY k.cut_at, k.range_start)
                         FROM commit_cuts k
                        WHERE c.is_cut AND k.dataset_version = c.dataset_version
                          AND k.number = c.number AND k.cut_at <= w.number) AS cuts
                 FROM commits c

-- fragment: valid_at_pin
                  AND c.number > %(after)s AND c.number <= w.number
                  AND (c.replaced_at IS NULL OR c.replaced_at > w.number)
                ORDER BY c.number
                LIMIT %(limit)s) c) e ON v.backend = 's3'
 ORDER BY w.place

-- name: resolve
-- Parts at their pins, whole.
-- include: resolved_part
                WHERE c.dataset_version = w.dataset_version
-- include: valid_at_pin

-- name: resolve_scope
-- Parts at their pins, with the commits that meet a scope. Those that are live now are found by their
-- scope or range, of which uncut ones do not overlap; those that were closed after the pin by when.
-- Of appended rows it takes all commits to say which row of a key came first.
-- include: resolved_part
                WHERE c.dataset_version = w.dataset_version
                  AND c.number IN (
                      SELECT f.number FROM commits f
                       WHERE f.dataset_version = w.dataset_version AND f.replaced_at IS NULL
                         AND f.scope IN (%(scope)s, '')
                       UNION ALL
                      SELECT f.number FROM commits f
                       WHERE f.dataset_version = w.dataset_version AND f.replaced_at IS NULL
                         AND NOT f.is_cut AND f.range_end >= %(range_start)s
                         AND f.range_end <= %(range_end)s
                       UNION ALL
                      SELECT f.number FROM commits f
                       WHERE f.dataset_version = w.dataset_version AND f.replaced_at IS NULL
                         AND f.is_cut AND f.range_end >= %(range_start)s
                         AND f.range_start <= %(range_end)s
                       UNION ALL
                      (SELECT f.number FROM commits f
                        WHERE f.dataset_version = w.dataset_version AND f.replaced_at IS NULL
                          AND NOT f.is_cut AND f.range_end > %(range_end)s
                        ORDER BY f.range_end
                        LIMIT 1)
                       UNION ALL
                      SELECT f.number FROM commits f
                       WHERE f.dataset_version = w.dataset_version AND f.replaced_at > w.number
                       UNION ALL
                      SELECT f.number FROM commits f
                       WHERE f.dataset_version = w.dataset_version
                         AND v.update_strategy = 'append' AND f.number <= w.number)
                  AND (v.update_strategy = 'append' OR c.scope IN (%(scope)s, '')
                       OR (c.range_start <= %(range_end)s AND c.range_end >= %(range_start)s))
-- include: valid_at_pin

-- name: current_pins
-- Published datasets as they are now, part by part, all as of this statement.
SELECT p.dataset_name, q.dataset_uuid, c.dataset_version, k.readable AS number, c.swap
  FROM unnest(%(names)s::text[]) AS n (dataset_name)
  JOIN publications p
    ON p.org_id = %(org_id)s AND p.dataset_name = n.dataset_name AND p.hidden_at IS NULL
  JOIN publication_parts q ON q.org_id = p.org_id AND q.dataset_name = p.dataset_name
  JOIN dataset_current c ON c.dataset_uuid = q.dataset_uuid
  JOIN version_counters k ON k.dataset_version = c.dataset_version
 ORDER BY p.dataset_name, q.part
