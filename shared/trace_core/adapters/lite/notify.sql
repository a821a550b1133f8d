-- name: notify
-- Tell whoever listens on a channel; it leaves when the transaction commits. There is nothing to
-- make durable, so the commit does not wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s::text, %(payload)s::text);

-- name: listen
-- Hear what is told on a channel from now on.
LISTEN {channel};
