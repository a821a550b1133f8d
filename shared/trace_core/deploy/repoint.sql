-- Views of the data database that follow the pointers: who asks for it, and what they should show.

-- name: ask_repoint
-- With a switch: one row for each DAG that publishes anything in Postgres, or did. A row that waits
-- or has failed begins anew under another id, so that a relay which read the pointers before this
-- commit finishes nothing.
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at, sweep_key)
SELECT %(outbox_id)s, %(org_id)s, 'repoint', %(dag_id)s::uuid::text, '{}', %(now)s, %(now)s,
       'repoint:' || %(dag_id)s::uuid::text
 WHERE EXISTS (SELECT FROM publications p WHERE p.dag_id = %(dag_id)s)
   AND EXISTS (SELECT FROM datasets s
                 JOIN dataset_versions v ON v.dataset_uuid = s.dataset_uuid
                WHERE s.dag_id = %(dag_id)s AND v.backend = 'postgres')
    ON CONFLICT (org_id, sweep_key) WHERE sweep_key IS NOT NULL
    DO UPDATE SET outbox_id = excluded.outbox_id, status = 'Pending', attempts = 0,
                  created_at = excluded.created_at, available_at = excluded.available_at,
                  last_error = NULL

-- name: sweep_repoints
-- DAGs whose views are not what they should be: one row each, reset when an earlier one failed, and
-- none while one is still on its way.
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at, sweep_key)
SELECT d.outbox_id, d.org_id, 'repoint', d.dag_id::text, '{}', %(now)s, %(now)s,
       'repoint:' || d.dag_id::text
  FROM unnest(%(outbox_ids)b::uuid[], %(org_ids)b::uuid[], %(dag_ids)b::uuid[])
       AS d (outbox_id, org_id, dag_id)
    ON CONFLICT (org_id, sweep_key) WHERE sweep_key IS NOT NULL
    DO UPDATE SET outbox_id = excluded.outbox_id, status = 'Pending', attempts = 0,
                  created_at = excluded.created_at, available_at = excluded.available_at
     WHERE outbox.status = 'Failed'
RETURNING target

-- name: published_tables
-- Names whose parts are all in Postgres, of one DAG or of all: the current version of each part, and
-- its readable pin, in one statement.
SELECT p.org_id, p.dag_id, p.dataset_name,
       array_agg(c.dataset_version ORDER BY q.part) AS versions,
       array_agg(k.readable ORDER BY q.part) AS numbers
  FROM publications p
  JOIN publication_parts q ON q.org_id = p.org_id AND q.dataset_name = p.dataset_name
  JOIN dataset_current c ON c.dataset_uuid = q.dataset_uuid
  JOIN dataset_versions v ON v.dataset_version = c.dataset_version
  JOIN version_counters k ON k.dataset_version = c.dataset_version
 WHERE p.hidden_at IS NULL AND (%(dag_id)s::uuid IS NULL OR p.dag_id = %(dag_id)s)
 GROUP BY p.org_id, p.dag_id, p.dataset_name
HAVING bool_and(v.backend = 'postgres')
 ORDER BY p.org_id, p.dataset_name

-- name: has_tables
-- Whether anything was ever kept in Postgres.
SELECT EXISTS (SELECT FROM dataset_versions WHERE backend = 'postgres') AS has_tables
