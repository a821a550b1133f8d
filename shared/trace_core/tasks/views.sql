-- name: job_info
-- What the payload of a task says about its job; how it runs may change with the version of its DAG.
SELECT j.job_id, j.org_id, d.name AS dag_name, coalesce(c.number, v.number) AS dag_version, j.name,
       j.runtime,
       j.activation, j.operator, j.definition, j.source_kind, j.schedule, j.timeout_seconds,
       j.heartbeat_seconds, j.max_attempts
  FROM jobs j
  JOIN dags d ON d.dag_id = j.dag_id
  JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
  -- A candidate belongs to the version that is built.
  LEFT JOIN LATERAL (
       SELECT n.number
         FROM deploys b
         JOIN dag_versions n ON n.dag_version_id = b.to_version
        WHERE j.standing = 'candidate' AND b.dag_id = j.dag_id
          AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')) c ON true
 WHERE j.job_id = %(job_id)s

-- name: inputs_of_job
-- The edges of a job. The parts of a published name come in its order, from hot to cold.
SELECT e.input_index, e.alias, e.filter, e.dataset_uuid, e.triggers
  FROM edges e
  LEFT JOIN LATERAL (
       SELECT min(p.part) AS part FROM publication_parts p WHERE p.dataset_uuid = e.dataset_uuid) p
    ON true
 WHERE e.job_id = %(job_id)s
 ORDER BY e.input_index, p.part, e.dataset_uuid

-- name: written_by_job
-- The dataset versions that a job produces, and how their rows are kept.
SELECT v.output_index, v.dataset_uuid, v.dataset_version, v.backend, v.update_strategy,
       v.unique_key, v.columns, c.readable
  FROM dataset_versions v
  JOIN version_counters c ON c.dataset_version = v.dataset_version
 WHERE v.job_id = %(job_id)s
 ORDER BY v.output_index

-- name: datasets_of_versions
-- Whose versions these are, and where their rows lie; neither ever changes.
SELECT v.dataset_version, v.dataset_uuid, v.backend
  FROM dataset_versions v
 WHERE v.dataset_version = ANY (%(versions)b::uuid[])

-- name: slot_of_lease
-- What a slot gives to the task that holds it.
SELECT s.name, s.env, s.secrets FROM slots s WHERE s.slot_id = %(slot_id)s

-- name: task_with_trigger
-- One task with its lease, if it has one, in the shape of a claim without its tokens.
SELECT t.task_id, t.job_id, coalesce(l.attempt, 0) AS attempt,
       coalesce(l.lease_sequence, 0) AS lease_sequence, NULL::uuid AS lease_token,
       NULL::uuid AS start_token, l.slot_id, t.priority, t.producer_task_id, t.dataset_version,
       t.scope, t.range_start, t.range_end, t.revision, l.canceled_at, l.started_at,
       l.lease_expires_at, p.pins
  FROM tasks t
  LEFT JOIN leases l ON l.task_id = t.task_id
  LEFT JOIN LATERAL (
       SELECT string_agg(concat_ws(' ', i.input_index, i.dataset_version,
                                   coalesce(i.commit_number, 0), coalesce(i.swap, 0)), ',') AS pins
         FROM task_inputs i
        WHERE i.task_id = l.task_id AND i.attempt = l.attempt
          AND i.lease_sequence = l.lease_sequence AND l.started_at IS NOT NULL) p ON true
 WHERE t.task_id = %(task_id)s AND t.org_id = %(org_id)s

-- fragment: with_place
-- A task's status is where its row is; `waits_for` says why a queued one does not run.
SELECT t.task_id, t.job_id, d.name AS dag, j.name AS job, j.operator, t.created_at, t.scope,
       t.range_start, t.range_end, t.revision, t.event_id, t.producer_task_id,
       CASE WHEN l.started_at IS NOT NULL THEN 'Running'
            WHEN l.task_id IS NOT NULL OR r.task_id IS NOT NULL THEN 'Queued'
            WHEN w.task_id IS NOT NULL AND (w.failures = 0 OR w.continues) THEN 'Queued'
            WHEN w.task_id IS NOT NULL THEN 'Failed'
            WHEN f.outcome IN ('Completed', 'Canceled') THEN f.outcome
            ELSE 'Failed' END AS status,
       coalesce(l.attempt, r.attempt, w.attempt, f.attempt, 0) AS attempt,
       j.max_attempts, j.activation, l.worker_id, l.started_at, l.lease_expires_at,
       l.canceled_at, w.due_at, f.ended_at, f.late, e.error_code, e.error_message,
       CASE WHEN l.started_at IS NULL AND l.task_id IS NOT NULL THEN 'its runner to start'
            WHEN w.task_id IS NOT NULL AND w.due_at >= timestamptz '9999-01-01' THEN 'a request'
            WHEN w.task_id IS NOT NULL AND w.failures > 0 THEN 'its retry'
            WHEN w.task_id IS NOT NULL THEN 'its next slice'
            WHEN r.task_id IS NOT NULL AND d.paused_at IS NOT NULL THEN 'its DAG to be resumed'
            WHEN r.task_id IS NOT NULL AND NOT j.claimable THEN (
                 SELECT CASE WHEN j.standing = 'retired' OR j.caught_up
                                  THEN 'version ' || v.number || ' to become active'
                             WHEN b.status = 'Paused'
                                  THEN 'deploy ' || b.number || ' to be resumed'
                             WHEN b.status = 'ChecksFailed'
                                  THEN 'deploy ' || b.number || ', whose checks failed'
                             ELSE 'the build of deploy ' || b.number END
                   FROM (SELECT max(v.number) AS number
                           FROM dag_version_jobs a
                           JOIN dag_versions v ON v.dag_version_id = a.dag_version_id
                          WHERE a.job_id = j.job_id) v
                   LEFT JOIN deploys b
                     ON b.dag_id = j.dag_id
                    AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed'))
            WHEN r.task_id IS NOT NULL AND EXISTS (
                 SELECT FROM capacities c
                  WHERE c.capacity_id = ANY (j.capacity_ids) AND c.running >= c.max_running)
                 THEN 'capacity'
            WHEN r.task_id IS NOT NULL THEN 'a worker' END AS waits_for
  FROM tasks t
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  LEFT JOIN leases l ON l.task_id = t.task_id
  LEFT JOIN ready r ON r.job_id = t.job_id AND r.priority = t.priority AND r.task_id = t.task_id
  LEFT JOIN delayed w ON w.task_id = t.task_id
  LEFT JOIN LATERAL (
       SELECT a.* FROM attempts a
        WHERE a.task_id = t.task_id AND a.final ORDER BY a.attempt DESC LIMIT 1) f ON true
  LEFT JOIN LATERAL (
       SELECT a.error_code, a.error_message FROM attempts a
        WHERE a.task_id = t.task_id AND a.error_code IS NOT NULL
        ORDER BY a.attempt DESC LIMIT 1) e ON true

-- name: list_tasks
-- The newest tasks of an org, a page at a time.
SELECT * FROM (
-- include: with_place
 WHERE t.org_id = %(org_id)s AND t.task_id < %(before)s
   AND (%(dag)s::text IS NULL OR d.name = %(dag)s) AND (%(job)s::text IS NULL OR j.name = %(job)s)
) v
 WHERE %(status)s::text IS NULL OR v.status = %(status)s
 ORDER BY v.task_id DESC
 LIMIT %(limit)s

-- name: show_task
-- One task.
SELECT * FROM (
-- include: with_place
 WHERE t.org_id = %(org_id)s AND t.task_id = %(task_id)s
) v

-- name: names_of_tasks
-- Whose these tasks are, of which job, and at which attempt.
SELECT t.org_id, t.task_id, d.name || '.' || j.name AS job,
       coalesce(l.attempt, r.attempt, w.attempt, f.attempt, 0) AS attempt
  FROM tasks t
  JOIN jobs j ON j.job_id = t.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  LEFT JOIN leases l ON l.task_id = t.task_id
  LEFT JOIN ready r ON r.job_id = t.job_id AND r.priority = t.priority AND r.task_id = t.task_id
  LEFT JOIN delayed w ON w.task_id = t.task_id
  LEFT JOIN LATERAL (
       SELECT a.attempt FROM attempts a
        WHERE a.task_id = t.task_id ORDER BY a.attempt DESC LIMIT 1) f ON true
 WHERE t.org_id = %(org_id)s AND t.task_id = ANY (%(task_ids)b::uuid[])

-- name: name_of_start
-- The same of the task that a start token belongs to: the attempt that it starts, or has started.
SELECT l.org_id, l.task_id, d.name || '.' || j.name AS job,
       l.attempt + CASE WHEN l.started_at IS NULL AND NOT l.continues THEN 1 ELSE 0 END AS attempt
  FROM leases l
  JOIN jobs j ON j.job_id = l.job_id
  JOIN dags d ON d.dag_id = j.dag_id
 WHERE l.task_id = %(task_id)s AND l.start_token = %(start_token)s

-- name: attempts_of_task
-- The attempts that ended, a page at a time.
SELECT a.attempt, a.outcome, a.final, a.late, a.leased_at, a.started_at, a.ended_at, a.worker_id,
       a.lease_sequence, a.error_code, a.error_message
  FROM attempts a
 WHERE a.task_id = %(task_id)s AND a.org_id = %(org_id)s AND a.attempt > %(after)s
 ORDER BY a.attempt
 LIMIT %(limit)s

-- name: runs_of_task
-- Its Spark runs: waiting for room, starting up and running apart, and what each used.
SELECT s.attempt, s.start_number, s.run_id, s.state, s.detail, s.cancel_reason, s.prepared_at,
       s.submitted_at, s.started_at, s.ended_at, s.queued_seconds,
       extract(epoch FROM s.started_at - s.submitted_at)::double precision
           - coalesce(s.queued_seconds, 0) AS startup_seconds,
       extract(epoch FROM s.ended_at - s.started_at)::double precision AS run_seconds,
       s.vcpu_hours, s.memory_gb_hours, s.storage_gb_hours
  FROM spark_runs s
 WHERE s.task_id = %(task_id)s AND s.org_id = %(org_id)s
 ORDER BY s.start_number
 LIMIT %(limit)s

-- name: inputs_of_task
-- What the task read, at each start.
SELECT i.attempt, i.lease_sequence, i.input_index, i.dataset_version, i.commit_number
  FROM task_inputs i
 WHERE i.task_id = %(task_id)s
 ORDER BY i.attempt, i.lease_sequence, i.input_index

-- name: outputs_of_task
-- What the task wrote.
SELECT o.attempt, o.output_index, o.scope, o.dataset_version, o.location, o.row_count
  FROM task_outputs o
 WHERE o.task_id = %(task_id)s
 ORDER BY o.attempt, o.output_index, o.scope

-- name: events_of_task
-- What the task announced, the newest first.
SELECT e.event_id, e.dataset_version, e.scope, e.range_start, e.range_end, e.revision,
       e.accepted_at
  FROM events e
 WHERE e.producer_task_id = %(task_id)s AND e.org_id = %(org_id)s
 ORDER BY e.event_id DESC
 LIMIT %(limit)s

-- name: job_backlog
-- What waits and runs, for each job of the active versions and of those that are built.
SELECT j.job_id, d.name AS dag, j.name AS job, j.operator, j.runtime, j.activation, j.standing,
       j.forbidden, d.paused_at IS NOT NULL AS paused,
       (SELECT count(*) FROM (SELECT FROM ready r WHERE r.job_id = j.job_id LIMIT 100000) c)
           AS queued,
       (SELECT min(r.ready_at) FROM (SELECT ready_at FROM ready r WHERE r.job_id = j.job_id
                                      ORDER BY r.priority, r.task_id LIMIT 1) r) AS oldest_ready_at,
       (SELECT count(*) FROM leases l WHERE l.job_id = j.job_id) AS running,
       (SELECT count(*) FROM delayed w WHERE w.job_id = j.job_id AND w.failures > 0) AS retrying,
       (SELECT count(*) FROM attempts a
         WHERE a.job_id = j.job_id AND a.outcome <> 'Completed' AND a.outcome <> 'Canceled'
           AND a.final) AS failed
  FROM jobs j
  JOIN dags d ON d.dag_id = j.dag_id
 WHERE j.org_id = %(org_id)s AND j.standing IN ('active', 'held', 'candidate')
 ORDER BY d.name, j.name, j.standing = 'candidate'

-- name: completed_since
-- Completed tasks of each job that were made since a moment. With both ends of the range the planner
-- takes the index whatever it knows, and leaves out the months before.
SELECT a.job_id, count(*) AS completed
  FROM attempts a
 WHERE a.org_id = %(org_id)s AND a.outcome = 'Completed'
   AND a.task_id BETWEEN %(since)s AND %(until)s
 GROUP BY a.job_id

-- name: list_dags
-- The DAGs of an org.
SELECT d.dag_id, d.name, v.number AS version, v.activated_at, d.paused_at,
       (SELECT count(*) FROM dag_version_jobs a
         WHERE a.dag_version_id = d.active_dag_version_id) AS jobs
  FROM dags d
  LEFT JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
 WHERE d.org_id = %(org_id)s
 ORDER BY d.name

-- name: backlog_metrics
-- Depth and age of the backlog by runtime, for the whole platform.
SELECT j.runtime,
       coalesce(sum(q.queued), 0)::bigint AS queued,
       min(q.oldest) AS oldest_ready_at
  FROM jobs j
 CROSS JOIN LATERAL (
       SELECT count(*) AS queued, min(c.ready_at) AS oldest
         FROM (SELECT r.ready_at FROM ready r WHERE r.job_id = j.job_id LIMIT 100000) c) q
 WHERE j.claimable
 GROUP BY j.runtime

-- name: lease_metrics
-- Running tasks and the lease that is longest overdue.
SELECT count(*) AS running, min(l.lease_expires_at) AS oldest_expiry,
       (SELECT count(*) FROM delayed w WHERE w.failures > 0) AS retrying,
       (SELECT count(*) FROM delayed w JOIN jobs j ON j.job_id = w.job_id
         WHERE w.failures >= %(many)s AND j.activation = 'source') AS sources_failing
  FROM leases l

-- name: deploy_metrics
-- The deploy that has been built for the longest time, and those that wait for a person.
SELECT min(b.created_at) AS oldest_at,
       count(*) FILTER (WHERE b.status = 'ChecksFailed' OR b.error IS NOT NULL) AS stuck
  FROM deploys b
 WHERE b.ended_at IS NULL AND b.status IN ('Building', 'Checking', 'ChecksFailed')

-- name: jobs_forbidden
-- Jobs whose tasks wait until somebody may read their inputs again.
SELECT count(*) AS count
  FROM jobs j
 WHERE j.forbidden AND j.standing IN ('active', 'held', 'candidate')

-- fragment: outbox_counts
SELECT count(*) FILTER (WHERE o.status = 'Pending') AS pending,
       count(*) FILTER (WHERE o.status = 'Failed') AS failed,
       min(o.created_at) FILTER (WHERE o.status = 'Pending') AS oldest_pending_at
  FROM outbox o

-- name: outbox_metrics
-- What waits to leave the database.
-- include: outbox_counts

-- name: outbox_of_org
-- What of one org waits to leave the database.
-- include: outbox_counts
 WHERE o.org_id = %(org_id)s
