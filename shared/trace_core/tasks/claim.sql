-- fragment: lease_taken
-- From `taken` ready rows to leases with their pinned inputs. A slice that continues keeps its
-- attempt; everything else starts the next one.
leased AS (
    INSERT INTO leases (task_id, org_id, job_id, priority, attempt, failures, lapses,
                        lease_sequence, lease_token, worker_id, leased_at, started_at,
                        lease_expires_at, deadline_at, metered, of_source, slot_id)
    SELECT t.task_id, %(org_id)s, t.job_id, t.priority,
           t.attempt + CASE WHEN t.continues THEN 0 ELSE 1 END, t.failures, 0,
           t.lease_sequence + 1, (%(lease_tokens)b::uuid[])[t.n], %(worker_id)s, %(now)s, %(now)s,
           %(now)s + %(lease)s, %(now)s + t.timeout_seconds * interval '1 second', t.metered,
           t.of_source, t.slot_id
      FROM taken t
    RETURNING *
),
-- include: pin_inputs

-- fragment: current_pins
-- What the `leased` tasks read, all of it as of this statement: of each input its current version
-- and the last commit that can be read there; a candidate reads what its deploy has fixed.
pin AS MATERIALIZED (
    SELECT e.job_id, e.input_index, v.dataset_version, coalesce(i.pinned_at, v.readable) AS number,
           coalesce(c.swap, 0) AS swap
      FROM (SELECT DISTINCT job_id FROM leased) l
      JOIN edges e ON e.job_id = l.job_id
      LEFT JOIN dataset_current c ON c.dataset_uuid = e.dataset_uuid
      LEFT JOIN candidate_inputs i ON i.job_id = e.job_id AND i.dataset_uuid = e.dataset_uuid
      JOIN version_counters v
        ON v.dataset_version = coalesce(i.dataset_version, c.dataset_version)
)

-- fragment: pins_as_text
-- Tasks of one job read the same, so there is one text for each job: `index version number swap`,
-- with commas between inputs.
pins AS (
    SELECT p.job_id,
           string_agg(concat_ws(' ', p.input_index, p.dataset_version, p.number, p.swap), ',')
               AS pins
      FROM pin p
     GROUP BY p.job_id
)

-- fragment: pin_inputs
-- The pins of the `leased` tasks, and their record.
-- include: current_pins
,
pinned AS (
    INSERT INTO task_inputs (task_id, attempt, lease_sequence, input_index, dataset_version,
                             commit_number, swap)
    SELECT l.task_id, l.attempt, l.lease_sequence, p.input_index, p.dataset_version, p.number,
           p.swap
      FROM leased l
      JOIN pin p ON p.job_id = l.job_id
),
-- include: pins_as_text

-- fragment: no_pins
-- A reservation reads nothing yet.
pins AS (
    SELECT NULL::uuid AS job_id, NULL::text AS pins WHERE false
)

-- fragment: reserve_taken
-- From `taken` ready rows to reservations: capacity and slot are held, the attempt is not begun.
leased AS (
    INSERT INTO leases (task_id, org_id, job_id, priority, attempt, failures, lapses,
                        lease_sequence, lease_token, start_token, continues, worker_id, leased_at,
                        lease_expires_at, deadline_at, metered, of_source, slot_id)
    SELECT t.task_id, %(org_id)s, t.job_id, t.priority, t.attempt, t.failures, t.lapses,
           t.lease_sequence, t.lease_token, (%(lease_tokens)b::uuid[])[t.n], t.continues,
           %(worker_id)s, %(now)s, %(now)s + %(lease)s, %(now)s + %(lease)s, t.metered,
           t.of_source, t.slot_id
      FROM taken t
    RETURNING *
),
-- include: no_pins

-- fragment: claimable_jobs
-- Jobs that may run at all, of this org and runtime. Live work never waits for a backfill, but it does
-- wait for a build that holds some of it: one claim in a few serves those builds first.
claimable AS (
    SELECT j.job_id, j.timeout_seconds, j.capacity_ids, j.activation = 'source' AS of_source,
           %(builds_first)s AND j.standing = 'candidate'
           AND EXISTS (SELECT FROM jobs h
                        WHERE h.dag_id = j.dag_id AND h.standing = 'held') AS first
      FROM jobs j
     WHERE j.org_id = %(org_id)s AND j.runtime = %(runtime)s AND j.claimable AND NOT j.forbidden
       AND j.job_id <> ALL (%(skipped_jobs)b::uuid[])
)

-- fragment: take_lanes
-- A lane is a job with its most urgent ready task. Lanes are served in the order of those tasks:
-- live before backfill, then the oldest. Serving stops before the first metered lane, which is
-- reported instead: its capacity must be locked before anything is taken.
lane AS MATERIALIZED (
    SELECT c.job_id, c.timeout_seconds, c.of_source, c.capacity_ids <> '{}' AS metered,
           head.priority,
           bool_or(c.capacity_ids <> '{}') OVER lanes AS beyond, row_number() OVER lanes AS place
      FROM claimable c
     CROSS JOIN LATERAL (
           SELECT r.priority, r.task_id
             FROM ready r
            WHERE r.job_id = c.job_id
            ORDER BY r.priority, r.task_id
            LIMIT 1) head
    WINDOW lanes AS (ORDER BY NOT c.first, head.priority, head.task_id)
),
picked AS MATERIALIZED (
    SELECT p.row_id, l.job_id, l.timeout_seconds
      FROM (SELECT * FROM lane WHERE NOT beyond ORDER BY place) l
     CROSS JOIN LATERAL (
           SELECT r.ctid AS row_id
             FROM ready r
            WHERE r.job_id = l.job_id AND r.priority = l.priority
            ORDER BY r.task_id
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED) p
     LIMIT %(limit)s
),
gone AS (
    DELETE FROM ready
     WHERE ctid = ANY (ARRAY(SELECT row_id FROM picked))
    RETURNING *
),
taken AS (
    SELECT g.*, row_number() OVER () AS n, j.timeout_seconds, j.of_source, false AS metered,
           NULL::uuid AS slot_id
      FROM gone g
      JOIN lane j ON j.job_id = g.job_id
)

-- fragment: claimed_rows
-- What the caller gets for each lease: the fence, what made the task and what it reads. Times and
-- the event's id are not among it, since they follow from what the caller knows.
SELECT l.task_id, l.job_id, l.attempt, l.lease_sequence, l.lease_token, l.start_token, l.slot_id,
       l.priority, t.producer_task_id, t.dataset_version, t.scope, t.range_start, t.range_end,
       t.revision, p.pins
  FROM leased l
 CROSS JOIN LATERAL (SELECT * FROM tasks t WHERE t.task_id = l.task_id) t
  LEFT JOIN pins p ON p.job_id = l.job_id

-- name: claim
-- Lease up to `limit` ready tasks of one runtime; a row without task names a metered lane in front.
WITH
-- include: claimable_jobs
,
-- include: take_lanes
,
-- include: lease_taken
-- include: claimed_rows
UNION ALL
(SELECT NULL, l.job_id, NULL, NULL, NULL, NULL, NULL, l.priority, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL
   FROM lane l
  WHERE l.metered
  ORDER BY l.place
  LIMIT 1)

-- name: reserve
-- As `claim`, for a runtime that is started by us: hold what the task needs until its runner calls.
WITH
-- include: claimable_jobs
,
-- include: take_lanes
,
-- include: reserve_taken
-- include: claimed_rows
UNION ALL
(SELECT NULL, l.job_id, NULL, NULL, NULL, NULL, NULL, l.priority, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL
   FROM lane l
  WHERE l.metered
  ORDER BY l.place
  LIMIT 1)

-- name: lock_capacities
-- The counters that meter one job, in the order of their ids. Locked before anything is taken, so
-- that the next statement sees what the last holder left.
SELECT c.*
  FROM capacities c
 WHERE c.capacity_id = ANY (SELECT unnest(j.capacity_ids) FROM jobs j WHERE j.job_id = %(job_id)s)
 ORDER BY c.capacity_id
   FOR UPDATE

-- name: kept_capacity
-- A source that yielded with its capacity in hand, and the slot it kept.
SELECT r.task_id, s.slot_id
  FROM ready r
  LEFT JOIN slots s ON s.task_id = r.task_id
 WHERE r.job_id = %(job_id)s AND r.keeps_capacity
 LIMIT 1

-- name: free_slots
-- Slots of the job's pool that nobody holds and that are in no quarantine; if all of the pool are,
-- the one that is due first. Those that have just failed come last: a retry gets another one.
SELECT s.slot_id
  FROM slots s
  JOIN jobs j ON j.pool_id = s.pool_id
 WHERE j.job_id = %(job_id)s AND s.task_id IS NULL AND NOT s.retired
   AND (s.quarantined_until IS NULL OR s.quarantined_until <= %(now)s
        OR s.slot_id = (SELECT q.slot_id FROM slots q
                         WHERE q.pool_id = s.pool_id AND NOT q.retired
                         ORDER BY q.quarantined_until NULLS FIRST, q.position
                         LIMIT 1))
 ORDER BY s.failures, s.position
 LIMIT %(limit)s
   FOR UPDATE OF s

-- name: pool_of_job
-- The worker pool whose slots the job's tasks need, if any.
SELECT pool_id FROM jobs WHERE job_id = %(job_id)s

-- fragment: take_of_job
-- Ready tasks of one job, by id or the most urgent first.
claimable AS (
    SELECT j.job_id, j.timeout_seconds, j.capacity_ids <> '{}' AS metered,
           j.activation = 'source' AS of_source
      FROM jobs j
     WHERE j.org_id = %(org_id)s AND j.job_id = %(job_id)s AND j.claimable AND NOT j.forbidden
       -- A quota that came since the counters were locked would not be charged: take nothing.
       AND j.capacity_ids <@ %(capacity_ids)b::uuid[]
),
picked AS MATERIALIZED (
    SELECT r.ctid AS row_id
      FROM ready r
     WHERE r.job_id = (SELECT job_id FROM claimable) AND r.priority = ANY (%(priorities)s::smallint[])
       AND (%(task_ids)b::uuid[] IS NULL OR r.task_id = ANY (%(task_ids)b::uuid[]))
     ORDER BY r.priority, r.task_id
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM ready
     WHERE ctid = ANY (ARRAY(SELECT row_id FROM picked))
    RETURNING *
),
taken AS (
    SELECT g.*, c.timeout_seconds, c.metered, c.of_source, (%(slot_ids)b::uuid[])[g.n] AS slot_id
      FROM (SELECT gone.*, row_number() OVER (ORDER BY priority, task_id) AS n FROM gone) g
      JOIN claimable c ON c.job_id = g.job_id
)

-- name: claim_of_job
-- Lease ready tasks of one job within the allowance that the caller computed under the lock.
WITH
-- include: take_of_job
,
-- include: lease_taken
-- include: claimed_rows

-- name: reserve_of_job
-- Reserve ready tasks of one job within the allowance that the caller computed under the lock.
WITH
-- include: take_of_job
,
-- include: reserve_taken
-- include: claimed_rows

-- name: charge_capacities
-- Count what was just taken; the rows are locked by this transaction.
UPDATE capacities
   SET running = running + %(taken)s,
       running_backfill = running_backfill + %(taken_backfill)s,
       hour_started_at = CASE WHEN hour_started_at > %(now)s - interval '1 hour'
                              THEN hour_started_at ELSE %(now)s END,
       starts_this_hour = CASE WHEN hour_started_at > %(now)s - interval '1 hour'
                               THEN starts_this_hour ELSE 0 END + %(taken)s
 WHERE capacity_id = ANY (%(capacity_ids)b::uuid[])

-- name: hold_slots
-- Give each slot to the task that was leased with it.
UPDATE slots s
   SET task_id = h.task_id
  FROM unnest(%(slot_ids)b::uuid[], %(task_ids)b::uuid[]) AS h (slot_id, task_id)
 WHERE s.slot_id = h.slot_id AND (s.task_id IS NULL OR s.task_id = h.task_id)

-- name: locate
-- Where tasks are, so that a claim by id can say why not.
SELECT t.task_id, t.job_id, t.priority,
       r.task_id IS NOT NULL AS is_ready, l.task_id IS NOT NULL AS is_leased,
       d.due_at, f.outcome AS final_outcome, j.claimable, j.forbidden
  FROM unnest(%(task_ids)b::uuid[]) AS w (task_id)
 CROSS JOIN LATERAL (
       SELECT * FROM tasks t WHERE t.task_id = w.task_id AND t.org_id = %(org_id)s) t
  JOIN jobs j ON j.job_id = t.job_id AND j.runtime = %(runtime)s
  LEFT JOIN ready r
    ON r.job_id = t.job_id AND r.priority = t.priority AND r.task_id = t.task_id
  LEFT JOIN leases l ON l.task_id = t.task_id
  LEFT JOIN delayed d ON d.task_id = t.task_id
  LEFT JOIN LATERAL (
       SELECT a.outcome FROM attempts a
        WHERE a.task_id = t.task_id AND a.final
        ORDER BY a.attempt DESC LIMIT 1) f ON true

-- name: start
-- The exchange: a reservation becomes the next attempt of exactly one runner.
WITH leased AS (
    UPDATE leases l
       SET attempt = l.attempt + CASE WHEN l.continues THEN 0 ELSE 1 END,
           lease_sequence = l.lease_sequence + 1, lease_token = %(lease_token)s, lapses = 0,
           worker_id = %(runner_id)s, started_at = %(now)s, lease_expires_at = %(now)s + %(lease)s,
           deadline_at = %(now)s + j.timeout_seconds * interval '1 second'
      FROM jobs j
     WHERE l.task_id = %(task_id)s AND l.start_token = %(start_token)s
       AND l.started_at IS NULL AND l.canceled_at IS NULL AND j.job_id = l.job_id
       -- Of a version that is gone nothing begins: its inputs are those of another one by now.
       AND NOT j.forbidden AND j.standing <> 'retired'
    RETURNING l.*
),
-- include: pin_inputs
-- include: claimed_rows

-- fragment: pins_of_lease
-- What the one `leased` task read at its start.
pins AS (
    SELECT l.job_id,
           string_agg(concat_ws(' ', i.input_index, i.dataset_version, coalesce(i.commit_number, 0),
                                coalesce(i.swap, 0)), ',') AS pins
      FROM leased l
      JOIN task_inputs i
        ON i.task_id = l.task_id AND i.attempt = l.attempt AND i.lease_sequence = l.lease_sequence
     GROUP BY l.job_id
)

-- name: started_before
-- The lease that this runner already got: its first reply was lost.
WITH leased AS (
    SELECT l.*
      FROM leases l
     WHERE l.task_id = %(task_id)s AND l.start_token = %(start_token)s
       AND l.worker_id = %(runner_id)s AND l.started_at IS NOT NULL
),
-- include: pins_of_lease
-- include: claimed_rows

-- name: org_of_start_token
-- Whose task a start token belongs to, also after the exchange.
SELECT l.org_id, l.canceled_at IS NOT NULL AS canceled, l.started_at, l.lease_expires_at,
       j.forbidden, j.standing = 'retired' AS retired
  FROM leases l
  JOIN jobs j ON j.job_id = l.job_id
 WHERE l.task_id = %(task_id)s AND l.start_token = %(start_token)s
