-- name: limit_waits
-- Nobody waits longer than this for a lock, in this transaction.
SELECT set_config('lock_timeout', %(milliseconds)s, true);

-- name: lock_views
-- One at a time moves views; whoever waited reads what is current after the one before.
SELECT pg_advisory_xact_lock(7274365);

-- name: views
-- What each name became.
SELECT org_id, dataset_name, view_name, dag_id, versions, columns FROM trace.published_views;

-- name: tables
-- Which of these versions have a table, and what is in it.
SELECT dataset_version, dataset_uuid, columns FROM trace.versions
 WHERE dataset_version = ANY(%(versions)s);

-- name: rows_of_part
-- Rows of one version at its copied pin, without what the platform keeps beside them.
SELECT {columns}
  FROM {schema}.{table} r
 WHERE r._from <= (SELECT p.number FROM trace.published_pins p WHERE p.dataset_version = {version})
   AND (r._to IS NULL
        OR r._to > (SELECT p.number FROM trace.published_pins p
                     WHERE p.dataset_version = {version}))

-- name: rows_of_parts
-- Two parts of a dataset, one below the other.
{earlier} UNION ALL {later}

-- name: make_view
-- The view of a name; one with the same columns is replaced, and keeps what others built on it.
CREATE OR REPLACE VIEW published.{view} AS {rows};

-- name: grant_view
-- For people, and for tools that make reports.
GRANT SELECT ON published.{view} TO trace_data_reader;

-- name: drop_view
-- Of a name that is hidden, or gets other columns.
DROP VIEW IF EXISTS published.{view};

-- name: put_record
-- What the view of a name shows now.
INSERT INTO trace.published_views (org_id, dataset_name, view_name, dag_id, versions, columns)
VALUES (%(org_id)s, %(dataset_name)s, %(view_name)s, %(dag_id)s, %(versions)s, %(columns)s)
    ON CONFLICT (org_id, dataset_name) DO UPDATE
       SET view_name = excluded.view_name, dag_id = excluded.dag_id, versions = excluded.versions,
           columns = excluded.columns;

-- name: drop_record
-- The name has no view any more.
DELETE FROM trace.published_views
 WHERE org_id = %(org_id)s AND dataset_name = %(dataset_name)s;

-- name: put_pins
-- Copy readable pins, never backwards; in the order of ids, so that two of these do not block each
-- other.
INSERT INTO trace.published_pins AS p (dataset_version, number)
SELECT v.dataset_version, w.number
  FROM unnest(%(versions)s, %(numbers)s) AS w (dataset_version, number)
  JOIN trace.versions v ON v.dataset_version = w.dataset_version
 ORDER BY v.dataset_version
    ON CONFLICT (dataset_version) DO UPDATE SET number = excluded.number
     WHERE p.number < excluded.number
RETURNING p.dataset_version;
