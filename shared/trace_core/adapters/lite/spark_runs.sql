-- Runs of PySpark operators on this machine, in SQLite: the platform submits and asks, the runner
-- process moves them. Each move names the states that it may leave.

-- name: create
-- Times are seconds since 1970.
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    state TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT '',
    end_asked TEXT,
    submitted_at REAL NOT NULL,
    granted_at REAL,
    started_at REAL,
    ended_at REAL
);

-- name: submit
-- The same client token is the same id, and the run that it has begun stays as it is.
INSERT INTO runs (run_id, request, state, submitted_at)
VALUES (:run_id, :request, 'SUBMITTED', :now)
ON CONFLICT (run_id) DO NOTHING;

-- name: find
SELECT * FROM runs WHERE run_id = :run_id;

-- name: open
-- Those that have not ended, in the order in which they came.
SELECT * FROM runs WHERE ended_at IS NULL ORDER BY submitted_at, run_id;

-- name: count_open
SELECT count(*) FROM runs WHERE ended_at IS NULL;

-- name: count_begun
-- Those that have begun since then.
SELECT count(*) FROM runs WHERE started_at >= :since;

-- name: ask_to_end
-- The first reason stays.
UPDATE runs SET end_asked = :reason WHERE run_id = :run_id AND ended_at IS NULL AND end_asked IS NULL;

-- name: queue
UPDATE runs SET state = 'QUEUED' WHERE run_id = :run_id AND state = 'SUBMITTED';

-- name: grant
-- It has room now; what it waits for from here on is its session.
UPDATE runs SET state = 'PENDING', granted_at = :now
WHERE run_id = :run_id AND ended_at IS NULL AND started_at IS NULL AND end_asked IS NULL;

-- name: schedule
UPDATE runs SET state = 'SCHEDULED'
WHERE run_id = :run_id AND state = 'PENDING' AND end_asked IS NULL;

-- name: start
-- A run begins once, and not when somebody has asked it to end.
UPDATE runs SET state = 'RUNNING', started_at = :now
WHERE run_id = :run_id AND state = 'SCHEDULED' AND end_asked IS NULL;

-- name: cancelling
UPDATE runs SET state = 'CANCELLING' WHERE run_id = :run_id AND state = 'RUNNING';

-- name: end
UPDATE runs SET state = :state, detail = :detail, ended_at = :now
WHERE run_id = :run_id AND ended_at IS NULL;

-- name: end_waiting
-- A run that has not begun ends, and never begins.
UPDATE runs SET state = 'CANCELLED', detail = :detail, ended_at = :now
WHERE run_id = :run_id AND ended_at IS NULL AND started_at IS NULL;

-- name: forget
DELETE FROM runs WHERE ended_at < :before;
