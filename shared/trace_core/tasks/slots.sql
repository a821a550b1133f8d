-- name: report_usage
-- Count what leases took of their slots' upstreams, once for each lease, and quarantine a slot whose
-- provider failed too often in a row. Only whoever holds the lease may report.
WITH item AS (
    SELECT *
      FROM unnest(%(task_ids)b::uuid[], %(attempts)s::bigint[], %(lease_tokens)b::uuid[],
                  %(requests)s::bigint[], %(retries)s::bigint[], %(rate_limited)s::bigint[],
                  %(errors)s::bigint[], %(bytes)s::bigint[], %(latencies)s::bigint[],
                  %(faults)s::text[], %(failed)s::boolean[])
           AS i (task_id, attempt, lease_token, requests, retries, rate_limited, errors, bytes,
                 latency_ms, fault, failed)
),
held AS MATERIALIZED (
    SELECT i.*, s.slot_id,
           CASE WHEN i.fault IS NOT NULL THEN s.failures + 1
                WHEN i.failed THEN s.failures ELSE 0 END AS now_failures
      FROM item i
      JOIN leases l
        ON l.task_id = i.task_id AND l.attempt = i.attempt AND l.lease_token = i.lease_token
       AND l.org_id = %(org_id)s AND l.started_at IS NOT NULL
      JOIN slots s ON s.slot_id = l.slot_id AND s.task_id = l.task_id
     WHERE s.reported_lease IS DISTINCT FROM i.lease_token
     ORDER BY s.slot_id
       FOR UPDATE OF s
),
counted AS (
    UPDATE slots s
       SET requests = s.requests + h.requests, retries = s.retries + h.retries,
           rate_limited = s.rate_limited + h.rate_limited, errors = s.errors + h.errors,
           bytes = s.bytes + h.bytes, latency_ms = s.latency_ms + h.latency_ms,
           last_used_at = %(now)s, reported_lease = h.lease_token,
           last_fault = coalesce(h.fault, s.last_fault),
           last_fault_at = CASE WHEN h.fault IS NULL THEN s.last_fault_at ELSE %(now)s END,
           failures = h.now_failures,
           quarantines = CASE WHEN h.now_failures = 0 THEN 0
                              WHEN h.fault IS NOT NULL AND h.now_failures >= %(limit)s
                              THEN s.quarantines + 1 ELSE s.quarantines END,
           quarantined_until = CASE
               WHEN h.now_failures = 0 THEN NULL
               WHEN h.fault IS NOT NULL AND h.now_failures >= %(limit)s
               THEN %(now)s + least(%(base)s * power(2, least(s.quarantines, 20)), %(cap)s)
               ELSE s.quarantined_until END
      FROM held h
     WHERE s.slot_id = h.slot_id
    RETURNING s.slot_id, s.pool_id, s.name, s.failures, s.quarantined_until, h.fault
)
SELECT d.name AS dag, p.name AS pool, c.name AS slot, c.failures, c.fault, c.quarantined_until
  FROM counted c
  JOIN worker_pools p ON p.pool_id = c.pool_id
  JOIN dags d ON d.dag_id = p.dag_id
 WHERE c.fault IS NOT NULL AND c.failures >= %(limit)s

-- name: list_slots
-- The slots of an org, with who holds them and what they took.
SELECT d.name AS dag, p.name AS pool, s.name AS slot, s.env, s.task_id,
       s.quarantined_until > %(now)s AS quarantined, s.quarantined_until, s.failures, s.last_fault,
       s.last_fault_at, s.last_used_at, s.requests, s.retries, s.rate_limited, s.errors, s.bytes,
       s.latency_ms
  FROM slots s
  JOIN worker_pools p ON p.pool_id = s.pool_id
  JOIN dags d ON d.dag_id = p.dag_id
 WHERE p.org_id = %(org_id)s AND NOT s.retired
   AND (%(dag)s::text IS NULL OR d.name = %(dag)s)
 ORDER BY d.name, p.name, s.position

-- name: find_slot
-- One slot, for whoever releases it.
SELECT s.slot_id, s.quarantined_until > %(now)s AS quarantined
  FROM slots s
  JOIN worker_pools p ON p.pool_id = s.pool_id
  JOIN dags d ON d.dag_id = p.dag_id
 WHERE p.org_id = %(org_id)s AND d.name = %(dag)s AND p.name = %(pool)s AND s.name = %(slot)s
   AND NOT s.retired
   FOR UPDATE OF s

-- name: release_slot
-- Out of quarantine, with a clean record.
UPDATE slots
   SET failures = 0, quarantines = 0, quarantined_until = NULL
 WHERE slot_id = %(slot_id)s

-- name: slots_quarantined
-- Slots that are kept from work now.
SELECT count(*) AS count FROM slots WHERE quarantined_until > %(now)s AND NOT retired
