-- Cutover and rollback: the active version of a DAG, its pointers, and what follows from them.

-- name: lock_jobs_of_dag
-- Before any counter, as everybody locks them who needs both.
SELECT job_id FROM jobs WHERE dag_id = %(dag_id)s ORDER BY job_id FOR NO KEY UPDATE

-- name: jobs_of_dag_version
-- The jobs of the version that is to be current.
SELECT job_id FROM dag_version_jobs WHERE dag_version_id = %(to_version)s

-- name: lock_versions
-- Every version whose events may go elsewhere from now on: what the DAG's jobs read, and what they
-- make. Nobody announces anything on them until the commit, and whoever waited looks at routes anew.
SELECT c.dataset_version
  FROM version_counters c
 WHERE c.dataset_version IN (
       SELECT r.dataset_version FROM routes r JOIN jobs j ON j.job_id = r.job_id
        WHERE j.dag_id = %(dag_id)s
        UNION ALL
       SELECT v.dataset_version FROM dataset_versions v
         JOIN dag_version_jobs a ON a.job_id = v.job_id
        WHERE a.dag_version_id IN (%(from_version)s, %(to_version)s)
        UNION ALL
       SELECT p.dataset_version FROM edges e
         JOIN dag_version_jobs a ON a.job_id = e.job_id
         JOIN dataset_current p ON p.dataset_uuid = e.dataset_uuid
        WHERE a.dag_version_id = %(to_version)s)
 ORDER BY c.dataset_version
   FOR UPDATE

-- name: raise_epochs
-- Whoever chose routes before this commit, and waits for these counters, begins anew.
UPDATE version_counters SET epoch = epoch + 1 WHERE dataset_version = ANY (%(versions)b::uuid[])

-- name: moved_external_inputs
-- External datasets that have another current version than the candidates were built on.
SELECT DISTINCT s.job_name, s.output_index, d.name AS dag
  FROM candidate_inputs i
  JOIN datasets s ON s.dataset_uuid = i.dataset_uuid
  JOIN dags d ON d.dag_id = s.dag_id
  JOIN dataset_current c ON c.dataset_uuid = i.dataset_uuid
 WHERE i.deploy_id = %(deploy_id)s AND s.dag_id <> %(dag_id)s
   AND c.dataset_version <> i.dataset_version

-- name: move_pointers
-- All datasets of a version become current together; answers those that were another one's before.
WITH moved AS (
    INSERT INTO dataset_current AS c (dataset_uuid, dataset_version)
    SELECT v.dataset_uuid, v.dataset_version
      FROM dataset_versions v
      JOIN dag_version_jobs a ON a.job_id = v.job_id
     WHERE a.dag_version_id = %(to_version)s
        ON CONFLICT (dataset_uuid) DO UPDATE
           SET dataset_version = excluded.dataset_version, swap = c.swap + 1
         WHERE c.dataset_version <> excluded.dataset_version
    RETURNING dataset_uuid, dataset_version, swap
),
noted AS (
    INSERT INTO pointer_moves (dataset_uuid, swap, dataset_version, deploy_id, moved_at)
    SELECT m.dataset_uuid, m.swap, m.dataset_version, %(deploy_id)s, %(now)s FROM moved m
)
SELECT m.dataset_uuid, m.dataset_version, m.swap FROM moved m

-- name: activate
-- The version is the active one from now on; its jobs are built.
WITH version AS (
    UPDATE dag_versions SET activated_at = %(now)s WHERE dag_version_id = %(to_version)s
),
built AS (
    UPDATE jobs j SET built_at = %(now)s, caught_up = false
      FROM dag_version_jobs a
     WHERE a.dag_version_id = %(to_version)s AND j.job_id = a.job_id AND j.built_at IS NULL
),
inputs AS (
    DELETE FROM candidate_inputs i USING dag_version_jobs a
     WHERE a.dag_version_id = %(to_version)s AND i.job_id = a.job_id
)
UPDATE dags SET active_dag_version_id = %(to_version)s WHERE dag_id = %(dag_id)s

-- name: open_gaps
-- Jobs that leave: from here on events of what they read are not routed to them.
INSERT INTO gaps AS g (job_id, dataset_version, latest, after_number)
SELECT r.job_id, r.dataset_version, false, c.last_number
  FROM routes r
  JOIN jobs j ON j.job_id = r.job_id
  JOIN version_counters c ON c.dataset_version = r.dataset_version
 WHERE j.dag_id = %(dag_id)s AND j.standing = 'retired'
    -- A gap that was being filled goes on from where it is.
    ON CONFLICT (job_id, dataset_version, latest) DO UPDATE SET up_to = NULL

-- name: close_gaps
-- Jobs that enter: what they missed ends here, since later events are routed to them.
UPDATE gaps g
   SET up_to = c.last_number
  FROM derived_routes r
  JOIN version_counters c ON c.dataset_version = r.dataset_version
 WHERE r.dag_id = %(dag_id)s AND g.job_id = r.job_id AND g.dataset_version = r.dataset_version
   AND g.up_to IS NULL AND NOT g.latest

-- name: drop_empty_gaps
-- Nothing was missed.
DELETE FROM gaps g
 USING jobs j
 WHERE j.job_id = g.job_id AND j.dag_id = %(dag_id)s AND g.up_to <= g.after_number

-- name: open_history
-- Versions that a job reads for the first time, of other DAGs or of a job that was purged and built
-- anew: what they hold already is work, too.
INSERT INTO gaps (job_id, dataset_version, latest, after_number, up_to, priority)
SELECT r.job_id, r.dataset_version, true, 0, c.last_number, 1
  FROM derived_routes r
  JOIN version_counters c ON c.dataset_version = r.dataset_version
 WHERE r.dag_id = %(dag_id)s AND r.triggers AND c.last_number > 0
   AND NOT EXISTS (SELECT FROM routes o
                    WHERE o.job_id = r.job_id AND o.dataset_version = r.dataset_version)
   AND NOT EXISTS (SELECT FROM gaps g
                    WHERE g.job_id = r.job_id AND g.dataset_version = r.dataset_version)
    ON CONFLICT DO NOTHING

-- name: put_job_settings
-- How jobs run, as the version says.
UPDATE jobs j
   SET runtime = s.runtime, schedule = s.schedule, priority = s.priority,
       max_attempts = s.max_attempts, timeout_seconds = s.timeout_seconds,
       heartbeat_seconds = s.heartbeat_seconds, definition = s.definition
  FROM dag_versions v
 CROSS JOIN LATERAL jsonb_to_recordset(v.settings -> 'jobs')
       AS s (name text, runtime text, schedule text, priority smallint, max_attempts integer,
             timeout_seconds integer, heartbeat_seconds integer, definition jsonb)
  JOIN dag_version_jobs a ON a.dag_version_id = v.dag_version_id
 WHERE v.dag_version_id = %(to_version)s AND j.job_id = a.job_id AND j.name = s.name
   AND (j.runtime, j.schedule, j.priority, j.max_attempts, j.timeout_seconds, j.heartbeat_seconds,
        j.definition)
       IS DISTINCT FROM
       (s.runtime, s.schedule, s.priority, s.max_attempts, s.timeout_seconds, s.heartbeat_seconds,
        s.definition)

-- name: settings_of_version
-- What a version says beside its data.
SELECT settings FROM dag_versions WHERE dag_version_id = %(dag_version_id)s

-- name: metering_of_version
-- What meters each job of a version now: quota, pool and its own counter.
SELECT j.job_id, j.name, j.pool_id, j.capacity_ids, c.capacity_id AS own_capacity,
       c.max_running AS own_limit
  FROM dag_version_jobs a
  JOIN jobs j ON j.job_id = a.job_id
  LEFT JOIN capacities c ON c.capacity_id = ANY (j.capacity_ids) AND c.kind = 'job'
 WHERE a.dag_version_id = %(to_version)s

-- name: limit_capacity
-- Another limit for a pool or a job; NULL is none. What runs goes on.
UPDATE capacities
   SET max_running = %(max_running)s, reserved_for_live = %(reserved_for_live)s
 WHERE capacity_id = %(capacity_id)s
   AND (max_running, reserved_for_live) IS DISTINCT FROM (%(max_running)s, %(reserved_for_live)s)

-- name: lock_capacities_of_dag
-- In the order of ids, as claims lock them.
SELECT c.capacity_id
  FROM capacities c
 WHERE c.capacity_id IN (
       SELECT w.capacity_id FROM worker_pools w WHERE w.dag_id = %(dag_id)s
        UNION ALL
       SELECT x.capacity_id FROM jobs j CROSS JOIN LATERAL unnest(j.capacity_ids) AS x (capacity_id)
        WHERE j.dag_id = %(dag_id)s)
 ORDER BY c.capacity_id
   FOR UPDATE

-- name: pools_of_dag
-- Every pool that a version of the DAG had.
SELECT pool_id, name, capacity_id FROM worker_pools WHERE dag_id = %(dag_id)s

-- name: meter_job
-- Another pool or counter for a job that goes on.
UPDATE jobs SET pool_id = %(pool_id)s, capacity_ids = %(capacity_ids)s WHERE job_id = %(job_id)s

-- name: taken_names
-- Names that the version would publish and another DAG has.
SELECT p.dataset_name
  FROM publications p
 WHERE p.org_id = %(org_id)s AND p.dag_id <> %(dag_id)s
   AND p.dataset_name = ANY (%(names)s::text[])

-- name: put_publications
-- What the version publishes; other names of the DAG are hidden, and keep their readers.
WITH wanted AS (
    SELECT p.*
      FROM dag_versions v
     CROSS JOIN LATERAL jsonb_to_recordset(v.settings -> 'publications')
           AS p (name text, description text, freshness_seconds double precision, pii jsonb,
                 storage text, write_mode text, schema jsonb)
     WHERE v.dag_version_id = %(to_version)s
),
hidden AS (
    UPDATE publications SET hidden_at = %(now)s
     WHERE dag_id = %(dag_id)s AND hidden_at IS NULL
       AND dataset_name NOT IN (SELECT name FROM wanted)
)
INSERT INTO publications AS p (org_id, dataset_name, dag_id, description, created_at, owner,
                               freshness, pii, storage, write_mode, schema)
SELECT %(org_id)s, w.name, %(dag_id)s, w.description, %(now)s, %(user_id)s,
       w.freshness_seconds * interval '1 second', ARRAY(SELECT jsonb_array_elements_text(w.pii)),
       w.storage, w.write_mode, w.schema
  FROM wanted w
    ON CONFLICT (org_id, dataset_name) DO UPDATE
       SET description = excluded.description, freshness = excluded.freshness,
           pii = excluded.pii, storage = excluded.storage, write_mode = excluded.write_mode,
           schema = excluded.schema, hidden_at = NULL
     WHERE p.dag_id = excluded.dag_id

-- name: drop_parts
-- The outputs behind the DAG's names, to be put anew.
DELETE FROM publication_parts q
 USING publications p
 WHERE p.dag_id = %(dag_id)s AND p.hidden_at IS NULL AND q.org_id = p.org_id
   AND q.dataset_name = p.dataset_name

-- name: put_parts
-- The outputs behind each name that the version publishes.
INSERT INTO publication_parts (org_id, dataset_name, part, dataset_uuid)
SELECT %(org_id)s, p.name, t.part - 1, s.dataset_uuid
  FROM dag_versions v
 CROSS JOIN LATERAL jsonb_to_recordset(v.settings -> 'publications') AS p (name text, parts jsonb)
 CROSS JOIN LATERAL jsonb_array_elements(p.parts) WITH ORDINALITY AS t (origin, part)
  JOIN datasets s ON s.dag_id = %(dag_id)s AND s.job_name = t.origin ->> 'job'
   AND s.output_index = (t.origin ->> 'output')::integer
 WHERE v.dag_version_id = %(to_version)s

-- name: copy_requests
-- A source takes up the requests that another job of its name and kind was asked for: those with a
-- higher number than any of its own.
INSERT INTO triggers (trigger_id, org_id, job_id, number, request, requested_by, requested_at)
SELECT (left(%(series)s::uuid::text, 32) || lpad(to_hex(row_number() OVER ()), 4, '0'))::uuid,
       t.org_id, n.job_id, t.number, t.request, t.requested_by, t.requested_at
  FROM dag_version_jobs a
  JOIN jobs n ON n.job_id = a.job_id AND n.source_kind IN ('manual', 'webhook')
  JOIN dag_version_jobs b ON b.dag_version_id = %(from_version)s
  JOIN jobs o ON o.job_id = b.job_id AND o.name = n.name AND o.job_id <> n.job_id
   AND o.source_kind = n.source_kind
  JOIN triggers t ON t.job_id = o.job_id
 WHERE a.dag_version_id = %(to_version)s
   AND t.number > coalesce((SELECT max(x.number) FROM triggers x WHERE x.job_id = n.job_id), 0)
 ORDER BY t.job_id, t.number
 LIMIT 65535

-- name: invalidate_readers
-- Other DAGs that read what was swapped: each dependent job gets one task for all of it.
WITH swapped AS (
    SELECT s.dataset_uuid, s.dataset_version, s.event_id
      FROM unnest(%(datasets)b::uuid[], %(versions)b::uuid[], %(event_ids)b::uuid[])
           AS s (dataset_uuid, dataset_version, event_id)
     WHERE EXISTS (SELECT FROM routes r JOIN jobs j ON j.job_id = r.job_id
                    WHERE r.dataset_version = s.dataset_version AND j.dag_id <> %(dag_id)s)
),
numbered AS (
    UPDATE version_counters c
       SET last_number = c.last_number + 1
      FROM swapped s
     WHERE c.dataset_version = s.dataset_version
    RETURNING c.dataset_version, c.last_number
),
event AS (
    INSERT INTO events (producer_task_id, dataset_version, scope, revision, event_id, org_id,
                        attempt, accepted_at, number, rewrites)
    SELECT s.event_id, s.dataset_version, '', n.last_number, s.event_id, %(org_id)s, 0, %(now)s,
           n.last_number, true
      FROM swapped s
      JOIN numbered n ON n.dataset_version = s.dataset_version
    RETURNING event_id, dataset_version, producer_task_id, revision
),
noted AS (
    INSERT INTO invalidations (event_id, org_id, dataset_uuid, dataset_version, scope, number,
                               reason, source, deploy_id, created_at)
    SELECT s.event_id, %(org_id)s, s.dataset_uuid, s.dataset_version, '', n.last_number,
           %(reason)s, %(source)s, %(deploy_id)s, %(now)s
      FROM swapped s
      JOIN numbered n ON n.dataset_version = s.dataset_version
),
made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, revision)
    SELECT (left(e.event_id::text, 32) || r.route)::uuid, %(org_id)s, r.job_id, r.priority, %(now)s,
           e.event_id, e.producer_task_id, e.dataset_version, '', e.revision
      FROM event e
      JOIN routes r ON r.dataset_version = e.dataset_version
      JOIN jobs j ON j.job_id = r.job_id AND j.dag_id <> %(dag_id)s
    RETURNING task_id, job_id, priority
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    SELECT m.job_id, m.priority, m.task_id, %(now)s FROM made m
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
       w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
  FROM (SELECT j.runtime, array_agg(m.task_id) AS task_ids
          FROM made m JOIN jobs j ON j.job_id = m.job_id GROUP BY j.runtime) w
RETURNING target
