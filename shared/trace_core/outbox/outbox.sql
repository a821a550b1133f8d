-- name: take_due
-- Rows for this relay: whoever takes one holds it until it is available again.
UPDATE outbox
   SET attempts = attempts + 1, available_at = %(now)s + %(lease)s
 WHERE outbox_id = ANY (ARRAY(SELECT o.outbox_id
                                FROM outbox o
                               WHERE o.status = 'Pending' AND o.available_at <= %(now)s
                               ORDER BY o.available_at
                               LIMIT %(limit)s
                                 FOR UPDATE SKIP LOCKED))
RETURNING outbox_id, org_id, kind, target, task_ids, attempts

-- name: finish
-- What was sent is done; the fence is the number of the try, so that a slow relay removes nothing
-- that another one has taken since.
DELETE FROM outbox o
 USING unnest(%(outbox_ids)b::uuid[], %(attempts)s::integer[]) AS d (outbox_id, attempts)
 WHERE o.outbox_id = d.outbox_id AND o.attempts = d.attempts

-- name: postpone
-- Try again later, or give up and alarm.
UPDATE outbox o
   SET status = d.status, available_at = d.available_at, last_error = d.error
  FROM unnest(%(outbox_ids)b::uuid[], %(attempts)s::integer[], %(statuses)s::text[],
              %(available_ats)s::timestamptz[], %(errors)s::text[])
       AS d (outbox_id, attempts, status, available_at, error)
 WHERE o.outbox_id = d.outbox_id AND o.attempts = d.attempts
RETURNING o.outbox_id

-- name: put_back
-- Not sent, and not to blame: available at once, with the try not counted.
UPDATE outbox o
   SET attempts = o.attempts - 1, available_at = %(now)s
  FROM unnest(%(outbox_ids)b::uuid[], %(attempts)s::integer[]) AS d (outbox_id, attempts)
 WHERE o.outbox_id = d.outbox_id AND o.attempts = d.attempts

-- name: failed
-- Rows that were given up.
SELECT outbox_id, kind, target, attempts, created_at, last_error
  FROM outbox
 WHERE status = 'Failed'
 ORDER BY created_at
 LIMIT %(limit)s

-- name: reset_failed
-- Send given-up rows again, after their cause was removed.
UPDATE outbox
   SET status = 'Pending', attempts = 0, available_at = %(now)s
 WHERE status = 'Failed'
RETURNING outbox_id
