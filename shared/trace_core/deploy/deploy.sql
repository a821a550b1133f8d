-- name: lock_dag
-- One deploy of a DAG at a time; made when it is new.
INSERT INTO dags (dag_id, org_id, name, created_by, created_at)
VALUES (%(dag_id)s, %(org_id)s, %(name)s, %(user_id)s, %(now)s)
    ON CONFLICT (org_id, name) DO UPDATE SET name = excluded.name
RETURNING dag_id, active_dag_version_id, created_by, deploy_roles

-- name: dag_by_name
-- A DAG of the org, locked against other changes of it.
SELECT dag_id, created_by, deploy_roles, active_dag_version_id FROM dags
 WHERE org_id = %(org_id)s AND name = %(name)s
   FOR NO KEY UPDATE

-- name: set_deploy_roles
-- Who may deploy the DAG beside its creator and administrators.
UPDATE dags SET deploy_roles = %(deploy_roles)s::text[] WHERE dag_id = %(dag_id)s

-- name: missing_roles
-- Those of the given roles that the org does not have.
SELECT g.role FROM unnest(%(deploy_roles)s::text[]) AS g (role)
 WHERE NOT EXISTS (SELECT FROM org_roles o WHERE o.org_id = %(org_id)s AND o.role = g.role)

-- name: version_of_content
-- The version of a DAG that this very definition made, if it was deployed before.
SELECT v.dag_version_id, v.number
  FROM dag_versions v
 WHERE v.dag_id = %(dag_id)s AND v.content_sha256 = %(content_sha256)s

-- name: add_dag_version
-- The definition as it was given; not active yet.
INSERT INTO dag_versions (dag_version_id, org_id, dag_id, number, content_sha256, source,
                          created_by, created_at, settings)
SELECT %(dag_version_id)s, %(org_id)s, %(dag_id)s,
       1 + coalesce((SELECT max(v.number) FROM dag_versions v WHERE v.dag_id = %(dag_id)s), 0),
       %(content_sha256)s, %(source)s, %(user_id)s, %(now)s, %(settings)s
RETURNING number

-- name: refresh_standing
-- What each job of a DAG is, after its active version, its deploy or its pause changed: `active` in
-- the active version; `held` there while a deploy builds its successor; `candidate` while it is
-- built itself; else `retired`. Only active ones, and candidates of a deploy that builds, may run.
WITH derived AS (
    SELECT j.job_id,
           CASE WHEN a.job_id IS NULL AND c.job_id IS NOT NULL AND j.built_at IS NULL
                     THEN 'candidate'
                WHEN a.job_id IS NULL THEN 'retired'
                WHEN b.deploy_id IS NOT NULL AND c.job_id IS NULL AND s.job_id IS NOT NULL
                     THEN 'held'
                ELSE 'active' END AS standing,
           d.paused_at IS NULL AS runs, b.status = 'Building' AND NOT j.caught_up AS builds
      FROM jobs j
      JOIN dags d ON d.dag_id = j.dag_id
      LEFT JOIN dag_version_jobs a
        ON a.dag_version_id = d.active_dag_version_id AND a.job_id = j.job_id
      LEFT JOIN deploys b
        ON b.dag_id = j.dag_id AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')
      LEFT JOIN dag_version_jobs c ON c.dag_version_id = b.to_version AND c.job_id = j.job_id
      -- Its successor: another job of that name in the version that is built.
      LEFT JOIN LATERAL (
           SELECT t.job_id
             FROM dag_version_jobs t
             JOIN jobs n ON n.job_id = t.job_id
            WHERE t.dag_version_id = b.to_version AND n.name = j.name
            LIMIT 1) s ON true
     WHERE j.dag_id = %(dag_id)s
)
UPDATE jobs j
   SET standing = d.standing,
       claimable = d.runs AND (d.standing = 'active' OR d.standing = 'candidate' AND d.builds)
  FROM derived d
 WHERE j.job_id = d.job_id
   AND (j.standing, j.claimable) IS DISTINCT FROM
       (d.standing, d.runs AND (d.standing = 'active' OR d.standing = 'candidate' AND d.builds))
RETURNING j.job_id, j.standing, j.claimable

-- name: refresh_routes
-- Where events go, after edges, standings or current versions changed: of a DAG's own jobs, and of
-- whoever else reads its datasets.
WITH touched AS MATERIALIZED (
    SELECT j.job_id FROM jobs j WHERE j.dag_id = %(dag_id)s
     UNION
    SELECT e.job_id FROM edges e JOIN datasets s ON s.dataset_uuid = e.dataset_uuid
     WHERE s.dag_id = %(dag_id)s
),
derived AS MATERIALIZED (
    SELECT r.* FROM derived_routes r WHERE r.job_id IN (SELECT job_id FROM touched)
),
gone AS (
    DELETE FROM routes r
     WHERE r.job_id IN (SELECT job_id FROM touched)
       AND NOT EXISTS (SELECT FROM derived d
                        WHERE d.dataset_version = r.dataset_version AND d.job_id = r.job_id)
)
INSERT INTO routes AS r (dataset_version, job_id, route, priority, runtime, triggers)
SELECT d.dataset_version, d.job_id, d.route, d.priority, d.runtime, d.triggers
  FROM derived d
    ON CONFLICT (dataset_version, job_id) DO UPDATE
       SET route = excluded.route, priority = excluded.priority, runtime = excluded.runtime,
           triggers = excluded.triggers
     WHERE (r.route, r.priority, r.runtime, r.triggers)
           IS DISTINCT FROM (excluded.route, excluded.priority, excluded.runtime, excluded.triggers)

-- name: share_org
-- A quota and a deploy take turns; several deploys do not.
SELECT org_id FROM orgs WHERE org_id = %(org_id)s FOR SHARE

-- name: org_quota
-- The counter that meters every job of an org that has a quota.
SELECT capacity_id FROM capacities WHERE org_id = %(org_id)s AND kind = 'org'

-- name: add_capacity
-- A counter for a job's max_concurrency or for a worker pool.
INSERT INTO capacities (capacity_id, org_id, kind, name, max_running, reserved_for_live)
VALUES (%(capacity_id)s, %(org_id)s, %(kind)s, %(name)s, %(max_running)s, %(reserved_for_live)s)

-- name: add_pool
-- A worker pool.
INSERT INTO worker_pools (pool_id, org_id, dag_id, name, capacity_id)
VALUES (%(pool_id)s, %(org_id)s, %(dag_id)s, %(name)s, %(capacity_id)s)

-- name: pool_by_name
-- A worker pool of the DAG.
SELECT pool_id, capacity_id FROM worker_pools WHERE dag_id = %(dag_id)s AND name = %(name)s

-- name: put_slots
-- The slots of a pool as a version has them; a slot that is held stays with its task until the end.
WITH wanted AS (
    SELECT s.*, (%(slot_ids)b::uuid[])[s.position] AS slot_id
      FROM ROWS FROM (jsonb_to_recordset(%(slots)s) AS (name text, env jsonb, secrets jsonb))
           WITH ORDINALITY AS s (name, env, secrets, position)
),
gone AS (
    UPDATE slots SET retired = true
     WHERE pool_id = %(pool_id)s AND NOT retired AND name NOT IN (SELECT name FROM wanted)
)
INSERT INTO slots AS s (slot_id, pool_id, position, name, env, secrets)
SELECT w.slot_id, %(pool_id)s, w.position - 1, w.name, w.env, w.secrets FROM wanted w
    ON CONFLICT (pool_id, name) DO UPDATE
       SET position = excluded.position, env = excluded.env, secrets = excluded.secrets,
           retired = false,
           -- Another key or another upstream has done nothing wrong yet.
           failures = CASE WHEN (s.env, s.secrets) = (excluded.env, excluded.secrets)
                           THEN s.failures ELSE 0 END,
           quarantines = CASE WHEN (s.env, s.secrets) = (excluded.env, excluded.secrets)
                              THEN s.quarantines ELSE 0 END,
           quarantined_until = CASE WHEN (s.env, s.secrets) = (excluded.env, excluded.secrets)
                                    THEN s.quarantined_until END

-- name: job_of_fingerprint
-- The job of that name whose data is what this definition would make.
SELECT job_id FROM jobs
 WHERE dag_id = %(dag_id)s AND name = %(name)s AND fingerprint = %(fingerprint)s

-- name: outputs_of_registered
-- The datasets behind the outputs of a job.
SELECT output_index, dataset_uuid FROM dataset_versions WHERE job_id = %(job_id)s

-- name: add_job
-- One job of the version.
INSERT INTO jobs (job_id, org_id, dag_id, name, fingerprint, activation, runtime, operator,
                  definition, source_kind, schedule, outputs, priority, max_attempts,
                  timeout_seconds, heartbeat_seconds, pool_id, capacity_ids, created_at)
VALUES (%(job_id)s, %(org_id)s, %(dag_id)s, %(name)s, %(fingerprint)s, %(activation)s, %(runtime)s,
        %(operator)s, %(definition)s, %(source_kind)s, %(schedule)s, %(outputs)s, %(priority)s,
        %(max_attempts)s, %(timeout_seconds)s, %(heartbeat_seconds)s, %(pool_id)s,
        %(capacity_ids)s, %(now)s)

-- name: add_version_job
-- The job belongs to the version.
INSERT INTO dag_version_jobs (dag_version_id, job_id) VALUES (%(dag_version_id)s, %(job_id)s)

-- name: add_output
-- One output of a new job: its dataset, which outlives versions, and a version of it with a counter.
WITH made AS (
    INSERT INTO datasets (dataset_uuid, org_id, dag_id, job_name, output_index, created_at)
    VALUES (%(dataset_uuid)s, %(org_id)s, %(dag_id)s, %(job_name)s, %(output_index)s, %(now)s)
        ON CONFLICT (dag_id, job_name, output_index) DO UPDATE SET job_name = excluded.job_name
    RETURNING dataset_uuid
),
version AS (
    INSERT INTO dataset_versions (dataset_version, dataset_uuid, org_id, job_id, output_index,
                                  created_at, backend, update_strategy, unique_key, columns)
    SELECT %(dataset_version)s, m.dataset_uuid, %(org_id)s, %(job_id)s, %(output_index)s, %(now)s,
           %(backend)s, %(update_strategy)s, %(unique_key)s, %(columns)s
      FROM made m
    RETURNING dataset_uuid, dataset_version
),
counter AS (
    INSERT INTO version_counters (dataset_version) SELECT v.dataset_version FROM version v
)
SELECT dataset_uuid, dataset_version FROM version

-- name: published_parts
-- The outputs behind a published name.
SELECT q.dataset_uuid
  FROM publications p
  JOIN publication_parts q ON q.org_id = p.org_id AND q.dataset_name = p.dataset_name
 WHERE p.org_id = %(org_id)s AND p.dataset_name = %(dataset_name)s AND p.hidden_at IS NULL
 ORDER BY q.part

-- name: lock_dataset
-- Route numbers of one dataset are given out one deploy at a time.
SELECT dataset_uuid FROM datasets WHERE dataset_uuid = %(dataset_uuid)s FOR NO KEY UPDATE

-- name: add_edge
-- An input; its route is the next free number of the dataset.
INSERT INTO edges (job_id, input_index, dataset_uuid, alias, filter, triggers,
                   announced_by_trigger, route)
SELECT %(job_id)s, %(input_index)s, %(dataset_uuid)s, %(alias)s, %(filter)s, %(triggers)s,
       %(announced_by_trigger)s,
       lpad(to_hex(1 + coalesce(max(('x' || e.route)::bit(16)::integer), 0)), 4, '0')
  FROM edges e
 WHERE e.dataset_uuid = %(dataset_uuid)s

-- name: add_source_task
-- The one durable task of a source.
INSERT INTO tasks (task_id, org_id, job_id, priority, created_at)
VALUES (%(task_id)s, %(org_id)s, %(job_id)s, %(priority)s, %(now)s)

-- name: queue_source
-- A source that is always on begins at once.
WITH queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    VALUES (%(job_id)s, %(priority)s, %(task_id)s, %(now)s)
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
VALUES (%(outbox_id)s, %(org_id)s, 'wake', %(runtime)s, ARRAY[%(task_id)s::uuid], %(now)s, %(now)s)

-- name: delay_source
-- A source that waits for its first tick or request.
INSERT INTO delayed (task_id, job_id, priority, attempt, failures, lease_sequence, due_at)
VALUES (%(task_id)s, %(job_id)s, %(priority)s, 0, 0, 0, %(due_at)s)

-- name: set_paused
-- Nothing of a paused DAG is claimed; what runs, runs on.
UPDATE dags SET paused_at = %(paused_at)s WHERE dag_id = %(dag_id)s

-- name: wake_dag
-- A wake-up for each runtime of a DAG that has ready tasks.
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
       w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
  FROM (SELECT j.runtime, array_agg(head.task_id) AS task_ids
          FROM jobs j
         CROSS JOIN LATERAL (
               SELECT r.task_id FROM ready r
                WHERE r.job_id = j.job_id ORDER BY r.priority, r.task_id LIMIT 1) head
         WHERE j.dag_id = %(dag_id)s
         GROUP BY j.runtime) w

-- name: source_of_dag
-- A source job of the active version, by name, locked against its own yield.
SELECT j.job_id, j.source_kind, j.operator, j.runtime, j.priority, d.created_by, d.deploy_roles
  FROM dags d
  JOIN dag_version_jobs v ON v.dag_version_id = d.active_dag_version_id
  JOIN jobs j ON j.job_id = v.job_id
 WHERE d.org_id = %(org_id)s AND d.name = %(dag)s AND j.name = %(job)s
   AND j.activation = 'source'
   FOR NO KEY UPDATE OF j

-- name: add_request
-- A request to a source, numbered in order; no row when the source had this event before.
INSERT INTO triggers (trigger_id, org_id, job_id, number, request, requested_by, requested_at,
                      source_id, event_key)
SELECT %(trigger_id)s, %(org_id)s, %(job_id)s,
       1 + coalesce((SELECT max(t.number) FROM triggers t WHERE t.job_id = %(job_id)s), 0),
       %(request)s, %(user_id)s, %(now)s, %(source_id)s, %(event_key)s
    ON CONFLICT (source_id, event_key) WHERE source_id IS NOT NULL DO NOTHING
RETURNING number

-- name: known_event
-- The request that an event of a webhook made.
SELECT number FROM triggers WHERE source_id = %(source_id)s AND event_key = %(event_key)s

-- name: wake_source
-- An idle source goes on now, unless it is backing off after a failure.
WITH gone AS (
    DELETE FROM delayed
     WHERE job_id = %(job_id)s AND failures = 0 AND due_at > %(now)s
    RETURNING *
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, attempt, failures, lapses, lease_sequence,
                       lease_token, continues, keeps_capacity, body_digest, ready_at)
    SELECT g.job_id, g.priority, g.task_id, g.attempt, g.failures, g.lapses, g.lease_sequence,
           g.lease_token, g.continues, g.keeps_capacity, g.body_digest, %(now)s
      FROM gone g
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT %(outbox_id)s, %(org_id)s, 'wake', %(runtime)s, ARRAY[g.task_id], %(now)s, %(now)s
  FROM gone g
