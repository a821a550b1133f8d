-- Goes before the code that needs it. Adds columns to jobs and builds small indexes, under locks that
-- are held for a moment.
--
-- Whose right to read counts for a job, and what waits to be purged.

ALTER TABLE jobs
    -- Who deployed it. What it reads of other DAGs it reads with the rights of this member; nobody:
    -- with those of the platform itself.
    ADD COLUMN reads_as uuid REFERENCES users (user_id),
    -- That member may not read one of its inputs (any more): nothing of it is claimed or started.
    -- Kept by whoever changes a right, in the same transaction, so that a claim looks at one column.
    ADD COLUMN forbidden boolean NOT NULL DEFAULT false;

UPDATE jobs j
   SET reads_as = v.created_by
  FROM dags d
  JOIN dag_versions v ON v.dag_version_id = d.active_dag_version_id
 WHERE j.dag_id = d.dag_id;

CREATE INDEX publication_parts_dataset ON publication_parts (dataset_uuid);
CREATE INDEX publications_dag ON publications (dag_id);

CREATE INDEX dataset_versions_marked ON dataset_versions (purge_marked_at)
    WHERE purge_marked_at IS NOT NULL AND purged_at IS NULL;
