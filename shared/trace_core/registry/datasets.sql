-- fragment: newest
-- When a version `v` was announced last.
(SELECT e.accepted_at AS announced_at
   FROM events e
  WHERE e.dataset_version = v.dataset_version
  ORDER BY e.number DESC
  LIMIT 1) n

-- fragment: made_by
-- The first version of its DAG that has the job of a version `v`.
(SELECT min(g.number) AS dag_version
   FROM dag_version_jobs a
   JOIN dag_versions g ON g.dag_version_id = a.dag_version_id
  WHERE a.job_id = v.job_id) g

-- fragment: described
SELECT p.dataset_name AS name, p.description, d.name AS dag, coalesce(u.name, u.subject) AS owner,
       p.read_roles, p.freshness, p.created_at, p.hidden_at

-- fragment: published
  FROM publications p
  JOIN dags d ON d.dag_id = p.dag_id
  LEFT JOIN users u ON u.user_id = coalesce(p.owner, d.created_by)
 CROSS JOIN
-- include: caller

-- name: list
-- Published datasets that the caller may read, by name, a page at a time.
-- include: described
       , w.parts, w.backends, w.announced_at
-- include: published
 CROSS JOIN LATERAL (
       SELECT count(*) AS parts, array_agg(DISTINCT v.backend ORDER BY v.backend) AS backends,
              max(n.announced_at) AS announced_at
         FROM publication_parts x
         JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
         JOIN dataset_versions v ON v.dataset_version = c.dataset_version
         LEFT JOIN LATERAL
-- include: newest
           ON true
        WHERE x.org_id = p.org_id AND x.dataset_name = p.dataset_name) w
 WHERE p.org_id = %(org_id)s AND p.dataset_name > %(after)s
   AND (%(dag)s::text IS NULL OR d.name = %(dag)s::text)
   AND (%(contains)s::text IS NULL OR position(%(contains)s::text IN p.dataset_name) > 0)
   AND (NOT %(mine)s::boolean OR coalesce(p.owner, d.created_by) = r.user_id)
   AND (p.hidden_at IS NOT NULL) = %(hidden)s::boolean AND
-- include: visible
 ORDER BY p.dataset_name
 LIMIT %(limit)s

-- name: show
-- One published dataset that the caller may read.
-- include: described
       , p.pii, p.storage, p.write_mode
-- include: published
 WHERE p.org_id = %(org_id)s AND p.dataset_name = %(dataset)s AND
-- include: visible

-- name: parts
-- The outputs behind a published name, each with its current version.
SELECT x.part, s.job_name AS job, s.output_index, s.dataset_uuid, c.dataset_version, c.swap,
       v.backend, v.update_strategy, v.unique_key, v.columns, k.readable AS number,
       w.moved_at AS current_since, n.announced_at, g.dag_version, t.commits, t.row_count, t.bytes
  FROM publication_parts x
  JOIN datasets s ON s.dataset_uuid = x.dataset_uuid
  JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
  JOIN dataset_versions v ON v.dataset_version = c.dataset_version
  JOIN version_counters k ON k.dataset_version = v.dataset_version
  LEFT JOIN pointer_moves w ON w.dataset_uuid = c.dataset_uuid AND w.swap = c.swap
  LEFT JOIN LATERAL
-- include: newest
    ON true
 CROSS JOIN LATERAL
-- include: made_by
 CROSS JOIN LATERAL
-- include: stored
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s
 ORDER BY x.part

-- fragment: published_as
-- Under which name an output `s` of the DAG `d` is published.
(SELECT n.dataset_name, n.read_roles
   FROM publication_parts y
   JOIN publications n ON n.org_id = y.org_id AND n.dataset_name = y.dataset_name
  WHERE y.dataset_uuid = s.dataset_uuid AND n.hidden_at IS NULL
  LIMIT 1) p

-- name: upstream
-- What the jobs behind a published name read: of its own DAG all, of other DAGs what the caller may
-- read.
SELECT DISTINCT d.name AS dag, s.job_name AS job, s.output_index,
       CASE WHEN
-- include: may_read
            THEN p.dataset_name END AS dataset
  FROM publication_parts x
  JOIN datasets o ON o.dataset_uuid = x.dataset_uuid
  JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
  JOIN dataset_versions v ON v.dataset_version = c.dataset_version
  JOIN edges e ON e.job_id = v.job_id
  JOIN datasets s ON s.dataset_uuid = e.dataset_uuid
  JOIN dags d ON d.dag_id = s.dag_id
  LEFT JOIN LATERAL
-- include: published_as
    ON true
 CROSS JOIN
-- include: caller
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s AND (s.dag_id = o.dag_id OR
-- include: may_read
       )
 ORDER BY 1, 2, 3
 LIMIT %(limit)s

-- name: downstream
-- Which jobs read a published name, and what comes of it: with the same limits.
SELECT DISTINCT d.name AS dag, j.name AS job, s.output_index,
       CASE WHEN
-- include: may_read
            THEN p.dataset_name END AS dataset
  FROM publication_parts x
  JOIN datasets o ON o.dataset_uuid = x.dataset_uuid
  JOIN edges e ON e.dataset_uuid = x.dataset_uuid
  JOIN jobs j ON j.job_id = e.job_id AND j.standing IN ('active', 'held')
  JOIN dags d ON d.dag_id = j.dag_id
  LEFT JOIN datasets s ON s.dag_id = j.dag_id AND s.job_name = j.name
  LEFT JOIN LATERAL
-- include: published_as
    ON true
 CROSS JOIN
-- include: caller
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s AND (j.dag_id = o.dag_id OR
-- include: may_read
       )
 ORDER BY 1, 2, 3
 LIMIT %(limit)s

-- name: versions
-- The versions of all parts of a published name, the newest first, a page at a time.
SELECT x.part, s.job_name AS job, s.output_index, s.dataset_uuid, v.dataset_version, v.backend,
       v.created_at, w.moved_at AS current_since, g.dag_version, k.readable AS number, t.commits,
       t.row_count, t.bytes, t.superseded_bytes,
-- include: standing
  FROM publication_parts x
  JOIN datasets s ON s.dataset_uuid = x.dataset_uuid
  JOIN dataset_versions v ON v.dataset_uuid = x.dataset_uuid
  JOIN version_counters k ON k.dataset_version = v.dataset_version
  LEFT JOIN LATERAL (
       SELECT max(m.moved_at) AS moved_at FROM pointer_moves m
        WHERE m.dataset_uuid = v.dataset_uuid AND m.dataset_version = v.dataset_version) w ON true
 CROSS JOIN LATERAL
-- include: made_by
 CROSS JOIN LATERAL
-- include: stored
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s AND v.dataset_version < %(before)s
 ORDER BY v.dataset_version DESC
 LIMIT %(limit)s

-- name: current_parts
-- Which versions a published name stands for now.
SELECT x.part, c.dataset_version, v.backend
  FROM publication_parts x
  JOIN dataset_current c ON c.dataset_uuid = x.dataset_uuid
  JOIN dataset_versions v ON v.dataset_version = c.dataset_version
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s
   AND (%(part)s::integer IS NULL OR x.part = %(part)s::integer)
 ORDER BY x.part

-- name: live_commits
-- What readers see of a version: its live commits, the newest first.
SELECT m.scope, m.range_start, m.range_end, m.number, m.row_count, m.bytes, m.task_id,
       m.registered_at AS at
  FROM commits m
 WHERE m.dataset_version = %(dataset_version)s AND m.replaced_at IS NULL
   AND m.number < %(before)s AND (%(scope)s::text IS NULL OR m.scope = ANY (%(scopes)s::text[]))
 ORDER BY m.number DESC
 LIMIT %(limit)s

-- name: announcements
-- What was announced of a version that has no rows, the newest first.
SELECT e.scope, e.range_start, e.range_end, e.number, NULL::bigint AS row_count,
       NULL::bigint AS bytes, e.producer_task_id AS task_id, e.accepted_at AS at
  FROM events e
 WHERE e.dataset_version = %(dataset_version)s AND e.number < %(before)s
   AND (%(scope)s::text IS NULL OR e.scope = ANY (%(scopes)s::text[]))
 ORDER BY e.number DESC
 LIMIT %(limit)s

-- name: storage
-- Every version of the outputs that the caller may read, published or not, a page at a time. An
-- output without a name is for whoever may deploy its DAG.
SELECT p.dataset_name AS dataset, d.name AS dag, s.job_name AS job, s.output_index, s.dataset_uuid,
       v.dataset_version, v.backend, v.created_at, g.dag_version, t.commits, t.row_count, t.bytes,
       t.superseded_bytes, t.objects,
       EXISTS (SELECT FROM snapshot_parts f
                WHERE f.dataset_version = v.dataset_version) AS in_snapshot,
-- include: standing
  FROM dataset_versions v
  JOIN datasets s ON s.dataset_uuid = v.dataset_uuid
  JOIN dags d ON d.dag_id = s.dag_id
  LEFT JOIN LATERAL
-- include: published_as
    ON true
 CROSS JOIN
-- include: caller
 CROSS JOIN LATERAL
-- include: made_by
 CROSS JOIN LATERAL
-- include: stored
 WHERE v.org_id = %(org_id)s AND v.dataset_version > %(after)s
   AND (%(dag)s::text IS NULL OR d.name = %(dag)s::text) AND
-- include: may_read
 ORDER BY v.dataset_version
 LIMIT %(limit)s
