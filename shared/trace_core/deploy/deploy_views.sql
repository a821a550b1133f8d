-- What people see of deploys and rollbacks.

-- fragment: deploy
SELECT b.deploy_id, b.dag_id, d.name AS dag, b.number, b.kind, f.number AS from_version,
       t.number AS to_version, b.status, coalesce(u.name, u.subject) AS created_by, b.created_at,
       b.built_at, b.cut_over_at, b.ended_at, b.error, b.report
  FROM dags d
  JOIN deploys b ON b.dag_id = d.dag_id
  JOIN dag_versions t ON t.dag_version_id = b.to_version
  LEFT JOIN dag_versions f ON f.dag_version_id = b.from_version
  LEFT JOIN users u ON u.user_id = b.created_by

-- name: list_deploys
-- The deploys and rollbacks of a DAG, the newest first, a page at a time.
-- include: deploy
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND b.number < %(before)s
 ORDER BY b.number DESC
 LIMIT %(limit)s

-- name: show_deploy
-- One of them.
-- include: deploy
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND b.number = %(number)s

-- name: build_progress
-- How far each candidate is: scopes that it announced, against those that the current version of the
-- same outputs holds. Beyond many announcements these are counted instead of their scopes.
SELECT j.name AS job, j.standing, j.activation,
       CASE WHEN j.activation = 'source' THEN 0
            ELSE (SELECT count(*) FROM (SELECT FROM ready r WHERE r.job_id = j.job_id
                                         LIMIT 100000) r)
                 + (SELECT count(*) FROM delayed w WHERE w.job_id = j.job_id) END AS waiting,
       (SELECT count(*) FROM leases l WHERE l.job_id = j.job_id) AS running,
       (SELECT count(*) FROM attempts a
         WHERE a.job_id = j.job_id AND a.outcome <> 'Completed' AND a.outcome <> 'Canceled'
           AND a.final) AS failed,
       coalesce(o.done, 0)::bigint AS done, coalesce(o.done_since, 0)::bigint AS done_since,
       CASE WHEN o.known = o.outputs THEN o.expected::bigint END AS expected
  FROM deploys b
  JOIN dag_version_jobs a ON a.dag_version_id = b.to_version
  JOIN jobs j ON j.job_id = a.job_id AND j.standing = 'candidate'
 CROSS JOIN LATERAL (
       SELECT count(*) AS outputs, count(p.dataset_version) AS known,
              sum(n.done) AS done, sum(n.done_since) AS done_since, sum(m.expected) AS expected
         FROM dataset_versions v
         JOIN version_counters c ON c.dataset_version = v.dataset_version
         LEFT JOIN dataset_current p ON p.dataset_uuid = v.dataset_uuid
        CROSS JOIN LATERAL (
              SELECT CASE WHEN c.last_number > %(many)s THEN c.last_number
                          ELSE count(DISTINCT e.scope) END AS done,
                     CASE WHEN c.last_number > %(many)s THEN c.last_number
                          ELSE count(DISTINCT e.scope) FILTER (WHERE e.accepted_at >= b.created_at)
                     END AS done_since
                FROM events e
               WHERE c.last_number <= %(many)s AND e.dataset_version = v.dataset_version
                 AND e.number > 0) n
        CROSS JOIN LATERAL (
              SELECT CASE WHEN y.backend <> 'control'
                          THEN (SELECT count(DISTINCT k.scope) FROM commits k
                                 WHERE k.dataset_version = y.dataset_version
                                   AND k.replaced_at IS NULL)
                          WHEN z.last_number > %(many)s THEN z.last_number
                          ELSE (SELECT count(DISTINCT e.scope) FROM events e
                                 WHERE e.dataset_version = y.dataset_version AND e.number > 0
                                   AND NOT EXISTS (SELECT FROM invalidations i
                                                    WHERE i.event_id = e.event_id
                                                      AND i.source <> 'replace')) END AS expected
                FROM (SELECT p.dataset_version) x
                LEFT JOIN dataset_versions y ON y.dataset_version = x.dataset_version
                LEFT JOIN version_counters z ON z.dataset_version = x.dataset_version) m
        WHERE v.job_id = j.job_id) o
 WHERE b.deploy_id = %(deploy_id)s
 ORDER BY j.name

-- name: held_tasks
-- Live work that waits until a build has ended.
SELECT coalesce(sum(h.tasks), 0)::bigint AS tasks
  FROM jobs j
 CROSS JOIN LATERAL (
       SELECT (SELECT count(*) FROM (SELECT FROM ready r WHERE r.job_id = j.job_id
                                      LIMIT 100000) r)
              + (SELECT count(*) FROM delayed w WHERE w.job_id = j.job_id AND w.failures > 0)
              AS tasks) h
 WHERE j.dag_id = %(dag_id)s AND j.standing = 'held' AND j.activation <> 'source'

-- name: moved_pointers
-- The outputs whose current version a deploy or rollback has exchanged, with their published names.
SELECT s.job_name AS job, s.output_index,
       (SELECT min(q.dataset_name) FROM publication_parts q
         WHERE q.dataset_uuid = s.dataset_uuid) AS dataset
  FROM pointer_moves m
  JOIN datasets s ON s.dataset_uuid = m.dataset_uuid
 WHERE m.deploy_id = %(deploy_id)s AND m.swap > 1
 ORDER BY s.job_name, s.output_index

-- name: version_to_return_to
-- Where a DAG is, and where a rollback would go: to a version that was active before.
SELECT d.dag_id, d.active_dag_version_id AS from_id, f.number AS from_version,
       t.dag_version_id AS to_id, t.number AS to_version, t.activated_at,
       (SELECT b.number FROM deploys b
         WHERE b.dag_id = d.dag_id
           AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')) AS under_way
  FROM dags d
  LEFT JOIN dag_versions f ON f.dag_version_id = d.active_dag_version_id
  LEFT JOIN LATERAL (
       SELECT v.dag_version_id, v.number, v.activated_at
         FROM dag_versions v
        WHERE v.dag_id = d.dag_id AND v.activated_at IS NOT NULL
          AND v.dag_version_id <> d.active_dag_version_id
          AND (%(version)s::integer IS NULL OR v.number = %(version)s)
        -- As a rollback chooses it: by the order of switches.
        ORDER BY (SELECT max(b.number) FROM deploys b
                   WHERE b.dag_id = v.dag_id AND b.to_version = v.dag_version_id
                     AND b.cut_over_at IS NOT NULL) DESC NULLS LAST, v.number DESC
        LIMIT 1) t ON true
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s

-- name: jobs_of_return
-- Jobs that a switch would bring back, with what they missed, and those that it would end, with the
-- tasks that end with them.
SELECT j.name AS job, a.job_id IS NOT NULL AS restored,
       CASE WHEN a.job_id IS NOT NULL THEN
            coalesce((SELECT sum(c.last_number - g.after_number)
                        FROM gaps g
                        JOIN version_counters c ON c.dataset_version = g.dataset_version
                       WHERE g.job_id = j.job_id AND NOT g.latest AND g.up_to IS NULL), 0)::bigint
            + (SELECT count(*) FROM attempts f
                WHERE f.job_id = j.job_id AND f.outcome <> 'Completed' AND f.outcome = 'Canceled'
                  AND f.final AND f.error_code = 'VersionReplaced')
            ELSE 0 END AS missed,
       CASE WHEN a.job_id IS NULL AND j.activation <> 'source' THEN
            (SELECT count(*) FROM (SELECT FROM ready r WHERE r.job_id = j.job_id
                                    LIMIT 100000) r)
            + (SELECT count(*) FROM delayed w WHERE w.job_id = j.job_id)
            + (SELECT count(*) FROM leases l WHERE l.job_id = j.job_id)
            ELSE 0 END AS open
  FROM (SELECT job_id FROM dag_version_jobs WHERE dag_version_id = %(to_id)s
         UNION
        SELECT job_id FROM dag_version_jobs WHERE dag_version_id = %(from_id)s) u
  JOIN jobs j ON j.job_id = u.job_id
  LEFT JOIN dag_version_jobs a ON a.dag_version_id = %(to_id)s AND a.job_id = u.job_id
  LEFT JOIN dag_version_jobs b ON b.dag_version_id = %(from_id)s AND b.job_id = u.job_id
 WHERE (a.job_id IS NULL) <> (b.job_id IS NULL)
 ORDER BY j.name, 2
