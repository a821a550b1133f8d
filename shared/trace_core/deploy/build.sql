-- Deploys: a version that is built beside what is current, and the sweeps that follow a switch.

-- name: open_deploy
-- The deploy of a DAG that has not been cut over or given up.
SELECT d.deploy_id, d.number, d.status, d.to_version, d.from_version
  FROM deploys d
 WHERE d.dag_id = %(dag_id)s AND d.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')

-- name: add_deploy
-- One more deploy or rollback of a DAG.
INSERT INTO deploys (deploy_id, org_id, dag_id, number, kind, from_version, to_version, status, plan,
                     capacity_id, created_by, created_at, cut_over_at)
SELECT %(deploy_id)s, %(org_id)s, %(dag_id)s,
       1 + coalesce((SELECT max(d.number) FROM deploys d WHERE d.dag_id = %(dag_id)s), 0),
       %(kind)s, %(from_version)s, %(to_version)s, %(status)s, %(plan)s, %(capacity_id)s,
       %(user_id)s, %(now)s, CASE WHEN %(status)s = 'Draining' THEN %(now)s::timestamptz END
RETURNING number

-- name: set_status
-- A deploy goes on, from the very status that the caller saw.
UPDATE deploys
   SET status = %(status)s, error = %(error)s,
       built_at = CASE WHEN %(status)s = 'Checking' THEN %(now)s ELSE built_at END,
       cut_over_at = CASE WHEN %(status)s = 'Draining' THEN %(now)s ELSE cut_over_at END,
       ended_at = CASE WHEN %(status)s = 'Done' THEN %(now)s ELSE ended_at END
 WHERE deploy_id = %(deploy_id)s AND status = %(was)s
RETURNING deploy_id

-- name: jobs_to_build
-- Jobs of a version whose data is not whole.
SELECT j.job_id, j.name, j.activation
  FROM dag_version_jobs a
  JOIN jobs j ON j.job_id = a.job_id
 WHERE a.dag_version_id = %(dag_version_id)s AND j.built_at IS NULL
 ORDER BY j.job_id

-- name: fix_inputs
-- What candidates read: versions made in the same build as they grow, all others as they are now.
INSERT INTO candidate_inputs AS i (job_id, dataset_uuid, deploy_id, dataset_version, pinned_at)
SELECT DISTINCT e.job_id, e.dataset_uuid, %(deploy_id)s::uuid,
       coalesce(o.dataset_version, p.dataset_version),
       CASE WHEN o.dataset_version IS NOT NULL AND o.built_at IS NULL THEN NULL
            ELSE c.readable END
  FROM dag_version_jobs a
  JOIN jobs j ON j.job_id = a.job_id AND j.built_at IS NULL
  JOIN edges e ON e.job_id = j.job_id
  LEFT JOIN LATERAL (
       SELECT v.dataset_version, n.built_at
         FROM dataset_versions v
         JOIN dag_version_jobs b ON b.job_id = v.job_id
         JOIN jobs n ON n.job_id = v.job_id
        WHERE v.dataset_uuid = e.dataset_uuid AND b.dag_version_id = %(dag_version_id)s) o ON true
  LEFT JOIN dataset_current p ON p.dataset_uuid = e.dataset_uuid
  JOIN version_counters c
    ON c.dataset_version = coalesce(o.dataset_version, p.dataset_version)
 WHERE a.dag_version_id = %(dag_version_id)s
    ON CONFLICT (job_id, dataset_uuid) DO UPDATE
       SET deploy_id = excluded.deploy_id, dataset_version = excluded.dataset_version,
           pinned_at = excluded.pinned_at

-- name: open_build
-- The work of the build: one task for each scope that outside inputs hold now, and a gap for all that
-- comes to them until the cutover.
WITH outside AS (
    SELECT i.job_id, i.dataset_version, c.last_number, bool_or(e.triggers) AS triggers
      FROM candidate_inputs i
      JOIN edges e ON e.job_id = i.job_id AND e.dataset_uuid = i.dataset_uuid
      JOIN version_counters c ON c.dataset_version = i.dataset_version
     WHERE i.deploy_id = %(deploy_id)s AND i.pinned_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM silent_edges m
                        WHERE m.job_id = i.job_id AND m.input_index = e.input_index
                          AND m.dataset_uuid = i.dataset_uuid
                          AND m.dataset_version = i.dataset_version)
     GROUP BY i.job_id, i.dataset_version, c.last_number
),
scopes AS (
    INSERT INTO gaps (job_id, dataset_version, latest, after_number, up_to, priority)
    SELECT o.job_id, o.dataset_version, true, 0, o.last_number, 1
      FROM outside o
     WHERE o.triggers AND o.last_number > 0
        ON CONFLICT (job_id, dataset_version, latest) DO UPDATE
           SET after_number = 0, up_to = excluded.up_to, priority = 1
)
INSERT INTO gaps (job_id, dataset_version, latest, after_number)
SELECT o.job_id, o.dataset_version, false, o.last_number
  FROM outside o
    ON CONFLICT (job_id, dataset_version, latest) DO UPDATE
       SET after_number = excluded.after_number, up_to = NULL

-- name: limit_build
-- All jobs of a build together run no more tasks at once than its deploy says. Sources are left out:
-- one that yields would keep its share, and the jobs behind it would wait for ever.
UPDATE jobs j
   SET capacity_ids = j.capacity_ids || %(capacity_id)s::uuid
  FROM dag_version_jobs a
 WHERE a.dag_version_id = %(dag_version_id)s AND j.job_id = a.job_id AND j.built_at IS NULL
   AND j.activation <> 'source'

-- name: lift_build_limit
-- The limit of a build ends with it; answers the counter that nobody needs any longer.
WITH limited AS (
    SELECT b.deploy_id, b.capacity_id FROM deploys b
     WHERE b.deploy_id = %(deploy_id)s AND b.capacity_id IS NOT NULL
),
unmetered AS (
    UPDATE jobs j SET capacity_ids = array_remove(j.capacity_ids, l.capacity_id)
      FROM limited l
     WHERE j.dag_id = %(dag_id)s AND j.capacity_ids @> ARRAY[l.capacity_id]
)
UPDATE deploys b SET capacity_id = NULL FROM limited l WHERE b.deploy_id = l.deploy_id
RETURNING l.capacity_id

-- name: drop_capacity
-- A counter that meters nothing any longer.
DELETE FROM capacities WHERE capacity_id = %(capacity_id)s

-- name: unended_deploys
-- Deploys that have something left to do.
SELECT d.deploy_id, d.org_id, d.dag_id, d.status, d.kind, d.from_version, d.to_version, d.number,
       d.error, g.name AS dag
  FROM deploys d
  JOIN dags g ON g.dag_id = d.dag_id
 WHERE d.ended_at IS NULL
 ORDER BY d.deploy_id

-- name: lock_gap
-- A gap of the DAG that can be filled now; whoever is at one already is left alone.
SELECT g.job_id, g.dataset_version, g.latest, g.after_number, g.up_to, g.priority,
       j.runtime, j.priority AS job_priority, e.route, e.triggers
  FROM gaps g
  JOIN jobs j ON j.job_id = g.job_id AND j.dag_id = %(dag_id)s
   AND j.standing IN ('active', 'held', 'candidate')
  JOIN dataset_versions v ON v.dataset_version = g.dataset_version
 CROSS JOIN LATERAL (
       SELECT min(x.route) AS route, bool_or(x.triggers) AS triggers
         FROM edges x
        WHERE x.job_id = g.job_id AND x.dataset_uuid = v.dataset_uuid) e
 WHERE g.up_to IS NOT NULL
 ORDER BY g.latest, g.job_id, g.dataset_version
 LIMIT 1
   FOR UPDATE OF g SKIP LOCKED

-- fragment: queue_missed
-- From `missed` events to tasks of one job, once each.
made AS (
    INSERT INTO tasks (task_id, org_id, job_id, priority, created_at, event_id, producer_task_id,
                       dataset_version, scope, range_start, range_end, revision)
    SELECT (left(e.event_id::text, 32) || %(route)s)::uuid, %(org_id)s, %(job_id)s, %(priority)s,
           %(now)s, e.event_id, e.producer_task_id, e.dataset_version, e.scope, e.range_start,
           e.range_end, e.revision
      FROM missed e
        ON CONFLICT DO NOTHING
    RETURNING task_id
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, ready_at)
    SELECT %(job_id)s, %(priority)s, m.task_id, %(now)s FROM made m
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT %(outbox_id)s, %(org_id)s, 'wake', %(runtime)s,
           (array_agg(m.task_id))[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM made m
    HAVING count(*) > 0
)

-- name: fill_scopes
-- One task for each scope of a version, from the last event of it.
WITH missed AS (
    SELECT DISTINCT ON (e.scope) e.*
      FROM events e
     WHERE e.dataset_version = %(dataset_version)s AND e.number > 0 AND e.number <= %(up_to)s
       -- A declared invalidation is no content.
       AND NOT EXISTS (SELECT FROM invalidations i
                        WHERE i.event_id = e.event_id AND i.source <> 'replace')
     ORDER BY e.scope, e.number DESC
),
-- include: queue_missed
SELECT count(*) AS made FROM made

-- name: fill_events
-- A task for each event in a part of a gap.
WITH missed AS (
    SELECT e.*
      FROM events e
     WHERE e.dataset_version = %(dataset_version)s AND e.number > %(after_number)s
       AND e.number <= %(until)s AND (%(triggers)s OR e.rewrites)
),
-- include: queue_missed
SELECT count(*) AS made FROM made

-- name: shrink_gap
-- What was filled is no gap any longer.
UPDATE gaps SET after_number = %(until)s
 WHERE job_id = %(job_id)s AND dataset_version = %(dataset_version)s AND latest = %(latest)s

-- name: drop_gap
-- All of it was filled.
DELETE FROM gaps
 WHERE job_id = %(job_id)s AND dataset_version = %(dataset_version)s AND latest = %(latest)s

-- name: cancel_retired
-- Tasks that wait in a job which another version has replaced end here, however they came there; a
-- source's own one stays, and goes on if its version comes back. A switch that brings the job back
-- comes before or after this, as the lock of the job says, and never in between.
WITH stale AS MATERIALIZED (
    SELECT j.job_id, j.org_id
      FROM jobs j
     WHERE j.standing = 'retired' AND j.activation <> 'source'
       AND (EXISTS (SELECT FROM ready r WHERE r.job_id = j.job_id)
            OR EXISTS (SELECT FROM delayed d WHERE d.job_id = j.job_id))
     ORDER BY j.job_id
       FOR SHARE
),
picked AS MATERIALIZED (
    SELECT p.row_id
      FROM stale s
     CROSS JOIN LATERAL (
           SELECT r.ctid AS row_id FROM ready r WHERE r.job_id = s.job_id
            LIMIT %(limit)s FOR UPDATE SKIP LOCKED) p
     LIMIT %(limit)s
),
from_ready AS (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(SELECT row_id FROM picked))
    RETURNING task_id, job_id, attempt, lease_sequence, lease_token
),
from_delayed AS (
    DELETE FROM delayed d
     USING stale s
     WHERE s.job_id = d.job_id
    RETURNING d.task_id, d.job_id, d.attempt, d.lease_sequence, d.lease_token
),
gone AS (
    SELECT * FROM from_ready UNION ALL SELECT * FROM from_delayed
)
INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, ended_at, lease_sequence,
                      lease_token, error_code)
SELECT g.task_id, g.attempt + 1, s.org_id, g.job_id, 'Canceled', true, %(now)s, g.lease_sequence,
       g.lease_token, 'VersionReplaced'
  FROM gone g
  JOIN stale s ON s.job_id = g.job_id
RETURNING task_id

-- name: cancel_retired_leases
-- What runs for a version that is not current, or no longer wanted, is asked to stop. Slices of
-- sources end by themselves.
WITH stale AS MATERIALIZED (
    SELECT j.job_id
      FROM jobs j
     WHERE j.standing = 'retired' AND j.activation <> 'source'
       AND EXISTS (SELECT FROM leases l WHERE l.job_id = j.job_id AND l.canceled_at IS NULL)
     ORDER BY j.job_id
       FOR SHARE
)
UPDATE leases l
   SET canceled_at = %(now)s, cancel_code = 'VersionReplaced'
  FROM stale s
 WHERE s.job_id = l.job_id AND l.canceled_at IS NULL
RETURNING l.task_id

-- name: revive
-- Tasks that ended because their version was replaced, and whose version is there again, go on.
WITH back AS MATERIALIZED (
    SELECT a.task_id, a.attempt
      FROM jobs j
     CROSS JOIN LATERAL (
           SELECT a.task_id, a.attempt
             FROM attempts a
            WHERE a.job_id = j.job_id AND a.outcome <> 'Completed' AND a.outcome = 'Canceled'
              AND a.final AND a.error_code = 'VersionReplaced'
            LIMIT %(limit)s) a
     WHERE j.dag_id = %(dag_id)s AND j.standing <> 'retired' AND j.activation <> 'source'
     LIMIT %(limit)s
),
reopened AS (
    UPDATE attempts a
       SET final = false
      FROM back b
     WHERE a.task_id = b.task_id AND a.attempt = b.attempt AND a.final
    RETURNING a.task_id, a.job_id, a.attempt, a.lease_sequence, a.lease_token
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, attempt, lease_sequence, lease_token, ready_at)
    SELECT r.job_id, t.priority, r.task_id, r.attempt, r.lease_sequence, r.lease_token, %(now)s
      FROM reopened r
     CROSS JOIN LATERAL (SELECT t.priority FROM tasks t WHERE t.task_id = r.task_id) t
    RETURNING job_id, task_id
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
           w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM (SELECT j.runtime, array_agg(q.task_id) AS task_ids
              FROM queued q JOIN jobs j ON j.job_id = q.job_id GROUP BY j.runtime) w
)
SELECT task_id FROM queued

-- name: lock_kept
-- The counters of sources that keep capacity and may not run, in the order of ids, as claims lock
-- them: before what they meter.
SELECT c.capacity_id
  FROM capacities c
 WHERE c.capacity_id IN (
       SELECT unnest(j.capacity_ids)
         FROM jobs j
        WHERE j.dag_id = %(dag_id)s AND j.activation = 'source'
          AND (j.standing IN ('held', 'retired') OR j.caught_up)
          AND (EXISTS (SELECT FROM ready r WHERE r.job_id = j.job_id AND r.keeps_capacity)
               OR EXISTS (SELECT FROM delayed d WHERE d.job_id = j.job_id AND d.keeps_capacity)))
 ORDER BY c.capacity_id
   FOR UPDATE

-- name: release_kept
-- A source that yielded keeps its slot and its share of counters for the next slice. One that may not
-- run gives them to whoever can, its own successor first of all.
WITH resting AS (
    SELECT j.job_id, j.capacity_ids
      FROM jobs j
     WHERE j.dag_id = %(dag_id)s AND j.activation = 'source'
       AND (j.standing IN ('held', 'retired') OR j.caught_up)
),
from_ready AS (
    UPDATE ready r SET keeps_capacity = false
      FROM resting s
     WHERE r.job_id = s.job_id AND r.keeps_capacity
    RETURNING r.task_id, r.job_id, r.priority
),
from_delayed AS (
    UPDATE delayed d SET keeps_capacity = false
      FROM resting s
     WHERE d.job_id = s.job_id AND d.keeps_capacity
    RETURNING d.task_id, d.job_id, d.priority
),
given AS (
    SELECT g.*, s.capacity_ids
      FROM (SELECT * FROM from_ready UNION ALL SELECT * FROM from_delayed) g
      JOIN resting s ON s.job_id = g.job_id
),
released AS (
    SELECT c.capacity_id, count(*) AS held, count(*) FILTER (WHERE g.priority = 1) AS held_backfill
      FROM given g
     CROSS JOIN LATERAL unnest(g.capacity_ids) AS c (capacity_id)
     GROUP BY c.capacity_id
),
counted AS (
    UPDATE capacities c
       SET running = c.running - r.held, running_backfill = c.running_backfill - r.held_backfill
      FROM released r
     WHERE c.capacity_id = r.capacity_id
),
freed AS (
    UPDATE slots s SET task_id = NULL FROM given g WHERE s.task_id = g.task_id
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
           w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM (SELECT j.runtime, array_agg(head.task_id) AS task_ids
              FROM jobs j
             CROSS JOIN LATERAL (
                   SELECT r.task_id FROM ready r
                    WHERE r.job_id = j.job_id ORDER BY r.priority, r.task_id LIMIT 1) head
             WHERE j.claimable AND j.capacity_ids && ARRAY(SELECT capacity_id FROM released)
             GROUP BY j.runtime) w
)
SELECT task_id FROM given

-- name: is_draining
-- Whether anything of a replaced version still waits, runs or holds what others need; whether a gap is
-- not filled; and whether tasks that were canceled with their version have to come back with it.
SELECT EXISTS (SELECT FROM jobs j
                WHERE j.dag_id = %(dag_id)s AND j.standing = 'retired'
                  AND (EXISTS (SELECT FROM leases l WHERE l.job_id = j.job_id)
                       OR EXISTS (SELECT FROM ready r WHERE r.job_id = j.job_id
                                     AND (j.activation <> 'source' OR r.keeps_capacity))
                       OR EXISTS (SELECT FROM delayed d WHERE d.job_id = j.job_id
                                     AND (j.activation <> 'source' OR d.keeps_capacity))))
       OR EXISTS (SELECT FROM jobs j
                   WHERE j.dag_id = %(dag_id)s AND j.standing <> 'retired'
                     AND (EXISTS (SELECT FROM gaps g
                                   WHERE g.job_id = j.job_id AND g.up_to IS NOT NULL)
                          OR EXISTS (SELECT FROM leases l
                                      WHERE l.job_id = j.job_id
                                        AND l.cancel_code = 'VersionReplaced')
                          OR EXISTS (SELECT FROM attempts a
                                      WHERE a.job_id = j.job_id AND a.outcome <> 'Completed'
                                        AND a.outcome = 'Canceled' AND a.final
                                        AND a.error_code = 'VersionReplaced')))
       AS draining

-- name: build_state
-- How far a build is: what is open, what failed, which sources have not covered what the old ones had.
SELECT count(*) AS jobs,
       coalesce(sum(o.waiting), 0)::bigint AS waiting, coalesce(sum(o.running), 0)::bigint AS running,
       coalesce(sum(o.failed), 0)::bigint AS failed,
       count(*) FILTER (WHERE o.unfilled) AS unfilled,
       array_agg(j.name ORDER BY j.name) FILTER (WHERE j.activation = 'source' AND o.behind)
           AS sources_behind,
       array_agg(j.job_id) FILTER (WHERE j.source_kind = 'always_on' AND o.behind = j.caught_up)
           AS sources_to_move
  FROM deploys b
  JOIN dag_version_jobs a ON a.dag_version_id = b.to_version
  JOIN jobs j ON j.job_id = a.job_id AND j.standing = 'candidate'
 CROSS JOIN LATERAL (
       SELECT CASE WHEN j.activation = 'source' THEN 0 ELSE
                  (SELECT count(*) FROM ready r WHERE r.job_id = j.job_id)
                  + (SELECT count(*) FROM delayed w WHERE w.job_id = j.job_id) END AS waiting,
              CASE WHEN j.activation = 'source' AND j.source_kind <> 'always_on' THEN
                  (SELECT count(*) FROM leases l WHERE l.job_id = j.job_id)
                   + (SELECT count(*) FROM triggers t
                       WHERE t.job_id = j.job_id AND t.taken_at IS NULL)
                   ELSE (SELECT count(*) FROM leases l WHERE l.job_id = j.job_id
                            AND (j.activation <> 'source' OR j.caught_up)) END
                  AS running,
              (SELECT count(*) FROM attempts f
                WHERE f.job_id = j.job_id AND f.outcome <> 'Completed' AND f.outcome <> 'Canceled'
                  AND f.final) AS failed,
              EXISTS (SELECT FROM gaps g WHERE g.job_id = j.job_id AND g.up_to IS NOT NULL)
                  -- A build that was given up and begins again: what was canceled comes back.
                  OR j.activation <> 'source' AND EXISTS (
                      SELECT FROM attempts a
                       WHERE a.job_id = j.job_id AND a.outcome <> 'Completed'
                         AND a.outcome = 'Canceled' AND a.final
                         AND a.error_code = 'VersionReplaced') AS unfilled,
              j.source_kind = 'always_on' AND EXISTS (
                  SELECT FROM dataset_versions v
                    JOIN dataset_current p ON p.dataset_uuid = v.dataset_uuid
                    JOIN version_counters c ON c.dataset_version = v.dataset_version
                    JOIN version_counters q ON q.dataset_version = p.dataset_version
                   WHERE v.job_id = j.job_id AND q.max_end > coalesce(c.max_end, -1)) AS behind) o
 WHERE b.deploy_id = %(deploy_id)s

-- name: move_sources
-- Candidate sources that have covered what the old ones had wait for the cutover; those that have not
-- any more, since an old one was at its last slice, go on.
UPDATE jobs SET caught_up = NOT caught_up
 WHERE job_id = ANY (%(job_ids)b::uuid[]) AND standing = 'candidate'

-- name: note_report
-- What a deploy tells people about itself.
UPDATE deploys SET report = report || %(report)s WHERE deploy_id = %(deploy_id)s

-- name: lock_dag_by_id
-- A DAG, locked against other changes of it.
SELECT dag_id, active_dag_version_id FROM dags WHERE dag_id = %(dag_id)s FOR NO KEY UPDATE

-- name: end_deploy
-- Nothing is left to do.
UPDATE deploys
   SET ended_at = %(now)s, status = CASE WHEN status = 'Draining' THEN 'Done' ELSE status END
 WHERE deploy_id = %(deploy_id)s AND status IN ('Draining', 'Canceled') AND ended_at IS NULL

-- name: versions_to_return_to
-- The version of a DAG that was active last before the present one, or the one of that number. Deploys
-- are numbered in the order of their switches; clocks of several hosts would not tell.
SELECT v.dag_version_id, v.number
  FROM dag_versions v
  LEFT JOIN LATERAL (
       SELECT max(d.number) AS number FROM deploys d
        WHERE d.dag_id = v.dag_id AND d.to_version = v.dag_version_id
          AND d.cut_over_at IS NOT NULL) d ON true
 WHERE v.dag_id = %(dag_id)s AND v.activated_at IS NOT NULL
   AND v.dag_version_id <> %(active)s
   AND (%(number)s::integer IS NULL OR v.number = %(number)s)
 ORDER BY d.number DESC NULLS LAST, v.number DESC
 LIMIT 1

-- name: waiting_of_version
-- What waits or runs of a DAG's replaced jobs, and what restored ones have to catch up.
SELECT j.name, j.standing, w.waiting, l.running, g.missed
  FROM jobs j
 CROSS JOIN LATERAL (
       SELECT count(*) AS waiting
         FROM (SELECT FROM ready r WHERE r.job_id = j.job_id LIMIT 100000) r) w
 CROSS JOIN LATERAL (
       SELECT count(*) AS running FROM leases l WHERE l.job_id = j.job_id) l
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(g.up_to - g.after_number), 0)::bigint AS missed
         FROM gaps g WHERE g.job_id = j.job_id AND g.up_to IS NOT NULL) g
 WHERE j.dag_id = %(dag_id)s AND j.activation <> 'source'
   AND (w.waiting > 0 OR l.running > 0 OR g.missed > 0)
 ORDER BY j.standing, j.name

-- name: drop_candidates
-- A build is given up: its jobs read nothing any longer, and their sources may run again next time.
WITH gone AS (
    DELETE FROM candidate_inputs WHERE deploy_id = %(deploy_id)s
)
UPDATE jobs j SET caught_up = false
  FROM dag_version_jobs a
 WHERE a.dag_version_id = %(to_version)s AND j.job_id = a.job_id AND j.caught_up

-- name: plan_state
-- What a plan depends on: the active version, a deploy under way, and what external inputs are.
SELECT jsonb_build_object(
           'active', d.active_dag_version_id,
           'deploy', (SELECT b.deploy_id FROM deploys b
                       WHERE b.dag_id = d.dag_id
                         AND b.status IN ('Building', 'Paused', 'Checking', 'ChecksFailed')),
           'built', (SELECT count(*) FROM jobs j WHERE j.dag_id = d.dag_id AND j.built_at IS NOT NULL),
           'inputs', (SELECT jsonb_agg(c.dataset_version ORDER BY c.dataset_version)
                        FROM (SELECT DISTINCT c.dataset_version
                                FROM dag_version_jobs a
                                JOIN edges e ON e.job_id = a.job_id
                                JOIN datasets s ON s.dataset_uuid = e.dataset_uuid
                                 AND s.dag_id <> d.dag_id
                                JOIN dataset_current c ON c.dataset_uuid = e.dataset_uuid
                               WHERE a.dag_version_id = d.active_dag_version_id) c)) AS state
  FROM dags d
 WHERE d.dag_id = %(dag_id)s

-- name: parts_to_check
-- The outputs behind the names that a version checks, as its own jobs have made them.
SELECT p.name AS dataset, v.dataset_uuid, v.dataset_version, v.backend, c.readable
  FROM dag_versions d
 CROSS JOIN LATERAL jsonb_to_recordset(d.settings -> 'publications') AS p (name text, parts jsonb)
 CROSS JOIN LATERAL jsonb_array_elements(p.parts) WITH ORDINALITY AS t (origin, part)
  JOIN dag_version_jobs a ON a.dag_version_id = d.dag_version_id
  JOIN jobs j ON j.job_id = a.job_id AND j.name = t.origin ->> 'job'
  JOIN dataset_versions v ON v.job_id = j.job_id
   AND v.output_index = (t.origin ->> 'output')::integer
  JOIN version_counters c ON c.dataset_version = v.dataset_version
 WHERE d.dag_version_id = %(dag_version_id)s
 ORDER BY p.name, t.part
