-- Goes before the code that needs it. Adds columns to commits and builds two indexes of it anew, under
-- a lock that writers of commits wait for: a few seconds for each million of commits.
--
-- Commits of which later ones took a part, so that one relation can lie in several places.

ALTER TABLE commits
    -- The column that places each row inside the scope; without one the commit can only be replaced
    -- as a whole.
    ADD COLUMN cursor_column text,
    -- Some of it is gone: `commit_cuts` says what.
    ADD COLUMN is_cut boolean NOT NULL DEFAULT false;

-- From commit `cut_at` on, rows of an earlier commit in this range count no more. The objects stay as
-- they are, and earlier pins go on reading them.
CREATE TABLE commit_cuts (
    dataset_version uuid NOT NULL,
    number          bigint NOT NULL,
    cut_at          bigint NOT NULL,
    range_start     bigint NOT NULL,
    range_end       bigint NOT NULL,
    PRIMARY KEY (dataset_version, number, cut_at, range_start),
    FOREIGN KEY (dataset_version, number) REFERENCES commits
);

CREATE INDEX commit_cuts_at ON commit_cuts (dataset_version, cut_at);

-- Live ranges do not overlap, but for those that were cut; they are few, and looked for by themselves.
DROP INDEX commits_range;
CREATE INDEX commits_range ON commits (dataset_version, range_end, range_start)
    WHERE replaced_at IS NULL AND NOT is_cut;
CREATE INDEX commits_cut ON commits (dataset_version, range_end, range_start)
    WHERE replaced_at IS NULL AND is_cut;

-- The rewrites of a version: few.
CREATE INDEX commits_rewrites ON commits (dataset_version, number) WHERE replaces > 0;

-- Inputs that name a published dataset read all of its parts. A part that is made from another one of
-- them only moves rows: its commits are no news to who reads the whole.
CREATE VIEW moving_edges AS
SELECT e.job_id, e.input_index, e.dataset_uuid, v.dataset_version
  FROM edges e
  JOIN dataset_versions v ON v.dataset_uuid = e.dataset_uuid
 WHERE EXISTS (
       SELECT FROM edges o
         JOIN edges x ON x.dataset_uuid = o.dataset_uuid AND x.job_id = v.job_id
        WHERE o.job_id = e.job_id AND o.input_index = e.input_index
          AND o.dataset_uuid <> e.dataset_uuid);

-- As before, without those.
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
       SELECT FROM moving_edges m
        WHERE m.job_id = e.job_id AND m.input_index = e.input_index
          AND m.dataset_uuid = e.dataset_uuid AND m.dataset_version = r.dataset_version)
 GROUP BY r.dataset_version, e.job_id, j.standing, j.priority, j.runtime, j.dag_id;
