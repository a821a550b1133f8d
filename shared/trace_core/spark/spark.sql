-- name: run
-- One run.
SELECT * FROM spark_runs WHERE task_id = %(task_id)s AND start_number = %(start_number)s

-- name: open_run
-- The run of a task that is not over yet.
SELECT * FROM spark_runs WHERE task_id = %(task_id)s AND closed_at IS NULL

-- name: unbegun
-- Open runs that nobody knows to have begun.
SELECT count(*) FROM spark_runs WHERE closed_at IS NULL AND run_id IS NULL AND ended_at IS NULL

-- name: run_by_id
-- Hurry up: somebody says that this run has changed.
UPDATE spark_runs SET look_at = %(now)s
 WHERE run_id = %(run_id)s AND closed_at IS NULL
RETURNING task_id, start_number

-- name: take_runs
-- Open runs that are due for a look: whoever takes one has it until it is due again.
UPDATE spark_runs
   SET look_at = %(now)s + %(hold)s
 WHERE ctid = ANY (ARRAY(SELECT r.ctid
                           FROM spark_runs r
                          WHERE r.closed_at IS NULL AND r.look_at <= %(now)s
                          ORDER BY r.look_at
                          LIMIT %(limit)s
                            FOR UPDATE SKIP LOCKED))
RETURNING *

-- name: look_again
-- When it is due for the next look, unless it is over or somebody wants one earlier.
UPDATE spark_runs SET look_at = %(look_at)s
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND closed_at IS NULL
   AND look_at > %(now)s

-- name: begin_start
-- Somebody is about to ask the service for this run. No row: it is not to begin any more, or has
-- begun; a run that may have begun is asked for again, so that it can be ended.
UPDATE spark_runs
   SET start_tries = start_tries + 1
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND closed_at IS NULL
   AND run_id IS NULL AND ended_at IS NULL
   AND (cancel_requested_at IS NULL OR start_tries > 0)
RETURNING start_tries, cancel_requested_at

-- name: keep_run_id
-- The service has it.
UPDATE spark_runs
   SET run_id = %(run_id)s, state = 'SUBMITTED', submitted_at = %(now)s, look_at = %(now)s
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND run_id IS NULL
RETURNING cancel_requested_at

-- name: observe
-- What the service says about a run that has not ended: times never go back to unknown.
UPDATE spark_runs
   SET state = %(state)s, detail = %(detail)s,
       submitted_at = coalesce(%(submitted_at)s, submitted_at),
       started_at = coalesce(started_at, %(started_at)s),
       ended_at = %(ended_at)s,
       queued_seconds = coalesce(%(queued_seconds)s, queued_seconds),
       vcpu_hours = coalesce(%(vcpu_hours)s, vcpu_hours),
       memory_gb_hours = coalesce(%(memory_gb_hours)s, memory_gb_hours),
       storage_gb_hours = coalesce(%(storage_gb_hours)s, storage_gb_hours)
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND closed_at IS NULL
   AND ended_at IS NULL
RETURNING *

-- name: renew_lease
-- The run is known to run: its attempt keeps its lease. Not that of a canceled task.
UPDATE leases l
   SET lease_expires_at = %(now)s + %(lease)s
  FROM spark_runs r
 WHERE r.task_id = %(task_id)s AND r.start_number = %(start_number)s AND r.closed_at IS NULL
   AND l.task_id = r.task_id AND l.start_token = r.start_token AND l.attempt = r.attempt
   AND l.lease_sequence = r.lease_sequence AND l.started_at IS NOT NULL AND l.canceled_at IS NULL
RETURNING l.task_id

-- name: request_cancel
-- Ask the relay to end a run; once.
WITH canceled AS (
    UPDATE spark_runs
       SET cancel_reason = %(reason)s, cancel_requested_at = %(now)s
     WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND closed_at IS NULL
       AND ended_at IS NULL AND cancel_requested_at IS NULL
    RETURNING task_id, org_id
)
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at)
SELECT %(outbox_id)s, c.org_id, 'spark_cancel', c.task_id::text, ARRAY[c.task_id], %(now)s, %(now)s
  FROM canceled c
RETURNING target

-- name: sweep_row
-- The row of the outbox that a run still needs, when there is none on its way: begun anew when it was
-- given up.
INSERT INTO outbox (outbox_id, org_id, kind, target, task_ids, created_at, available_at, sweep_key)
SELECT %(outbox_id)s, %(org_id)s, %(kind)s, %(target)s, ARRAY[%(task_id)s::uuid], %(now)s, %(now)s,
       %(kind)s || ':' || %(target)s
 WHERE NOT EXISTS (SELECT FROM outbox o
                    WHERE o.org_id = %(org_id)s AND o.kind = %(kind)s AND o.target = %(target)s
                      AND o.status = 'Pending')
    ON CONFLICT (org_id, sweep_key) WHERE sweep_key IS NOT NULL
    DO UPDATE SET status = 'Pending', attempts = 0, available_at = excluded.available_at
     WHERE outbox.status = 'Failed'
RETURNING target

-- name: never_began
-- A run that was never asked for, or that the service will never take, has ended.
UPDATE spark_runs
   SET state = %(state)s, detail = %(detail)s, ended_at = %(now)s, look_at = %(now)s
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND run_id IS NULL
   AND ended_at IS NULL AND closed_at IS NULL AND (start_tries = 0 OR %(refused)s)
RETURNING *

-- name: lost_run
-- The service does not know it any more.
UPDATE spark_runs
   SET state = 'LOST', detail = %(detail)s, ended_at = %(now)s
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND ended_at IS NULL
   AND closed_at IS NULL
RETURNING *

-- name: count_end_try
-- Somebody is about to do what follows from its end. No row: all of it is done.
UPDATE spark_runs SET end_tries = end_tries + 1
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND closed_at IS NULL
RETURNING end_tries

-- name: close
-- All that follows from its end is done: the task may have another run.
UPDATE spark_runs SET closed_at = %(now)s
 WHERE task_id = %(task_id)s AND start_number = %(start_number)s AND closed_at IS NULL
   AND ended_at IS NOT NULL
RETURNING start_number

-- name: outcome_of_attempt
-- How the attempt of a run ended, if it has.
SELECT a.outcome FROM attempts a
 WHERE a.task_id = %(task_id)s AND a.attempt = %(attempt)s AND a.lease_sequence = %(lease_sequence)s

-- name: figures
-- For whoever watches all runs together.
SELECT count(*) AS open,
       count(*) FILTER (WHERE r.ended_at IS NOT NULL) AS unfinished,
       min(r.prepared_at) FILTER (WHERE r.started_at IS NULL AND r.ended_at IS NULL)
           AS oldest_waiting_at,
       min(r.cancel_requested_at) FILTER (WHERE r.ended_at IS NULL) AS oldest_cancel_at,
       min(r.ended_at) AS oldest_end_at
  FROM spark_runs r
 WHERE r.closed_at IS NULL

-- name: narrowed
-- Which of the versions keep their rows by scopes of the same kind as this one: only those are cut
-- down to it.
SELECT w.dataset_version
  FROM unnest(%(versions)b::uuid[]) AS w (dataset_version)
 WHERE CASE WHEN %(range_start)s::bigint IS NULL
            THEN EXISTS (SELECT FROM commits c
                          WHERE c.dataset_version = w.dataset_version AND c.scope = %(scope)s)
            ELSE EXISTS (SELECT FROM commits c
                          WHERE c.dataset_version = w.dataset_version AND c.replaced_at IS NULL
                            AND c.range_end IS NOT NULL)
       END
