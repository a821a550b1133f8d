-- name: send
-- Add messages that can be received at once, and tell whoever waits.
WITH sent AS (
    INSERT INTO pgqueue_messages (queue, message_id, visible_at, body)
    SELECT %(queue)s::text, message_id, %(now)s::timestamptz, body
      FROM unnest(%(message_ids)s::uuid[], %(bodies)s::text[]) AS given (message_id, body)
    RETURNING 1
)
SELECT pg_notify(%(channel)s::text, %(queue)s::text) FROM (SELECT count(*) FROM sent) AS done;

-- name: receive
-- Hide the messages that have waited longest; those received too often already go to the dead.
-- One row at least, so that the number of new dead is known even when nothing was received.
WITH picked AS MATERIALIZED (
    SELECT ctid AS place, receive_count
      FROM pgqueue_messages
     WHERE queue = %(queue)s::text AND visible_at <= %(now)s::timestamptz
     ORDER BY visible_at
     LIMIT %(limit)s::integer
       FOR UPDATE SKIP LOCKED
), worn_out AS (
    DELETE FROM pgqueue_messages
     WHERE ctid = ANY (ARRAY(SELECT place FROM picked WHERE receive_count >= %(max_receives)s::integer))
    RETURNING queue, message_id, receive_count, body
), buried AS (
    INSERT INTO pgqueue_dead (queue, message_id, died_at, receive_count, body)
    SELECT queue, message_id, %(now)s::timestamptz, receive_count, body FROM worn_out
    RETURNING 1
), received AS (
    UPDATE pgqueue_messages
       SET visible_at = %(visible_at)s::timestamptz,
           receive_count = receive_count + 1,
           receive_token = %(receive_token)s::uuid
     WHERE ctid = ANY (ARRAY(SELECT place FROM picked WHERE receive_count < %(max_receives)s::integer))
    RETURNING message_id, receive_count, body
)
SELECT buried_count, message_id, receive_count, body
  FROM (SELECT count(*) AS buried_count FROM buried) AS totals
  LEFT JOIN received ON true;

-- name: next_visible_at
-- When the next hidden message of a queue comes back, if it has any.
SELECT visible_at
  FROM pgqueue_messages
 WHERE queue = %(queue)s::text AND visible_at > %(now)s::timestamptz
 ORDER BY visible_at
 LIMIT 1;

-- name: extend
-- Hide a message for longer, if its last receive is still the caller's.
UPDATE pgqueue_messages
   SET visible_at = %(visible_at)s::timestamptz
 WHERE queue = %(queue)s::text
   AND message_id = %(message_id)s::uuid
   AND receive_token = %(receive_token)s::uuid;

-- name: delete
-- Acknowledge messages whose last receive is still the caller's. The token stands in the WHERE of
-- the DELETE too, since that is what Postgres checks again when a new receive overtakes it.
DELETE FROM pgqueue_messages
 WHERE ctid = ANY (ARRAY(
        SELECT message.ctid
          FROM unnest(%(message_ids)s::uuid[], %(receive_tokens)s::uuid[])
               AS receipt (message_id, receive_token)
         CROSS JOIN LATERAL (
               SELECT ctid
                 FROM pgqueue_messages
                WHERE queue = %(queue)s::text
                  AND message_id = receipt.message_id
                  AND receive_token = receipt.receive_token
                OFFSET 0) AS message))
   AND receive_token = ANY (%(receive_tokens)s::uuid[]);

-- name: depth
-- How many messages of a queue wait, are in flight, are dead.
SELECT count(*) FILTER (WHERE visible_at <= %(now)s::timestamptz) AS visible,
       count(*) FILTER (WHERE visible_at > %(now)s::timestamptz) AS in_flight,
       (SELECT count(*) FROM pgqueue_dead WHERE queue = %(queue)s::text) AS dead
  FROM pgqueue_messages
 WHERE queue = %(queue)s::text;

-- name: redrive
-- Give the longest dead messages of a queue a new life; answers how many.
WITH raised AS (
    DELETE FROM pgqueue_dead
     WHERE ctid = ANY (ARRAY(
            SELECT ctid
              FROM pgqueue_dead
             WHERE queue = %(queue)s::text
             ORDER BY message_id
             LIMIT %(limit)s::integer
               FOR UPDATE SKIP LOCKED))
    RETURNING queue, message_id, body
), moved AS (
    INSERT INTO pgqueue_messages (queue, message_id, visible_at, body)
    SELECT queue, message_id, %(now)s::timestamptz, body FROM raised
    RETURNING 1
)
SELECT moved_count, pg_notify(%(channel)s::text, %(queue)s::text)
  FROM (SELECT count(*) AS moved_count FROM moved) AS done;
