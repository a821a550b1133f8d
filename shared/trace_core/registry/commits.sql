-- name: lock_counters
-- Whoever commits to these versions takes turns, in the order of ids, until its transaction ends.
SELECT c.dataset_version
  FROM version_counters c
 WHERE c.dataset_version = ANY (%(versions)b::uuid[])
 ORDER BY c.dataset_version
   FOR UPDATE

-- name: versions
-- Dataset versions with their counters. Read after the lock, in a statement of its own: what the
-- last holder wrote is seen then.
SELECT v.dataset_version, v.dataset_uuid, v.org_id, v.backend, v.update_strategy, v.unique_key,
       v.columns, c.last_number, c.readable
  FROM dataset_versions v
  JOIN version_counters c ON c.dataset_version = v.dataset_version
 WHERE v.dataset_version = ANY (%(versions)b::uuid[])

-- name: pins_of_lease
-- What a lease of a task read.
SELECT DISTINCT v.dataset_uuid, i.dataset_version, coalesce(i.commit_number, 0) AS number,
       coalesce(i.swap, 0) AS swap
  FROM task_inputs i
  JOIN dataset_versions v ON v.dataset_version = i.dataset_version
 WHERE i.task_id = %(task_id)s AND i.attempt = %(attempt)s
   AND i.lease_sequence = %(lease_sequence)s
 ORDER BY v.dataset_uuid

-- fragment: cuts_of
-- What later commits took of a commit `c`.
(SELECT jsonb_agg(jsonb_build_array(k.cut_at, k.range_start, k.range_end)
                  ORDER BY k.cut_at, k.range_start)
   FROM commit_cuts k
  WHERE c.is_cut AND k.dataset_version = c.dataset_version AND k.number = c.number) AS cuts

-- fragment: meeting
-- Live commits that meet a wanted scope. Live ranges of a version do not overlap, but for those that
-- were cut, so that of the others which end after the wanted one only the first can meet it.
SELECT c.number FROM commits c
 WHERE c.dataset_version = w.dataset_version AND c.replaced_at IS NULL AND c.scope IN (w.scope, '')
 UNION
SELECT c.number FROM commits c
 WHERE c.dataset_version = w.dataset_version AND c.replaced_at IS NULL
   AND NOT c.is_cut AND c.range_end >= w.range_start AND c.range_end <= w.range_end
 UNION
SELECT c.number FROM commits c
 WHERE c.dataset_version = w.dataset_version AND c.replaced_at IS NULL
   AND c.is_cut AND c.range_end >= w.range_start AND c.range_start <= w.range_end
 UNION
SELECT n.number
  FROM (SELECT c.number, c.range_start FROM commits c
         WHERE c.dataset_version = w.dataset_version AND c.replaced_at IS NULL
           AND NOT c.is_cut AND c.range_end > w.range_end
         ORDER BY c.range_end
         LIMIT 1) n
 WHERE n.range_start <= w.range_end
 UNION
SELECT c.number FROM commits c
 WHERE w.scope = '' AND c.dataset_version = w.dataset_version AND c.replaced_at IS NULL

-- name: live_commits
-- Of each wanted scope the live commits that it meets, and what those were made from.
SELECT w.place, c.number, c.scope, c.range_start, c.range_end, c.input_pins, c.replaced_at,
       c.cursor_column,
-- include: cuts_of
  FROM unnest(%(places)s::integer[], %(versions)b::uuid[], %(scopes)s::text[],
              %(starts)s::bigint[], %(ends)s::bigint[])
       AS w (place, dataset_version, scope, range_start, range_end)
 CROSS JOIN LATERAL (
-- include: meeting
       ) m
 CROSS JOIN LATERAL (
       -- One by one, by their key: joined as a whole, all commits of the version would be read.
       SELECT * FROM commits c
        WHERE c.dataset_version = w.dataset_version AND c.number = m.number
        LIMIT 1) c

-- name: commits_around
-- What a commit with a number of the data database has to do with: the live ones that it meets,
-- those that were closed by a later one, and the later ones. Few were registered before their turn.
SELECT c.number, c.scope, c.range_start, c.range_end, c.input_pins, c.replaced_at,
       c.cursor_column, NULL AS cuts
  FROM (SELECT %(dataset_version)s::uuid AS dataset_version, %(scope)s::text AS scope,
               %(range_start)s::bigint AS range_start, %(range_end)s::bigint AS range_end) w
 CROSS JOIN LATERAL (
-- include: meeting
        UNION
       SELECT c.number FROM commits c
        WHERE c.dataset_version = w.dataset_version AND c.replaced_at > %(number)s
        UNION
       SELECT c.number FROM commits c
        WHERE c.dataset_version = w.dataset_version AND c.number > %(number)s) m
 CROSS JOIN LATERAL (
       -- One by one, by their key: joined as a whole, all commits of the version would be read.
       SELECT * FROM commits c
        WHERE c.dataset_version = w.dataset_version AND c.number = m.number
        LIMIT 1) c

-- name: commits_of_lease
-- What a lease has committed with manifests already.
SELECT c.dataset_version, c.number, c.scope, c.manifest_key, c.manifest_sha256
  FROM commits c
 WHERE c.task_id = %(task_id)s AND c.attempt = %(attempt)s
   AND c.lease_sequence = %(lease_sequence)s AND c.manifest_key IS NOT NULL

-- name: commit_by_number
-- A registered commit.
SELECT c.task_id, c.attempt, c.lease_sequence, c.output_index, c.scope
  FROM commits c
 WHERE c.dataset_version = %(dataset_version)s AND c.number = %(number)s

-- name: add_commits
-- Register what was written; the counter of the version is locked.
INSERT INTO commits (dataset_version, number, scope, range_start, range_end, replaced_at, replaces,
                     task_id, attempt, lease_sequence, output_index, input_pins, manifest_key,
                     manifest_sha256, objects, bytes, row_count, cursor_column, registered_at)
SELECT %(dataset_version)s, c.number, c.scope, c.range_start, c.range_end, c.replaced_at,
       c.replaces, c.task_id, c.attempt, c.lease_sequence, c.output_index, c.input_pins::jsonb,
       c.manifest_key, c.manifest_sha256, c.objects::jsonb, c.bytes, c.row_count,
       c.cursor_column, %(now)s
  FROM unnest(%(numbers)s::bigint[], %(scopes)s::text[], %(starts)s::bigint[], %(ends)s::bigint[],
              %(replaced_ats)s::bigint[], %(replaces)s::bigint[], %(task_ids)b::uuid[],
              %(attempts)s::integer[], %(lease_sequences)s::integer[],
              %(output_indexes)s::integer[], %(input_pins)s::text[], %(manifest_keys)s::text[],
              %(manifest_sha256s)s::text[], %(objects)s::text[], %(bytes)s::bigint[],
              %(row_counts)s::bigint[], %(cursor_columns)s::text[])
       AS c (number, scope, range_start, range_end, replaced_at, replaces, task_id, attempt,
             lease_sequence, output_index, input_pins, manifest_key, manifest_sha256, objects,
             bytes, row_count, cursor_column)

-- name: close_commits
-- Earlier commits are valid up to the one that took their place.
UPDATE commits c
   SET replaced_at = r.at
  FROM unnest(%(numbers)s::bigint[], %(ats)s::bigint[]) AS r (number, at)
 WHERE c.dataset_version = %(dataset_version)s AND c.number = r.number
   AND (c.replaced_at IS NULL OR c.replaced_at > r.at)

-- name: cut_commits
-- Earlier commits go on without the range of a later one.
WITH cut AS (
    INSERT INTO commit_cuts (dataset_version, number, cut_at, range_start, range_end)
    SELECT %(dataset_version)s, k.number, k.at, k.range_start, k.range_end
      FROM unnest(%(numbers)s::bigint[], %(ats)s::bigint[], %(starts)s::bigint[],
                  %(ends)s::bigint[]) AS k (number, at, range_start, range_end)
        ON CONFLICT DO NOTHING
    RETURNING number
)
UPDATE commits c
   SET is_cut = true
 WHERE c.dataset_version = %(dataset_version)s AND c.number IN (SELECT number FROM cut)
   AND NOT c.is_cut

-- name: set_columns
-- The columns of a version, as its commits have them.
UPDATE dataset_versions
   SET columns = %(columns)s
 WHERE dataset_version = %(dataset_version)s

-- name: unread_numbers
-- Commits that no pin reaches yet, because one before them is missing.
SELECT c.number FROM commits c
 WHERE c.dataset_version = %(dataset_version)s AND c.number > %(readable)s
 ORDER BY c.number

-- name: advance
-- New pins get what is readable now; the counter is locked.
UPDATE version_counters
   SET last_number = %(last_number)s, readable = %(readable)s,
       max_end = greatest(max_end, %(max_end)s)
 WHERE dataset_version = %(dataset_version)s

-- name: became_readable
-- Commits between two readable pins, in order, each with what it took the place of.
SELECT c.number, c.scope, c.range_start, c.range_end, c.task_id, c.attempt, c.replaces,
       ARRAY(SELECT r.number FROM commits r
              WHERE r.dataset_version = c.dataset_version AND r.replaced_at = c.number
              UNION
             SELECT k.number FROM commit_cuts k
              WHERE k.dataset_version = c.dataset_version AND k.cut_at = c.number
              ORDER BY 1) AS replaced
  FROM commits c
 WHERE c.dataset_version = %(dataset_version)s AND c.number > %(after)s AND c.number <= %(up_to)s
 ORDER BY c.number

-- name: committed_scopes
-- Which of these scopes a task has committed.
SELECT DISTINCT w.dataset_version, w.scope
  FROM unnest(%(versions)b::uuid[], %(scopes)s::text[]) AS w (dataset_version, scope)
  JOIN commits c
    ON c.dataset_version = w.dataset_version AND c.scope = w.scope AND c.task_id = %(task_id)s
