-- name: keep_definitions
-- What a fresh deploy leaves in the working set: put back before each schedule. Statistics that
-- change in the middle would change plans, and with them the order of rows.
CREATE SCHEMA simulation;
-- Of a planted bug.
CREATE SEQUENCE simulation.numbers;
-- Each schedule begins anew, and so does its audit.
DROP TRIGGER audit_is_append_only ON audit;
CREATE TABLE simulation.tasks AS SELECT * FROM tasks;
CREATE TABLE simulation.ready AS SELECT * FROM ready;
CREATE TABLE simulation.delayed AS SELECT * FROM delayed;
CREATE TABLE simulation.outbox AS SELECT * FROM outbox;
CREATE TABLE simulation.jobs AS SELECT job_id, capacity_ids FROM jobs;
CREATE FUNCTION simulation.reset(orgs uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ready;
    DELETE FROM delayed;
    DELETE FROM leases;
    DELETE FROM outbox;
    DELETE FROM tasks_202601;
    DELETE FROM attempts_202601;
    DELETE FROM task_inputs_202601;
    DELETE FROM task_outputs_202601;
    DELETE FROM events_202601;
    UPDATE version_counters SET last_number = 0, readable = 0, max_end = NULL WHERE last_number <> 0;
    DELETE FROM operator_state;
    DELETE FROM triggers;
    DELETE FROM yields;
    DELETE FROM audit;
    IF (SELECT count(*) FROM deploys) > (SELECT count(*) FROM simulation.kept_deploys) THEN
        PERFORM simulation.restore();
    END IF;
    IF EXISTS (SELECT FROM capacities c WHERE c.kind = 'org') THEN
        UPDATE jobs j SET capacity_ids = s.capacity_ids
          FROM simulation.jobs s
         WHERE s.job_id = j.job_id AND s.capacity_ids <> j.capacity_ids;
        DELETE FROM capacities c WHERE c.kind = 'org';
    END IF;
    UPDATE slots SET task_id = NULL WHERE task_id IS NOT NULL;
    UPDATE dags SET paused_at = NULL WHERE paused_at IS NOT NULL;
    UPDATE jobs SET claimable = true WHERE NOT claimable;
    UPDATE capacities
       SET running = 0, running_backfill = 0, hour_started_at = NULL, starts_this_hour = 0
     WHERE running <> 0 OR running_backfill <> 0 OR starts_this_hour <> 0;
    INSERT INTO tasks SELECT * FROM simulation.tasks t WHERE t.org_id = ANY (orgs);
    INSERT INTO ready
    SELECT r.* FROM simulation.ready r JOIN jobs j USING (job_id) WHERE j.org_id = ANY (orgs);
    INSERT INTO delayed
    SELECT d.* FROM simulation.delayed d JOIN jobs j USING (job_id) WHERE j.org_id = ANY (orgs);
    INSERT INTO outbox SELECT o.* FROM simulation.outbox o WHERE o.org_id = ANY (orgs);
END $$;
CREATE FUNCTION simulation.put_back(kept jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ready;
    DELETE FROM delayed;
    DELETE FROM leases;
    DELETE FROM outbox;
    DELETE FROM attempts_202601;
    DELETE FROM task_inputs_202601;
    INSERT INTO ready SELECT * FROM jsonb_populate_recordset(NULL::ready, kept -> 'ready');
    INSERT INTO delayed SELECT * FROM jsonb_populate_recordset(NULL::delayed, kept -> 'delayed');
    INSERT INTO leases SELECT * FROM jsonb_populate_recordset(NULL::leases, kept -> 'leases');
    INSERT INTO attempts SELECT * FROM jsonb_populate_recordset(NULL::attempts, kept -> 'attempts');
    UPDATE slots s SET task_id = k.task_id
      FROM slots o
      LEFT JOIN jsonb_populate_recordset(NULL::slots, kept -> 'slots') k USING (slot_id)
     WHERE o.slot_id = s.slot_id AND s.task_id IS DISTINCT FROM k.task_id;
    UPDATE capacities c SET running = coalesce(k.running, 0)
      FROM capacities o
      LEFT JOIN jsonb_populate_recordset(NULL::capacities, kept -> 'capacities') k
      USING (capacity_id)
     WHERE o.capacity_id = c.capacity_id AND c.running <> coalesce(k.running, 0);
END $$;
CREATE FUNCTION simulation.put_back_deploys(kept jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own uuid := (kept -> 'dag' ->> 'dag_id')::uuid;
BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
    DELETE FROM ready;
    DELETE FROM leases;
    DELETE FROM outbox;
    DELETE FROM audit;
    DELETE FROM tasks_202601;
    DELETE FROM attempts_202601;
    DELETE FROM task_inputs_202601;
    DELETE FROM events_202601;
    DELETE FROM gaps;
    DELETE FROM candidate_inputs;
    DELETE FROM deploys WHERE dag_id = own;
    DELETE FROM routes r USING jobs j WHERE j.job_id = r.job_id AND j.dag_id = own;
    DELETE FROM dataset_current c USING datasets s
     WHERE s.dataset_uuid = c.dataset_uuid AND s.dag_id = own;
    DELETE FROM pointer_moves c USING datasets s
     WHERE s.dataset_uuid = c.dataset_uuid AND s.dag_id = own;
    INSERT INTO ready SELECT * FROM jsonb_populate_recordset(NULL::ready, kept -> 'ready');
    INSERT INTO leases SELECT * FROM jsonb_populate_recordset(NULL::leases, kept -> 'leases');
    INSERT INTO tasks SELECT * FROM jsonb_populate_recordset(NULL::tasks, kept -> 'tasks');
    INSERT INTO attempts SELECT * FROM jsonb_populate_recordset(NULL::attempts, kept -> 'attempts');
    INSERT INTO task_inputs
    SELECT * FROM jsonb_populate_recordset(NULL::task_inputs, kept -> 'task_inputs');
    INSERT INTO events SELECT * FROM jsonb_populate_recordset(NULL::events, kept -> 'events');
    INSERT INTO gaps SELECT * FROM jsonb_populate_recordset(NULL::gaps, kept -> 'gaps');
    INSERT INTO candidate_inputs
    SELECT * FROM jsonb_populate_recordset(NULL::candidate_inputs, kept -> 'candidate_inputs');
    INSERT INTO deploys SELECT * FROM jsonb_populate_recordset(NULL::deploys, kept -> 'deploys');
    INSERT INTO routes SELECT * FROM jsonb_populate_recordset(NULL::routes, kept -> 'routes');
    INSERT INTO dataset_current
    SELECT * FROM jsonb_populate_recordset(NULL::dataset_current, kept -> 'dataset_current');
    INSERT INTO pointer_moves
    SELECT * FROM jsonb_populate_recordset(NULL::pointer_moves, kept -> 'pointer_moves');
    UPDATE dags SET active_dag_version_id = (kept -> 'dag' ->> 'active_dag_version_id')::uuid
     WHERE dag_id = own;
    UPDATE dag_versions v SET activated_at = k.activated_at
      FROM jsonb_populate_recordset(NULL::dag_versions, kept -> 'dag_versions') k
     WHERE k.dag_version_id = v.dag_version_id AND v.activated_at IS DISTINCT FROM k.activated_at;
    UPDATE jobs j
       SET standing = k.standing, claimable = k.claimable, built_at = k.built_at,
           caught_up = k.caught_up
      FROM jsonb_populate_recordset(NULL::jobs, kept -> 'jobs') k
     WHERE k.job_id = j.job_id
       AND (j.standing, j.claimable, j.built_at, j.caught_up)
           IS DISTINCT FROM (k.standing, k.claimable, k.built_at, k.caught_up);
    UPDATE version_counters c
       SET last_number = k.last_number, readable = k.readable, max_end = k.max_end, epoch = k.epoch
      FROM jsonb_populate_recordset(NULL::version_counters, kept -> 'version_counters') k
     WHERE k.dataset_version = c.dataset_version;
END $$;
-- Definitions as they were: rows that a schedule made or changed go, and those that it took come
-- back. Written out once for each table, so that its plans are made once.
DO $$
DECLARE
    name text;
    body text := '';
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'dags', 'dag_versions', 'capacities', 'worker_pools', 'slots', 'jobs', 'dag_version_jobs',
        'datasets', 'publications', 'publication_parts', 'dataset_versions', 'dataset_current',
        'edges', 'routes', 'version_counters', 'pointer_moves', 'deploys', 'candidate_inputs',
        'gaps', 'invalidations', 'commits']
    LOOP
        EXECUTE format('CREATE TABLE simulation.kept_%1$s AS TABLE %1$s', name);
        body := body || format(
            'DELETE FROM %1$s x WHERE NOT EXISTS (SELECT FROM simulation.kept_%1$s k'
            || ' WHERE k IS NOT DISTINCT FROM x);'
            || 'INSERT INTO %1$s SELECT * FROM simulation.kept_%1$s EXCEPT SELECT * FROM %1$s;', name);
    END LOOP;
    -- Nothing is compared with what another table holds meanwhile.
    EXECUTE 'CREATE FUNCTION simulation.restore() RETURNS void LANGUAGE plpgsql AS '
            || quote_literal('BEGIN PERFORM set_config(''session_replication_role'', ''replica'', true); '
                             || body || ' END');
END $$;
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT c.oid::regclass::text FROM pg_class c
                 WHERE c.relkind = 'r' AND c.relnamespace IN ('public'::regnamespace,
                                                              'simulation'::regnamespace)
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
    END LOOP;
END $$

-- name: reset
-- Back to the moment after the deploys of these orgs.
SELECT simulation.reset(%(orgs)s::uuid[])

-- name: jobs
-- Every job with what the oracle must know of it.
SELECT j.job_id, j.org_id, d.name AS dag, j.name, j.activation, j.runtime, j.operator,
       j.source_kind, j.max_attempts, j.timeout_seconds, j.pool_id, j.priority,
       ARRAY(SELECT c.capacity_id FROM capacities c
              WHERE c.capacity_id = ANY (j.capacity_ids) AND c.kind <> 'org') AS capacity_ids,
       ARRAY(SELECT v.dataset_uuid FROM dataset_versions v WHERE v.job_id = j.job_id
              ORDER BY v.output_index) AS datasets,
       ARRAY(SELECT v.dataset_version FROM dataset_versions v WHERE v.job_id = j.job_id
              ORDER BY v.output_index) AS versions,
       ARRAY(SELECT e.dataset_uuid FROM edges e
              WHERE e.job_id = j.job_id AND e.triggers) AS triggers,
       j.definition -> 'config' AS config
  FROM jobs j
  JOIN dags d ON d.dag_id = j.dag_id
 ORDER BY j.job_id

-- name: capacities
-- The limit of every counter, and the slots of each pool.
SELECT c.capacity_id, c.max_running FROM capacities c WHERE c.kind <> 'org'

-- fragment: seen
-- Who holds what, what the counters say, and which work could be claimed while no wake-up for it
-- is in the outbox.
    (SELECT json_agg(json_build_array(l.task_id, l.job_id, l.attempt, l.lease_sequence,
                                      l.lease_token, l.started_at IS NOT NULL,
                                      l.canceled_at IS NOT NULL,
                                      extract(epoch FROM l.lease_expires_at), l.slot_id,
                                      l.priority, l.start_token, l.worker_id, l.metered)
                     ORDER BY l.task_id)
       FROM leases l),
    (SELECT json_agg(json_build_array(s.slot_id, s.task_id) ORDER BY s.task_id) FROM slots s
      WHERE s.task_id IS NOT NULL),
    (SELECT json_agg(json_build_array(c.capacity_id, c.running, c.running_backfill))
       FROM capacities c WHERE c.running <> 0 OR c.running_backfill <> 0),
    (SELECT json_agg(json_build_array(k.task_id, k.job_id, k.priority) ORDER BY k.task_id)
       FROM (SELECT task_id, job_id, priority FROM ready WHERE keeps_capacity
             UNION ALL
             SELECT task_id, job_id, priority FROM delayed WHERE keeps_capacity) k),
    (SELECT json_agg(json_build_array(w.org_id, w.runtime, w.ready_at))
       FROM (SELECT j.org_id, j.runtime, extract(epoch FROM min(r.ready_at)) AS ready_at
               FROM ready r
               JOIN jobs j ON j.job_id = r.job_id AND j.claimable
              WHERE r.keeps_capacity OR NOT EXISTS (
                    SELECT FROM capacities c
                     WHERE c.capacity_id = ANY (j.capacity_ids)
                       AND (c.running >= c.max_running
                            OR c.starts_this_hour >= c.max_starts_hourly
                               AND c.hour_started_at + interval '1 hour 12 seconds'
                                   > to_timestamp(%(now)s)
                            OR r.priority = 1 AND c.running_backfill >= c.max_running
                               - least(c.reserved_for_live, greatest(c.max_running - 1, 0))))
              GROUP BY j.org_id, j.runtime) w
      WHERE NOT EXISTS (SELECT FROM outbox o
                         WHERE o.org_id = w.org_id AND o.target = w.runtime
                           AND o.status = 'Pending')),
    (SELECT count(*) FROM tasks_202601),
    (SELECT json_agg(json_build_array(c.org_id, c.capacity_id, c.max_running, c.reserved_for_live,
                                      c.max_starts_hourly,
                                      extract(epoch FROM c.hour_started_at), c.starts_this_hour))
       FROM capacities c WHERE c.kind = 'org')

-- fragment: due
-- When which function will find something to do, and whether anything is left to do at all.
json_build_array(
    (SELECT extract(epoch FROM min(available_at)) FROM outbox WHERE status = 'Pending'),
    (SELECT extract(epoch FROM min(due_at)) FROM delayed),
    (SELECT extract(epoch FROM min(least(lease_expires_at, deadline_at))) FROM leases),
    (SELECT extract(epoch FROM min(greatest(r.ready_at + interval '1 minute',
                                            c.hour_started_at + interval '1 hour 12 seconds')))
       FROM ready r
       JOIN jobs j ON j.job_id = r.job_id AND j.claimable
       LEFT JOIN capacities c
         ON c.org_id = j.org_id AND c.kind = 'org' AND c.starts_this_hour >= c.max_starts_hourly),
    -- A source of another version waits for the day that its version comes back.
    (SELECT count(*) FROM ready r JOIN jobs j ON j.job_id = r.job_id
      WHERE j.activation <> 'source' OR j.claimable)
    + (SELECT count(*) FROM leases) + (SELECT count(*) FROM outbox)
    + (SELECT count(*) FROM delayed d JOIN jobs j ON j.job_id = d.job_id
        WHERE j.activation <> 'source' OR d.failures > 0 AND j.claimable)
    + (SELECT count(*) FROM triggers t JOIN jobs j ON j.job_id = t.job_id
        WHERE t.taken_at IS NULL AND j.standing <> 'retired'),
    (SELECT count(*) FROM deploys WHERE ended_at IS NULL))

-- name: observe
-- After every step.
SELECT json_build_array(
-- include: seen
)

-- name: observe_and_due
-- After every step of the end, where nothing happens until something is due.
SELECT json_build_array(
-- include: seen
,
-- include: due
)

-- name: versions
-- What there is of each DAG that was edited: versions, deploys, jobs, pointers, and what follows.
WITH edited AS MATERIALIZED (
    SELECT d.* FROM dags d
     WHERE (SELECT count(*) FROM deploys b WHERE b.dag_id = d.dag_id) > 1
),
job AS MATERIALIZED (
    SELECT j.* FROM jobs j WHERE j.dag_id IN (SELECT dag_id FROM edited)
)
SELECT json_build_array(
    (SELECT json_agg(json_build_array(e.dag_id, e.org_id, e.name, e.active_dag_version_id,
                                      e.paused_at IS NOT NULL)) FROM edited e),
    (SELECT json_agg(json_build_array(b.deploy_id, b.dag_id, b.number, b.kind, b.status,
                                      b.to_version, b.ended_at IS NOT NULL, b.error)
                     ORDER BY b.number)
       FROM deploys b JOIN edited e ON e.dag_id = b.dag_id),
    (SELECT json_agg(json_build_array(a.dag_version_id, a.job_id))
       FROM dag_version_jobs a JOIN job j ON j.job_id = a.job_id),
    (SELECT json_agg(json_build_array(
                j.job_id, j.dag_id, j.name, j.standing, j.claimable, j.built_at IS NOT NULL,
                j.caught_up, j.activation, j.source_kind, j.max_attempts, j.timeout_seconds,
                (SELECT c.max_running FROM capacities c
                  WHERE c.capacity_id = ANY (j.capacity_ids) AND c.kind = 'job'),
                (SELECT count(*) FROM ready r WHERE r.job_id = j.job_id)
                + (SELECT count(*) FROM delayed d WHERE d.job_id = j.job_id)
                + (SELECT count(*) FROM leases l WHERE l.job_id = j.job_id),
                (SELECT count(*) FROM attempts_202601 a
                  WHERE a.job_id = j.job_id AND a.final
                    AND a.outcome NOT IN ('Completed', 'Canceled')),
                j.capacity_ids))
       FROM job j),
    (SELECT json_agg(json_build_array(s.dag_id, s.job_name, v.job_id))
       FROM dataset_current c
       JOIN dataset_versions v ON v.dataset_version = c.dataset_version
       JOIN datasets s ON s.dataset_uuid = c.dataset_uuid
       JOIN edited e ON e.dag_id = s.dag_id),
    (SELECT count(*)
       FROM (SELECT r.* FROM routes r JOIN job j ON j.job_id = r.job_id) r
       FULL JOIN (SELECT d.* FROM derived_routes d JOIN edited e ON e.dag_id = d.dag_id) d
         ON (d.dataset_version, d.job_id) = (r.dataset_version, r.job_id)
      WHERE (r.route, r.priority, r.runtime, r.triggers)
            IS DISTINCT FROM (d.route, d.priority, d.runtime, d.triggers)),
    (SELECT json_agg(json_build_array(r.job_id, v.job_id))
       FROM routes r
       JOIN dataset_versions v ON v.dataset_version = r.dataset_version
       JOIN job j ON j.job_id = r.job_id),
    (SELECT json_agg(json_build_array(i.job_id, i.dataset_version, i.pinned_at))
       FROM candidate_inputs i WHERE i.pinned_at IS NOT NULL),
    (SELECT json_agg(a.task_id)
       FROM attempts_202601 a WHERE a.final AND a.error_code = 'VersionReplaced'),
    (SELECT json_agg(l.task_id)
       FROM leases l
       JOIN job j ON j.job_id = l.job_id AND j.standing = 'candidate'
       JOIN task_inputs t
         ON (t.task_id, t.attempt, t.lease_sequence) = (l.task_id, l.attempt, l.lease_sequence)
       JOIN edges e ON e.job_id = l.job_id AND e.input_index = t.input_index
       JOIN candidate_inputs i ON i.job_id = l.job_id AND i.dataset_uuid = e.dataset_uuid
      -- A reservation still has the numbers of the attempt before it.
      WHERE l.started_at IS NOT NULL
        AND (t.dataset_version <> i.dataset_version OR t.commit_number <> i.pinned_at)),
    (SELECT json_agg(json_build_array(p.dag_id, p.name, s.name))
       FROM slots s
       JOIN worker_pools p ON p.pool_id = s.pool_id
       JOIN edited e ON e.dag_id = p.dag_id
      WHERE NOT s.retired),
    (SELECT json_agg(json_build_array(g.job_id, g.up_to IS NULL)) FROM gaps g))

-- name: is_waiting
-- A row when that server process waits for a lock.
SELECT FROM pg_stat_activity WHERE pid = %(pid)s AND wait_event_type = 'Lock'

-- name: active_versions
-- The active version of each DAG of an org.
SELECT d.dag_id, d.org_id, d.active_dag_version_id FROM dags d

-- name: version_texts
-- The file of each version of a DAG.
SELECT v.dag_version_id, v.source FROM dag_versions v

-- name: version_jobs
-- Which jobs are together in a version, and which version of a DAG is the active one.
SELECT a.dag_version_id, a.job_id, d.active_dag_version_id = a.dag_version_id AS active
  FROM dag_version_jobs a
  JOIN dag_versions v ON v.dag_version_id = a.dag_version_id
  JOIN dags d ON d.dag_id = v.dag_id

-- name: pointers
-- The current version of each dataset, and the job that makes it.
SELECT c.dataset_uuid, c.dataset_version FROM dataset_current c

-- name: producers
-- The job behind each version of a dataset.
SELECT v.dataset_version, v.dataset_uuid, v.job_id FROM dataset_versions v

-- name: covered
-- How far the current version of each dataset has come.
SELECT c.dataset_uuid, max(e.range_end) AS max_end
  FROM dataset_current c
  JOIN events_202601 e ON e.dataset_version = c.dataset_version
 GROUP BY c.dataset_uuid

-- name: all_inputs
-- What attempts that completed have read.
SELECT t.task_id, t.dataset_version, a.job_id
  FROM task_inputs_202601 t
  JOIN attempts_202601 a
    ON (a.task_id, a.attempt, a.lease_sequence) = (t.task_id, t.attempt, t.lease_sequence)
 WHERE a.outcome = 'Completed'

-- name: all_deploys
SELECT b.number, b.kind, b.status, b.ended_at, d.name AS dag
  FROM deploys b JOIN dags d ON d.dag_id = b.dag_id

-- name: all_gaps
SELECT g.job_id, g.up_to, j.name, j.standing FROM gaps g JOIN jobs j ON j.job_id = g.job_id

-- name: open_retired
-- Tasks of jobs that another version replaced, and which are still there.
SELECT t.task_id, j.name
  FROM jobs j
  JOIN tasks_202601 t ON t.job_id = j.job_id
 WHERE j.standing = 'retired' AND j.activation <> 'source'
   AND NOT EXISTS (SELECT FROM attempts_202601 a WHERE a.task_id = t.task_id AND a.final)

-- name: reactive_tasks
-- Tasks that people may cancel or retry, and how each ended, if it has.
SELECT t.task_id, t.org_id, a.outcome
  FROM tasks_202601 t
  JOIN jobs j ON j.job_id = t.job_id AND j.activation = 'reactive'
  LEFT JOIN attempts_202601 a ON a.task_id = t.task_id AND a.final
 ORDER BY t.task_id

-- name: misplaced
-- Tasks that are not in exactly one place.
SELECT p.task_id, array_agg(p.place ORDER BY p.place) AS places
  FROM (SELECT t.task_id, 'none' AS place FROM tasks_202601 t
         WHERE NOT EXISTS (SELECT FROM ready r WHERE r.job_id = t.job_id
                              AND r.priority = t.priority AND r.task_id = t.task_id)
           AND NOT EXISTS (SELECT FROM delayed d WHERE d.task_id = t.task_id)
           AND NOT EXISTS (SELECT FROM leases l WHERE l.task_id = t.task_id)
           AND NOT EXISTS (SELECT FROM attempts_202601 a WHERE a.task_id = t.task_id AND a.final)
        UNION ALL
        SELECT task_id, 'ready' FROM ready
        UNION ALL
        SELECT task_id, 'delayed' FROM delayed
        UNION ALL
        SELECT task_id, 'leased' FROM leases
        UNION ALL
        SELECT task_id, 'ended' FROM attempts_202601 WHERE final) p
 GROUP BY p.task_id
HAVING count(*) > 1 OR min(p.place) = 'none'

-- name: late_dags
-- What a first deploy left, part by part: all of it, or nothing.
SELECT d.org_id, d.active_dag_version_id IS NOT NULL AS active,
       (SELECT count(*) FROM dag_versions v WHERE v.dag_id = d.dag_id) AS versions,
       (SELECT count(*) FROM jobs j WHERE j.dag_id = d.dag_id) AS jobs,
       (SELECT count(*) FROM slots s JOIN worker_pools p USING (pool_id)
         WHERE p.dag_id = d.dag_id) AS slots,
       (SELECT count(*) FROM datasets s JOIN dataset_current USING (dataset_uuid)
         WHERE s.dag_id = d.dag_id) AS datasets,
       (SELECT count(*) FROM routes r JOIN jobs j USING (job_id)
         WHERE j.dag_id = d.dag_id) AS routes,
       (SELECT count(*) FROM tasks_202601 t JOIN jobs j USING (job_id)
         WHERE j.dag_id = d.dag_id AND t.event_id IS NULL) AS sources
  FROM dags d
 WHERE d.name = 'late'

-- name: all_tasks
SELECT * FROM tasks_202601 ORDER BY task_id

-- name: all_events
SELECT * FROM events_202601 ORDER BY event_id

-- name: all_attempts
SELECT * FROM attempts_202601 ORDER BY task_id, attempt

-- name: all_outputs
SELECT * FROM task_outputs_202601 ORDER BY task_id, attempt, output_index, scope

-- name: all_state
SELECT * FROM operator_state ORDER BY job_id, key

-- name: all_outbox
SELECT * FROM outbox ORDER BY outbox_id

-- name: vacuum
VACUUM ready, delayed, leases, outbox, tasks_202601, attempts_202601, task_inputs_202601,
       task_outputs_202601, events_202601, operator_state, triggers, slots, capacities, dags, jobs

-- name: route_later
-- Of a planted bug: make the tasks of events in a transaction of their own.
WITH made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT (left(e.event_id::text, 32) || r.route)::uuid, e.org_id, r.job_id, r.priority,
           %(now)s, e.event_id, e.producer_task_id, e.dataset_version, e.scope, e.range_start,
           e.range_end, e.revision
      FROM events e
      JOIN routes r ON r.dataset_version = e.dataset_version
     WHERE e.event_id = ANY (%(event_ids)s::uuid[])
    RETURNING task_id, job_id, priority
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    SELECT m.job_id, m.priority, m.task_id, %(now)s FROM made m
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT m.task_id, j.org_id, 'wake', j.runtime, ARRAY[m.task_id], %(now)s, %(now)s
  FROM made m
  JOIN jobs j ON j.job_id = m.job_id

-- name: routes_of_any_version
-- Of a planted bug: whoever reads a dataset gets the events of all its versions.
SELECT r.* FROM derived_routes r WHERE r.job_id IN (SELECT job_id FROM touched)
 UNION
SELECT v.dataset_version, r.job_id, r.route, r.triggers, r.priority, r.runtime, r.dag_id
  FROM derived_routes r
  JOIN dataset_versions u ON u.dataset_version = r.dataset_version
  JOIN dataset_versions v ON v.dataset_uuid = u.dataset_uuid
 WHERE r.job_id IN (SELECT job_id FROM touched)

-- name: routes_of_candidates
-- Of a planted bug: candidates get live events as well.
SELECT r.* FROM derived_routes r WHERE r.job_id IN (SELECT job_id FROM touched)
 UNION
SELECT i.dataset_version, i.job_id, e.route, e.triggers, 1::smallint, j.runtime, j.dag_id
  FROM candidate_inputs i
  JOIN edges e ON e.job_id = i.job_id AND e.dataset_uuid = i.dataset_uuid
  JOIN jobs j ON j.job_id = i.job_id AND j.standing = 'candidate'
 WHERE i.job_id IN (SELECT job_id FROM touched)

-- name: add_one_task
-- One task in the queue, of a made-up event.
WITH made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    VALUES (%(task_id)s, %(org_id)s, %(job_id)s, 0, %(now)s, %(task_id)s, %(task_id)s,
            %(task_id)s, 'c1', 1, 1, 0)
)
INSERT INTO ready (job_id, priority, task_id, ready_at)
VALUES (%(job_id)s, 0, %(task_id)s, %(now)s)

-- name: small_world
-- Where the one task is, what it holds, and how its attempts ended.
SELECT json_build_object(
    'places', (SELECT coalesce(json_agg(p.place), '[]')
                 FROM (SELECT 'ready' AS place FROM ready WHERE task_id = %(task_id)s
                       UNION ALL
                       SELECT 'delayed' FROM delayed WHERE task_id = %(task_id)s
                       UNION ALL
                       SELECT 'leased' FROM leases WHERE task_id = %(task_id)s
                       UNION ALL
                       SELECT 'ended' FROM attempts_202601 WHERE task_id = %(task_id)s AND final) p),
    'leases', (SELECT count(*) FROM leases),
    'held', (SELECT count(*) FROM slots WHERE task_id IS NOT NULL),
    'running', (SELECT json_agg(c.running) FROM capacities c
                 WHERE c.capacity_id = ANY (SELECT unnest(j.capacity_ids) FROM jobs j
                                              JOIN tasks t ON t.job_id = j.job_id
                                             WHERE t.task_id = %(task_id)s)),
    'attempts', (SELECT coalesce(json_agg(json_build_array(a.attempt, a.outcome, a.final)
                                          ORDER BY a.attempt), '[]')
                   FROM attempts_202601 a WHERE a.task_id = %(task_id)s)) AS seen

-- name: small_world_key
-- The state without absolute times and tokens: how long each moment is away, and which attempt.
SELECT (SELECT json_agg(json_build_array(r.attempt, r.failures, r.lapses, r.lease_sequence,
                                         r.lease_token IS NULL))::text FROM ready r)
       AS ready,
       (SELECT json_agg(json_build_array(d.attempt, d.failures, d.lapses, d.lease_sequence,
                                         d.lease_token IS NULL, d.due_at > %(now)s))::text
          FROM delayed d) AS delayed,
       (SELECT json_agg(json_build_array(l.attempt, l.failures, l.lapses, l.lease_sequence,
                                         l.started_at IS NULL, l.worker_id,
                                         l.lease_expires_at > %(now)s,
                                         l.deadline_at > %(now)s))::text FROM leases l)
       AS leases,
       (SELECT json_agg(json_build_array(a.attempt, a.outcome, a.final, a.late,
                                         a.body_digest IS NULL) ORDER BY a.attempt)::text
          FROM attempts_202601 a WHERE a.task_id = %(task_id)s) AS attempts

-- name: keep_small_world
-- The rows that make up a state of the small world.
SELECT jsonb_build_object(
    'ready', (SELECT coalesce(jsonb_agg(r), '[]') FROM ready r),
    'delayed', (SELECT coalesce(jsonb_agg(d), '[]') FROM delayed d),
    'leases', (SELECT coalesce(jsonb_agg(l), '[]') FROM leases l),
    'attempts', (SELECT coalesce(jsonb_agg(a), '[]') FROM attempts_202601 a),
    'slots', (SELECT coalesce(jsonb_agg(s), '[]') FROM slots s WHERE s.task_id IS NOT NULL),
    'capacities', (SELECT coalesce(jsonb_agg(c), '[]') FROM capacities c
                    WHERE c.hour_started_at IS NOT NULL)) AS kept

-- name: put_back_small_world
-- As it was when it was kept.
SELECT simulation.put_back(%(kept)s::jsonb)

-- name: small_deploys_begin
-- Forget the deploys so far; answers the output of the source.
WITH small AS (
    SELECT d.dag_id FROM dags d WHERE d.org_id = %(org_id)s AND d.name = 'small'
),
gap AS (
    DELETE FROM gaps g USING jobs j WHERE j.job_id = g.job_id AND j.dag_id IN (TABLE small)
),
gone AS (
    DELETE FROM deploys b WHERE b.dag_id IN (TABLE small) AND b.number > 1
)
SELECT v.dataset_uuid, v.dataset_version
  FROM dataset_versions v
  JOIN jobs j ON j.job_id = v.job_id AND j.name = 'src' AND j.dag_id IN (TABLE small)

-- name: small_deploys_pin
-- Where the build of an edited job begins.
SELECT max(i.pinned_at) AS pin FROM candidate_inputs i

-- name: small_deploys_head
-- The next task of a job.
SELECT r.task_id, j.standing
  FROM ready r
  JOIN jobs j ON j.job_id = r.job_id AND j.operator = %(operator)s
 ORDER BY r.priority, r.task_id
 LIMIT 1

-- name: small_deploys_key
-- A state without ids and times.
WITH job AS (
    SELECT j.* FROM jobs j JOIN dags d ON d.dag_id = j.dag_id
     WHERE d.org_id = %(org_id)s AND d.name = 'small'
)
SELECT json_build_array(
    (SELECT v.number FROM dags d JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
      WHERE d.org_id = %(org_id)s AND d.name = 'small'),
    (SELECT json_agg(json_build_array(b.number, b.kind, b.status, v.number, b.ended_at IS NOT NULL)
                     ORDER BY b.number)
       FROM deploys b JOIN dag_versions v ON v.dag_version_id = b.to_version
      WHERE b.org_id = %(org_id)s),
    (SELECT json_agg(json_build_array(j.operator, j.standing, j.claimable, j.built_at IS NOT NULL)
                     ORDER BY j.operator) FROM job j),
    (SELECT json_agg(json_build_array(j.operator, g.latest, g.after_number, g.up_to, g.priority)
                     ORDER BY j.operator, g.latest)
       FROM gaps g JOIN job j ON j.job_id = g.job_id),
    (SELECT json_agg(json_build_array(e.scope, e.revision, e.number) ORDER BY e.number)
       FROM events_202601 e),
    (SELECT json_agg(json_build_array(
                j.operator, t.scope, t.revision, t.priority,
                (SELECT r.attempt FROM ready r WHERE r.task_id = t.task_id),
                (SELECT json_build_array(l.attempt, l.canceled_at IS NOT NULL)
                   FROM leases l WHERE l.task_id = t.task_id),
                (SELECT json_agg(json_build_array(a.outcome, a.final) ORDER BY a.attempt)
                   FROM attempts_202601 a WHERE a.task_id = t.task_id))
                     ORDER BY j.operator, t.task_id)
       FROM tasks_202601 t JOIN job j ON j.job_id = t.job_id)) AS key

-- name: keep_small_deploys
-- The rows that make up a state of the small world of deploys.
WITH small AS (
    SELECT d.* FROM dags d WHERE d.org_id = %(org_id)s AND d.name = 'small'
),
job AS (
    SELECT j.* FROM jobs j JOIN small s ON s.dag_id = j.dag_id
),
version AS (
    SELECT v.* FROM dataset_versions v JOIN job j ON j.job_id = v.job_id
)
SELECT jsonb_build_object(
    'dag', (SELECT to_jsonb(s) FROM small s),
    'jobs', (SELECT jsonb_agg(j) FROM job j),
    'dag_versions', (SELECT jsonb_agg(v) FROM dag_versions v JOIN small s ON s.dag_id = v.dag_id),
    'version_counters', (SELECT jsonb_agg(c) FROM version_counters c
                           JOIN version v ON v.dataset_version = c.dataset_version),
    'routes', (SELECT jsonb_agg(r) FROM routes r JOIN job j ON j.job_id = r.job_id),
    'dataset_current', (SELECT jsonb_agg(c) FROM dataset_current c
                          JOIN version v ON v.dataset_version = c.dataset_version),
    'pointer_moves', (SELECT jsonb_agg(m) FROM pointer_moves m
                        JOIN version v ON v.dataset_version = m.dataset_version),
    'deploys', (SELECT jsonb_agg(b) FROM deploys b JOIN small s ON s.dag_id = b.dag_id),
    'gaps', (SELECT coalesce(jsonb_agg(g), '[]') FROM gaps g),
    'candidate_inputs', (SELECT coalesce(jsonb_agg(i), '[]') FROM candidate_inputs i),
    'ready', (SELECT coalesce(jsonb_agg(r), '[]') FROM ready r),
    'leases', (SELECT coalesce(jsonb_agg(l), '[]') FROM leases l),
    'tasks', (SELECT coalesce(jsonb_agg(t), '[]') FROM tasks_202601 t),
    'attempts', (SELECT coalesce(jsonb_agg(a), '[]') FROM attempts_202601 a),
    'task_inputs', (SELECT coalesce(jsonb_agg(t), '[]') FROM task_inputs_202601 t),
    'events', (SELECT coalesce(jsonb_agg(e), '[]') FROM events_202601 e)) AS kept

-- name: put_back_small_deploys
-- As it was when it was kept.
SELECT simulation.put_back_deploys(%(kept)s::jsonb)

-- name: small_deploys_problems
-- What must never be, in any state.
WITH job AS (
    SELECT j.*, d.active_dag_version_id FROM jobs j JOIN dags d ON d.dag_id = j.dag_id
     WHERE d.org_id = %(org_id)s AND d.name = 'small'
),
active AS (
    SELECT j.* FROM job j JOIN dag_version_jobs a
        ON a.dag_version_id = j.active_dag_version_id AND a.job_id = j.job_id
)
SELECT array_remove(ARRAY[
    CASE WHEN EXISTS (SELECT FROM active j
                        JOIN dataset_versions v ON v.job_id = j.job_id
                        JOIN dataset_current c ON c.dataset_uuid = v.dataset_uuid
                       WHERE c.dataset_version <> v.dataset_version)
         THEN 'pointers and active version are apart' END,
    CASE WHEN EXISTS (SELECT FROM job j
                       WHERE (j.standing IN ('active', 'held'))
                             <> (j.job_id IN (SELECT job_id FROM active)))
         THEN 'standings and active version are apart' END,
    CASE WHEN EXISTS (SELECT FROM job j JOIN deploys b ON b.dag_id = j.dag_id
                       WHERE b.status IN ('Building', 'Paused', 'Checking') AND j.name = 'b'
                         AND j.standing <> CASE WHEN j.job_id IN (SELECT job_id FROM active)
                                                THEN 'held' ELSE 'candidate' END)
         THEN 'a build without a hold' END,
    CASE WHEN EXISTS (SELECT FROM routes r FULL JOIN derived_routes d
                          ON (d.dataset_version, d.job_id) = (r.dataset_version, r.job_id)
                       WHERE r.route IS DISTINCT FROM d.route)
         THEN 'routes are not what they must be' END,
    CASE WHEN EXISTS (SELECT FROM tasks_202601 t WHERE t.event_id IS NOT NULL
                       GROUP BY t.event_id, t.job_id HAVING count(*) > 1)
         THEN 'two tasks of one event' END,
    CASE WHEN EXISTS (SELECT FROM tasks_202601 t
                       WHERE (SELECT count(*) FROM ready r WHERE r.task_id = t.task_id)
                             + (SELECT count(*) FROM leases l WHERE l.task_id = t.task_id)
                             + (SELECT count(*) FROM attempts_202601 a
                                 WHERE a.task_id = t.task_id AND a.final) <> 1)
         THEN 'a task is not in one place' END,
    CASE WHEN EXISTS (SELECT FROM leases l
                        JOIN job j ON j.job_id = l.job_id AND j.standing = 'candidate'
                        JOIN task_inputs_202601 t ON (t.task_id, t.attempt) = (l.task_id, l.attempt)
                        JOIN candidate_inputs i ON i.job_id = l.job_id
                       WHERE l.canceled_at IS NULL AND t.commit_number > i.pinned_at)
         THEN 'a candidate reads what its deploy did not fix' END,
    CASE WHEN EXISTS (SELECT FROM deploys b WHERE b.org_id = %(org_id)s
                         AND b.status = 'Checking')
              AND EXISTS (SELECT FROM job j WHERE j.standing = 'candidate'
                             AND (EXISTS (SELECT FROM ready r WHERE r.job_id = j.job_id)
                                  OR EXISTS (SELECT FROM leases l WHERE l.job_id = j.job_id)
                                  OR EXISTS (SELECT FROM gaps g WHERE g.job_id = j.job_id
                                                AND g.up_to IS NOT NULL)))
         THEN 'a build is whole and has open tasks' END], NULL) AS problems

-- name: small_deploys_rest
-- What is left to do, and events that are not reflected once in what is current. Of what was there
-- when a build began, the last event of each scope counts.
WITH active AS (
    SELECT j.job_id, j.operator FROM jobs j
      JOIN dags d ON d.dag_id = j.dag_id AND d.org_id = %(org_id)s AND d.name = 'small'
      JOIN dag_version_jobs a
        ON a.dag_version_id = d.active_dag_version_id AND a.job_id = j.job_id
     WHERE j.name = 'b'
)
SELECT (SELECT count(*) FROM deploys b WHERE b.org_id = %(org_id)s AND b.ended_at IS NULL)
       + (SELECT count(*) FROM ready r)
       + (SELECT count(*) FROM leases l JOIN jobs j ON j.job_id = l.job_id AND j.name = 'b')
       + (SELECT count(*) FROM gaps g JOIN active a ON a.job_id = g.job_id) AS open,
       (SELECT count(*)
          FROM events_202601 e
          JOIN jobs s ON s.job_id = (SELECT v.job_id FROM dataset_versions v
                                      WHERE v.dataset_version = e.dataset_version)
                     AND s.name = 'src'
         CROSS JOIN active a
         WHERE (SELECT count(*) FROM tasks_202601 t
                  JOIN attempts_202601 x ON x.task_id = t.task_id AND x.final
                   AND x.outcome = 'Completed'
                 WHERE t.event_id = e.event_id AND t.job_id = a.job_id) <> 1
           AND NOT (a.operator = 'made_up_rework' AND e.number <= %(pin)s
                    AND EXISTS (SELECT FROM events_202601 n
                                 WHERE n.dataset_version = e.dataset_version
                                   AND n.scope = e.scope AND n.number > e.number
                                   AND n.number <= %(pin)s))) AS missing
