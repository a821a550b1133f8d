-- name: take_turn
-- Whoever reserves within a limit takes turns, until the transaction ends. A statement of its own:
-- the next one sees what the last holder left, which one that waited by itself would not.
SELECT 1 FROM pg_advisory_xact_lock(7274365)

-- name: held_tasks
-- How many tasks of a runtime are reserved or running, in all orgs together. Whatever we did not
-- start has no start token, and is passed over without a look at its job.
SELECT count(*) AS held
  FROM leases l
  JOIN jobs j ON j.job_id = l.job_id
 WHERE l.start_token IS NOT NULL AND j.runtime = %(runtime)s

-- name: orgs_in_line
-- Orgs with ready tasks of a runtime, how many each of them holds, and how many all orgs do.
WITH held AS MATERIALIZED (
    SELECT l.org_id, count(*) AS tasks
      FROM leases l
      JOIN jobs j ON j.job_id = l.job_id
     WHERE l.start_token IS NOT NULL AND j.runtime = %(runtime)s
     GROUP BY l.org_id
)
SELECT w.org_id, coalesce(h.tasks, 0) AS held,
       (SELECT coalesce(sum(tasks), 0)::bigint FROM held) AS held_by_all
  FROM (SELECT DISTINCT j.org_id
          FROM jobs j
         WHERE j.runtime = %(runtime)s AND j.claimable
           AND EXISTS (SELECT FROM ready r WHERE r.job_id = j.job_id)) w
  LEFT JOIN held h ON h.org_id = w.org_id
 ORDER BY w.org_id
