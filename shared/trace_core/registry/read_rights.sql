-- fragment: may_read
-- Whether the reader `r` may read what the DAG `d` publishes as `p`. The one place that says so:
-- administrators, whoever may deploy that DAG, and members with one of the dataset's read roles.
coalesce(r.platform_role = 'admin'
         OR r.platform_role = 'writer'
            AND (coalesce(d.created_by = r.user_id, false) OR d.deploy_roles && r.org_roles)
         OR coalesce(p.read_roles && r.org_roles, false), false)

-- fragment: caller
-- The reader `r` is the one who calls.
(SELECT %(platform_role)s::text AS platform_role, %(reader_id)s::uuid AS user_id,
        %(org_roles)s::text[] AS org_roles) r

-- fragment: visible
-- A name that is no longer published is there for administrators only.
(p.hidden_at IS NULL OR r.platform_role = 'admin') AND
-- include: may_read

-- name: find
-- A published dataset that the caller may read.
SELECT p.dataset_name, p.dag_id, d.name AS dag, d.created_by, d.deploy_roles, p.read_roles,
       p.owner, p.hidden_at, p.pii
  FROM publications p
  JOIN dags d ON d.dag_id = p.dag_id
 CROSS JOIN
-- include: caller
 WHERE p.org_id = %(org_id)s AND p.dataset_name = %(dataset)s AND
-- include: visible

-- name: unreadable
-- Those of the given names that are no published dataset which the caller may read.
SELECT g.dataset
  FROM unnest(%(datasets)s::text[]) WITH ORDINALITY AS g (dataset, place)
 WHERE NOT EXISTS (
       SELECT
         FROM publications p
         JOIN dags d ON d.dag_id = p.dag_id
        CROSS JOIN
-- include: caller
        WHERE p.org_id = %(org_id)s AND p.dataset_name = g.dataset AND p.hidden_at IS NULL AND
-- include: may_read
       )
 ORDER BY g.place

-- name: readable_outputs
-- Those of the given outputs that the caller may read; one without a name is for whoever may deploy
-- its DAG.
SELECT s.dataset_uuid
  FROM datasets s
  JOIN dags d ON d.dag_id = s.dag_id
  LEFT JOIN LATERAL (
       SELECT n.read_roles
         FROM publication_parts x
         JOIN publications n ON n.org_id = x.org_id AND n.dataset_name = x.dataset_name
        WHERE x.dataset_uuid = s.dataset_uuid AND n.hidden_at IS NULL
        LIMIT 1) p ON true
 CROSS JOIN
-- include: caller
 WHERE s.org_id = %(org_id)s AND s.dataset_uuid = ANY (%(dataset_uuids)s::uuid[]) AND
-- include: may_read

-- name: lock_publication
-- A published dataset, locked against other changes of its readers and owner.
SELECT p.read_roles, p.owner, u.subject AS owner_subject
  FROM publications p
  LEFT JOIN users u ON u.user_id = p.owner
 WHERE p.org_id = %(org_id)s AND p.dataset_name = %(dataset)s
   FOR NO KEY UPDATE OF p

-- name: missing_roles
-- Those of the given roles that the org does not have.
SELECT g.role FROM unnest(%(read_roles)s::text[]) AS g (role)
 WHERE NOT EXISTS (SELECT FROM org_roles o WHERE o.org_id = %(org_id)s AND o.role = g.role)
 ORDER BY g.role

-- name: set_read_roles
-- Which org roles may read a dataset.
UPDATE publications SET read_roles = %(read_roles)s::text[]
 WHERE org_id = %(org_id)s AND dataset_name = %(dataset)s

-- name: set_owner
-- Whom to ask about a dataset; nobody: the creator of its DAG.
UPDATE publications SET owner = %(owner)s
 WHERE org_id = %(org_id)s AND dataset_name = %(dataset)s

-- name: member
-- A member of the org.
SELECT u.subject, coalesce(u.name, u.subject) AS name
  FROM memberships m
  JOIN users u ON u.user_id = m.user_id
 WHERE m.org_id = %(org_id)s AND m.user_id = %(owner)s

-- name: reads_as
-- From now on the jobs of a DAG version read with the rights of whoever deployed it.
UPDATE jobs j
   SET reads_as = %(user_id)s
  FROM dag_version_jobs a
 WHERE a.dag_version_id = %(dag_version_id)s AND j.job_id = a.job_id
   AND j.reads_as IS DISTINCT FROM %(user_id)s

-- name: refresh_forbidden
-- Which jobs read something of another DAG that their deployer may not read. Of one org, or, as a
-- sweep, of all. A name that was hidden since keeps its readers, and a member who left reads nothing.
WITH derived AS MATERIALIZED (
    SELECT j.job_id, bool_or(NOT
-- include: may_read
           ) AS forbidden
      FROM jobs j
      JOIN edges e ON e.job_id = j.job_id
      JOIN datasets s ON s.dataset_uuid = e.dataset_uuid AND s.dag_id <> j.dag_id
      JOIN dags d ON d.dag_id = s.dag_id
      LEFT JOIN LATERAL (
           SELECT n.read_roles
             FROM publication_parts x
             JOIN publications n ON n.org_id = x.org_id AND n.dataset_name = x.dataset_name
            WHERE x.dataset_uuid = s.dataset_uuid
            ORDER BY n.hidden_at NULLS FIRST
            LIMIT 1) p ON true
      LEFT JOIN LATERAL (
           SELECT m.platform_role, m.user_id,
                  ARRAY(SELECT o.role FROM member_roles o
                         WHERE o.org_id = m.org_id AND o.user_id = m.user_id) AS org_roles
             FROM memberships m
            WHERE m.org_id = j.org_id AND m.user_id = j.reads_as) r ON true
     WHERE (%(org_id)s::uuid IS NULL OR j.org_id = %(org_id)s::uuid) AND j.reads_as IS NOT NULL
     GROUP BY j.job_id
)
UPDATE jobs j
   SET forbidden = coalesce(w.forbidden, false)
  FROM jobs k
  LEFT JOIN derived w ON w.job_id = k.job_id
 WHERE k.job_id = j.job_id AND (%(org_id)s::uuid IS NULL OR k.org_id = %(org_id)s::uuid)
   AND k.forbidden IS DISTINCT FROM coalesce(w.forbidden, false)
RETURNING j.job_id, j.name AS job, j.forbidden
