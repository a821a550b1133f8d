-- name: heartbeat
-- Extend a lease; not that of a canceled task, which ends when its lease does.
UPDATE leases
   SET lease_expires_at = %(now)s + %(lease)s
 WHERE task_id = %(task_id)s AND attempt = %(attempt)s AND lease_token = %(lease_token)s
   AND org_id = %(org_id)s AND started_at IS NOT NULL AND canceled_at IS NULL
RETURNING lease_expires_at

-- name: fenced_lease
-- The lease with exactly this fence, whatever its state.
SELECT lease_expires_at, canceled_at, started_at
  FROM leases
 WHERE task_id = %(task_id)s AND attempt = %(attempt)s AND lease_token = %(lease_token)s
   AND org_id = %(org_id)s

-- name: lock_lease
-- The lease of one task with what decides its end; locked until the transaction ends.
SELECT l.*, j.activation, j.max_attempts, j.source_kind, j.schedule
  FROM leases l
  JOIN jobs j ON j.job_id = l.job_id
 WHERE l.task_id = %(task_id)s AND l.org_id = %(org_id)s
   FOR UPDATE OF l

-- name: lock_expired
-- Leases whose time is over: not renewed, or running longer than the job allows. Those of a Spark run
-- are left alone until it is known to have ended, and what follows from that is done.
SELECT l.*, j.activation, j.max_attempts
  FROM leases l
  JOIN jobs j ON j.job_id = l.job_id
 WHERE (l.lease_expires_at <= %(now)s OR (l.started_at IS NOT NULL AND l.deadline_at <= %(now)s))
   AND NOT EXISTS (SELECT FROM spark_runs s
                    WHERE s.task_id = l.task_id AND s.start_token = l.start_token
                      AND s.closed_at IS NULL)
 ORDER BY l.task_id
 LIMIT %(limit)s
   FOR UPDATE OF l SKIP LOCKED

-- name: end_attempts
-- End leases under their fence: the attempt goes to history; a task that goes on is queued again,
-- at once or when it is due; what it held is given back, unless a yielding source keeps it.
WITH item AS (
    SELECT *
      FROM unnest(%(task_ids)b::uuid[], %(lease_sequences)s::integer[], %(ended_attempts)s::integer[],
                  %(outcomes)s::text[], %(due_ats)s::timestamptz[], %(failures)s::integer[],
                  %(lapses)s::integer[], %(continues)s::boolean[], %(keeps)s::boolean[],
                  %(digests)b::uuid[], %(error_codes)s::text[], %(error_messages)s::text[])
           AS i (task_id, lease_sequence, ended_attempt, outcome, due_at, failures, lapses, continues,
                 keeps, body_digest, error_code, error_message)
),
done AS (
    DELETE FROM leases l
     USING item i
     WHERE l.task_id = i.task_id AND l.lease_sequence = i.lease_sequence AND l.org_id = %(org_id)s
    RETURNING l.task_id, l.org_id, l.job_id, l.priority, l.attempt, l.lease_sequence, l.lease_token,
              l.start_token, l.worker_id, l.leased_at, l.started_at, l.slot_id,
              l.metered AND NOT i.keeps AS metered, l.metered AND i.keeps AS keeps_capacity,
              i.ended_attempt, i.outcome, i.due_at, i.failures, i.lapses, i.continues, i.body_digest,
              -- A cancel says itself why: a person, or a version that replaced the task's own.
              CASE WHEN i.outcome = 'Canceled' THEN coalesce(l.cancel_code, i.error_code)
                   ELSE i.error_code END AS error_code,
              i.error_message
),
ended AS (
    INSERT INTO attempts (task_id, attempt, org_id, job_id, outcome, final, leased_at, started_at,
                          ended_at, worker_id, lease_sequence, lease_token, body_digest, error_code,
                          error_message)
    SELECT d.task_id, d.ended_attempt, d.org_id, d.job_id, d.outcome, d.due_at IS NULL, d.leased_at,
           d.started_at, %(now)s, d.worker_id, d.lease_sequence, d.lease_token, d.body_digest,
           d.error_code, d.error_message
      FROM done d
     WHERE d.ended_attempt IS NOT NULL
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, attempt, failures, lapses, lease_sequence,
                       lease_token, continues, keeps_capacity, body_digest, ready_at)
    SELECT d.job_id, d.priority, d.task_id, coalesce(d.ended_attempt, d.attempt), d.failures,
           d.lapses, d.lease_sequence, d.lease_token, d.continues, d.keeps_capacity, d.body_digest,
           %(now)s
      FROM done d
     WHERE d.due_at <= %(now)s
    RETURNING job_id, task_id
),
later AS (
    INSERT INTO delayed (task_id, job_id, priority, attempt, failures, lapses, lease_sequence,
                         lease_token, continues, keeps_capacity, body_digest, due_at)
    SELECT d.task_id, d.job_id, d.priority, coalesce(d.ended_attempt, d.attempt), d.failures,
           d.lapses, d.lease_sequence, d.lease_token, d.continues, d.keeps_capacity, d.body_digest,
           d.due_at
      FROM done d
     WHERE d.due_at > %(now)s
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT (%(outbox_ids)b::uuid[])[row_number() OVER ()], %(org_id)s, 'wake', w.runtime,
           w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM (SELECT j.runtime, array_agg(q.task_id) AS task_ids
              FROM queued q
              JOIN jobs j ON j.job_id = q.job_id
             GROUP BY j.runtime) w
    RETURNING target
),
-- include: release_capacity
-- include: ended_leases
UNION ALL
(SELECT NULL, true FROM woken LIMIT 1)
UNION ALL
(SELECT NULL, true FROM rewoken LIMIT 1)

-- name: move_due
-- Retries and slices whose time has come: from `delayed` to `ready`, with a wake-up.
WITH gone AS (
    DELETE FROM delayed
     WHERE ctid = ANY (ARRAY(SELECT d.ctid
                               FROM delayed d
                              WHERE d.due_at <= %(now)s
                              ORDER BY d.due_at
                              LIMIT %(limit)s
                                FOR UPDATE SKIP LOCKED))
    RETURNING *
),
queued AS (
    INSERT INTO ready (job_id, priority, task_id, attempt, failures, lapses, lease_sequence,
                       lease_token, continues, keeps_capacity, body_digest, ready_at)
    SELECT g.job_id, g.priority, g.task_id, g.attempt, g.failures, g.lapses, g.lease_sequence,
           g.lease_token, g.continues, g.keeps_capacity, g.body_digest, %(now)s
      FROM gone g
),
woken AS (
    INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
    SELECT (left(%(outbox_series)s::uuid::text, 32)
            || lpad(to_hex(row_number() OVER ()), 4, '0'))::uuid,
           w.org_id, 'wake', w.runtime, w.task_ids[1:%(wake_fanout)s], %(now)s, %(now)s
      FROM (SELECT j.org_id, j.runtime, array_agg(g.task_id) AS task_ids
              FROM gone g
              JOIN jobs j ON j.job_id = g.job_id
             GROUP BY j.org_id, j.runtime) w
)
SELECT task_id FROM gone

-- name: sweep_ready
-- Work that has waited longer than a wake-up should take: one row for each org and runtime, reset
-- when an earlier one failed, and none while any wake-up for it is still on its way. Control work is
-- left out: whoever sweeps runs it next, and a wake-up for what has no capacity would go in circles.
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at, sweep_key)
SELECT (left(%(outbox_series)s::uuid::text, 32)
        || lpad(to_hex(row_number() OVER ()), 4, '0'))::uuid,
       w.org_id, 'wake', w.runtime, w.task_ids, %(now)s, %(now)s, 'wake:' || w.runtime
  FROM (SELECT j.org_id, j.runtime, array_agg(head.task_id) AS task_ids
          FROM jobs j
         CROSS JOIN LATERAL (
               SELECT r.task_id, r.ready_at
                 FROM ready r
                WHERE r.job_id = j.job_id
                ORDER BY r.priority, r.task_id
                LIMIT 1) head
         WHERE j.claimable AND NOT j.forbidden AND j.runtime <> 'dispatcher'
           AND head.ready_at <= %(now)s - %(grace)s
         GROUP BY j.org_id, j.runtime
         LIMIT %(limit)s) w
 WHERE NOT EXISTS (SELECT FROM outbox o
                    WHERE o.org_id = w.org_id AND o.kind = 'wake' AND o.target = w.runtime
                      AND o.status = 'Pending' AND o.sweep_key IS NULL)
    ON CONFLICT (org_id, sweep_key) WHERE sweep_key IS NOT NULL
    DO UPDATE SET status = 'Pending', attempts = 0, task_ids = excluded.task_ids,
                  available_at = excluded.available_at
     WHERE outbox.status = 'Failed'
RETURNING target

-- name: sweep_requests
-- Manual sources that lie idle while requests are open: a request and a yield crossed.
UPDATE delayed d
   SET due_at = %(now)s
 WHERE d.due_at > %(now)s AND d.failures = 0
   AND EXISTS (SELECT FROM triggers t WHERE t.job_id = d.job_id AND t.taken_at IS NULL)
RETURNING d.task_id

-- name: orgs_with_ready
-- Orgs that have ready tasks of a runtime.
SELECT DISTINCT j.org_id
  FROM jobs j
 WHERE j.runtime = %(runtime)s AND EXISTS (SELECT FROM ready r WHERE r.job_id = j.job_id)
