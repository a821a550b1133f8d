-- name: count_request
-- One request of a user, and of its org. No row that is full grows: `mine` or `ours` is NULL then.
-- The org is asked only when the user has something left, so that nobody uses up what is others'.
WITH mine AS (
     INSERT INTO request_counts AS c (window_started_at, counted_id, rate, requests)
     VALUES (%(window)s, %(user_id)s, %(rate)s, 1)
         ON CONFLICT (window_started_at, counted_id, rate) DO UPDATE
            SET requests = c.requests + 1 WHERE c.requests < %(user_limit)s
     RETURNING c.requests
), ours AS (
     INSERT INTO request_counts AS c (window_started_at, counted_id, rate, requests)
     SELECT %(window)s, %(org_id)s, 'org', 1 FROM mine
         ON CONFLICT (window_started_at, counted_id, rate) DO UPDATE
            SET requests = c.requests + 1 WHERE c.requests < %(org_limit)s
     RETURNING c.requests
)
SELECT (SELECT requests FROM mine) AS mine, (SELECT requests FROM ours) AS ours

-- name: count_hook
-- One call of a webhook source; no row when it is full.
INSERT INTO request_counts AS c (window_started_at, counted_id, rate, requests)
VALUES (%(window)s, %(source_id)s, 'hook', 1)
    ON CONFLICT (window_started_at, counted_id, rate) DO UPDATE
       SET requests = c.requests + 1 WHERE c.requests < %(limit)s
RETURNING c.requests

-- name: forget_requests
-- Windows that are over.
DELETE FROM request_counts WHERE window_started_at < %(before)s
