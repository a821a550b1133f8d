-- name: notify
-- Tell whoever listens on a channel; it leaves when the transaction commits.
SELECT pg_notify(%(channel)s::text, %(payload)s::text);

-- name: listen
-- Hear what is told on a channel from now on.
LISTEN {channel};
