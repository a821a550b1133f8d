-- name: keep_yield
-- The slice was accepted: it takes the place of one that is long over.
INSERT INTO yields AS y (task_id, place, attempt, lease_token, body_digest)
VALUES (%(task_id)s, %(place)s, %(attempt)s, %(lease_token)s, %(body_digest)s)
    ON CONFLICT (task_id, place) DO UPDATE
       SET attempt = excluded.attempt, lease_token = excluded.lease_token,
           body_digest = excluded.body_digest

-- name: kept_yield
-- The accepted slice with exactly this fence, of a task that the caller has looked up in its org.
SELECT y.body_digest
  FROM yields y
 WHERE y.task_id = %(task_id)s AND y.attempt = %(attempt)s AND y.lease_token = %(lease_token)s
