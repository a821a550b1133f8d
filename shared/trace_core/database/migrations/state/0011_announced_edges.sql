-- Goes before the code that needs it. Changes edges under ACCESS EXCLUSIVE, for a moment, and replaces
-- views.
--
-- Inputs whose rewrites a job hears of by its trigger make no tasks of their own.

ALTER TABLE edges
    -- The job's trigger announces again whatever is rewritten here.
    ADD COLUMN announced_by_trigger boolean NOT NULL DEFAULT false;

-- Edges along which commits are no news to the reader. Either a part of a relation that is made from
-- another part of it: its commits only move rows. Or an input that the reader's trigger speaks for.
CREATE VIEW silent_edges AS
SELECT e.job_id, e.input_index, e.dataset_uuid, v.dataset_version
  FROM edges e
  JOIN dataset_versions v ON v.dataset_uuid = e.dataset_uuid
 WHERE e.announced_by_trigger AND NOT e.triggers
    OR EXISTS (
       SELECT FROM edges o
         JOIN edges x ON x.dataset_uuid = o.dataset_uuid AND x.job_id = v.job_id
        WHERE o.job_id = e.job_id AND o.input_index = e.input_index
          AND o.dataset_uuid <> e.dataset_uuid);

CREATE OR REPLACE VIEW derived_routes AS
SELECT r.dataset_version, e.job_id, min(e.route) AS route, bool_or(e.triggers) AS triggers,
       CASE WHEN j.standing = 'candidate' THEN 1::smallint ELSE j.priority END AS priority,
       j.runtime, j.dag_id
  FROM edges e
  JOIN jobs j ON j.job_id = e.job_id
 CROSS JOIN LATERAL (
       SELECT c.dataset_version
         FROM dataset_current c
        WHERE c.dataset_uuid = e.dataset_uuid AND j.standing IN ('active', 'held')
        UNION ALL
       SELECT i.dataset_version
         FROM candidate_inputs i
        WHERE i.job_id = e.job_id AND i.dataset_uuid = e.dataset_uuid AND i.pinned_at IS NULL
          AND j.standing = 'candidate') r
 WHERE NOT EXISTS (
       SELECT FROM silent_edges s
        WHERE s.job_id = e.job_id AND s.input_index = e.input_index
          AND s.dataset_uuid = e.dataset_uuid AND s.dataset_version = r.dataset_version)
 GROUP BY r.dataset_version, e.job_id, j.standing, j.priority, j.runtime, j.dag_id;

DROP VIEW moving_edges;
