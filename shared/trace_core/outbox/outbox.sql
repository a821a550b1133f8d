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
-- Not sent, and not to blame: available at once, with the try not counted. It stands for what waits
-- now, and is as old as this look at it.
UPDATE outbox o
   SET attempts = o.attempts - 1, created_at = %(now)s, available_at = %(now)s
  FROM unnest(%(outbox_ids)b::uuid[], %(attempts)s::integer[]) AS d (outbox_id, attempts)
 WHERE o.outbox_id = d.outbox_id AND o.attempts = d.attempts

-- name: list_rows
-- What of one org waits to leave the database, or was given up; the oldest first.
SELECT o.outbox_id, o.kind, o.target, cardinality(o.task_ids) AS tasks, o.status, o.attempts,
       o.created_at, o.available_at, o.last_error
  FROM outbox o
 WHERE o.org_id = %(org_id)s AND o.outbox_id > %(after)s
   AND (%(status)s::text IS NULL OR o.status = %(status)s)
   AND (%(kind)s::text IS NULL OR o.kind = %(kind)s)
   AND (%(target)s::text IS NULL OR o.target = %(target)s)
 ORDER BY o.outbox_id
 LIMIT %(limit)s

-- name: reset_rows
-- Let the relay try now: given-up rows with all of their tries anew, postponed ones ahead of time.
-- The tries of a postponed row stay: they are the fence of a relay that holds it at this moment.
UPDATE outbox o
   SET status = 'Pending', available_at = %(now)s,
       attempts = CASE WHEN o.status = 'Failed' THEN 0 ELSE o.attempts END
 WHERE o.org_id = %(org_id)s AND o.status = %(status)s
   AND (o.status = 'Failed' OR o.available_at > %(now)s)
   AND (%(outbox_ids)b::uuid[] IS NULL OR o.outbox_id = ANY (%(outbox_ids)b::uuid[]))
   AND (%(kind)s::text IS NULL OR o.kind = %(kind)s)
   AND (%(target)s::text IS NULL OR o.target = %(target)s)
RETURNING o.outbox_id
