-- name: prepare_run
-- A reserved task gets a run: what it reads is fixed now, and the relay is asked to start it. No row:
-- the reservation is gone, its job may not run, or an earlier run of the task has not ended.
WITH leased AS (
    SELECT l.*, j.timeout_seconds
      FROM leases l
      JOIN jobs j ON j.job_id = l.job_id
     WHERE l.task_id = %(task_id)s AND l.start_token = %(start_token)s AND l.started_at IS NULL
       AND l.canceled_at IS NULL AND NOT j.forbidden AND j.standing <> 'retired'
       FOR UPDATE OF l
),
-- include: current_pins
,
-- include: pins_as_text
,
prepared AS (
    INSERT INTO spark_runs (task_id, start_number, org_id, job_id, attempt, lease_sequence,
                            start_token, pins, timeout_seconds, prepared_at, look_at)
    SELECT l.task_id,
           1 + coalesce((SELECT max(s.start_number) FROM spark_runs s
                          WHERE s.task_id = l.task_id), 0),
           l.org_id, l.job_id, l.attempt + 1, l.lease_sequence + 1, l.start_token,
           coalesce((SELECT p.pins FROM pins p WHERE p.job_id = l.job_id), ''), l.timeout_seconds,
           %(now)s, %(now)s + %(poll)s
      FROM leased l
        ON CONFLICT DO NOTHING
    RETURNING task_id, start_number, org_id
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT %(outbox_id)s, p.org_id, 'spark_start', p.task_id::text, ARRAY[p.task_id], %(now)s, %(now)s
  FROM prepared p
RETURNING target

-- name: exchange_run
-- The platform's own exchange, once a run is known to have begun or to have ended: the reservation
-- becomes the attempt that the run was prepared as, and reads what was pinned then.
WITH leased AS (
    UPDATE leases l
       SET attempt = r.attempt, lease_sequence = r.lease_sequence, lease_token = %(lease_token)s,
           lapses = 0, worker_id = %(worker_id)s, started_at = %(started_at)s,
           lease_expires_at = %(now)s + %(lease)s,
           deadline_at = %(started_at)s + r.timeout_seconds * interval '1 second'
      FROM spark_runs r
      JOIN jobs j ON j.job_id = r.job_id
     WHERE r.task_id = %(task_id)s AND r.start_number = %(start_number)s AND r.closed_at IS NULL
       AND l.task_id = r.task_id AND l.start_token = r.start_token AND l.started_at IS NULL
       AND l.canceled_at IS NULL AND NOT j.forbidden AND j.standing <> 'retired'
    RETURNING l.task_id, l.attempt, l.lease_sequence, l.started_at, r.pins
),
pinned AS (
    INSERT INTO task_inputs (task_id, attempt, lease_sequence, input_index, dataset_version,
                             commit_number, swap)
    SELECT l.task_id, l.attempt, l.lease_sequence, split_part(p.pin, ' ', 1)::integer,
           split_part(p.pin, ' ', 2)::uuid, split_part(p.pin, ' ', 3)::bigint,
           split_part(p.pin, ' ', 4)::bigint
      FROM leased l
     CROSS JOIN LATERAL regexp_split_to_table(l.pins, ',') AS p (pin)
     WHERE p.pin <> ''
)
UPDATE spark_runs r
   SET exchanged_at = %(now)s,
       -- One that ended before it ran has begun as an attempt, and has no time of running.
       started_at = CASE WHEN r.started_at IS NOT NULL THEN l.started_at END
  FROM leased l
 WHERE r.task_id = l.task_id AND r.start_number = %(start_number)s
RETURNING r.start_number

-- name: lease_of_run
-- What a run holds: its reservation, or the lease that came of it.
SELECT l.org_id, l.task_id, l.attempt, l.lease_sequence, l.lease_token, l.started_at, l.deadline_at,
       l.canceled_at, l.slot_id, l.failures, l.lapses, l.continues
  FROM leases l
 WHERE l.task_id = %(task_id)s AND l.start_token = %(start_token)s

-- name: run_with_trigger
-- What its payload is made of: the lease that the run has or will have, and what made the task.
SELECT r.org_id, r.task_id, r.job_id, r.attempt, r.lease_sequence, NULL::uuid AS lease_token,
       NULL::uuid AS start_token, NULL::uuid AS slot_id, r.pins, t.producer_task_id,
       t.dataset_version, t.scope, t.range_start, t.range_end, t.revision
  FROM spark_runs r
  JOIN tasks t ON t.task_id = r.task_id
 WHERE r.task_id = %(task_id)s AND r.start_number = %(start_number)s

-- name: cancel_run_of_task
-- The open run of a task that a person canceled is to end as well.
WITH canceled AS (
    UPDATE spark_runs
       SET cancel_reason = 'Canceled', cancel_requested_at = %(now)s, look_at = %(now)s
     WHERE task_id = %(task_id)s AND org_id = %(org_id)s AND closed_at IS NULL
       AND cancel_requested_at IS NULL
    RETURNING task_id, org_id
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT %(cancel_outbox_id)s, c.org_id, 'spark_cancel', c.task_id::text, ARRAY[c.task_id], %(now)s,
       %(now)s
  FROM canceled c
RETURNING target
