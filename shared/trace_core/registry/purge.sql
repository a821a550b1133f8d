-- name: datasets_by_name
-- The outputs behind a published name, hidden or not.
SELECT x.dataset_uuid
  FROM publication_parts x
 WHERE x.org_id = %(org_id)s AND x.dataset_name = %(dataset)s

-- name: dataset_by_id
-- An output by its id: one that has no name, or has it no more.
SELECT s.dataset_uuid FROM datasets s
 WHERE s.org_id = %(org_id)s AND s.dataset_uuid = %(dataset_uuid)s

-- name: facts
-- What is stored of each version and what may still need it: of all that are not purged, or of those
-- that are named. Pins of running tasks are few, and looked up once.
WITH pinned AS MATERIALIZED (
    SELECT DISTINCT i.dataset_version, l.task_id
      FROM leases l
      JOIN task_inputs i
        ON i.task_id = l.task_id AND i.attempt = l.attempt AND i.lease_sequence = l.lease_sequence
     WHERE l.org_id = %(org_id)s
)
SELECT v.dataset_uuid, v.dataset_version, v.job_id, v.backend, t.commits, t.row_count,
       t.bytes + t.superseded_bytes AS bytes, t.objects,
       ARRAY(SELECT p.snapshot_name FROM snapshot_parts p
              WHERE p.dataset_version = v.dataset_version ORDER BY 1 LIMIT 5) AS snapshots,
       ARRAY(SELECT DISTINCT d.name
               FROM candidate_inputs i
               JOIN deploys b ON b.deploy_id = i.deploy_id AND b.ended_at IS NULL
               JOIN dags d ON d.dag_id = b.dag_id
              WHERE i.dataset_version = v.dataset_version ORDER BY 1 LIMIT 5) AS built_upon,
       ARRAY(SELECT n.task_id::text FROM pinned n
              WHERE n.dataset_version = v.dataset_version ORDER BY 1 LIMIT 5) AS read_by,
       ARRAY(SELECT l.task_id::text FROM leases l
              WHERE l.job_id = v.job_id ORDER BY 1 LIMIT 5) AS written_by,
-- include: standing
  FROM dataset_versions v
  JOIN datasets s ON s.dataset_uuid = v.dataset_uuid
 CROSS JOIN LATERAL
-- include: stored
 WHERE v.org_id = %(org_id)s AND v.dataset_uuid = ANY (%(dataset_uuids)s::uuid[])
   AND CASE WHEN %(versions)s::uuid[] IS NULL THEN v.purged_at IS NULL
            ELSE v.dataset_version = ANY (%(versions)s::uuid[]) END
 ORDER BY v.dataset_version DESC
 LIMIT %(limit)s

-- name: lock_dags
-- No cutover, rollback or deploy of these DAGs meanwhile.
SELECT d.dag_id
  FROM dags d
 WHERE d.dag_id IN (SELECT s.dag_id FROM datasets s
                     WHERE s.dataset_uuid = ANY (%(dataset_uuids)s::uuid[]))
 ORDER BY d.dag_id
   FOR NO KEY UPDATE

-- name: lock_versions
-- Whoever refers to these versions anew waits, and then finds them marked; whoever did so before has
-- ended, and is seen by the next statement.
SELECT v.dataset_version
  FROM dataset_versions v
 WHERE v.dataset_uuid = ANY (%(dataset_uuids)s::uuid[])
   AND v.dataset_version = ANY (%(versions)s::uuid[])
 ORDER BY v.dataset_version
   FOR UPDATE

-- name: mark
-- No new pin may name these versions from now on; one that is marked stays as it is.
UPDATE dataset_versions
   SET purge_marked_at = %(now)s
 WHERE dataset_version = ANY (%(versions)s::uuid[]) AND purge_marked_at IS NULL
RETURNING dataset_version

-- name: unmark
-- Readers may come again: nothing of these versions has been deleted.
UPDATE dataset_versions
   SET purge_marked_at = NULL
 WHERE dataset_version = ANY (%(versions)s::uuid[]) AND purged_at IS NULL
   AND purge_marked_at > %(marked_after)s
RETURNING dataset_version

-- name: keep
-- Something needs a marked version after all.
UPDATE dataset_versions
   SET purge_marked_at = NULL
 WHERE dataset_version = ANY (%(versions)s::uuid[]) AND purged_at IS NULL

-- name: due
-- Versions whose last possible reader has ended, the first marked first.
SELECT v.org_id, v.dataset_uuid, v.dataset_version, v.job_id, v.backend
  FROM dataset_versions v
 WHERE v.purge_marked_at <= %(marked_before)s AND v.purge_marked_at IS NOT NULL
   AND v.purged_at IS NULL
 ORDER BY v.purge_marked_at, v.dataset_version
 LIMIT %(limit)s

-- name: overdue
-- Versions that were due a good while ago.
SELECT count(*) AS versions
  FROM dataset_versions v
 WHERE v.purge_marked_at <= %(marked_before)s AND v.purge_marked_at IS NOT NULL
   AND v.purged_at IS NULL

-- name: close_commits
-- What was deleted is valid at no pin; where it came from stays known.
UPDATE commits m
   SET replaced_at = m.number, objects = NULL
  FROM (SELECT c.number FROM commits c
         WHERE c.dataset_version = %(dataset_version)s
           AND c.replaced_at IS DISTINCT FROM c.number
         ORDER BY c.number
         LIMIT %(limit)s) w
 WHERE m.dataset_version = %(dataset_version)s AND m.number = w.number

-- name: finish
-- All of a version is deleted, for good: a pin shows the same rows or none. Whoever deploys its
-- definition again gets a new job, which is built anew under a new version.
WITH done AS (
    UPDATE dataset_versions
       SET purged_at = %(now)s
     WHERE dataset_version = %(dataset_version)s AND purge_marked_at IS NOT NULL
       AND purged_at IS NULL
    RETURNING job_id
),
-- The versions that it was part of are not what that definition would make any more.
parted AS (
    UPDATE dag_versions v
       SET content_sha256 = v.content_sha256 || ':purged:' || d.job_id
      FROM done d
      JOIN dag_version_jobs a ON a.job_id = d.job_id
     WHERE v.dag_version_id = a.dag_version_id
)
UPDATE jobs j
   SET built_at = NULL, fingerprint = j.fingerprint || ':purged:' || j.job_id
  FROM done d
 WHERE j.job_id = d.job_id
RETURNING j.job_id

-- name: lock_of_jobs
-- The versions that some jobs write, locked, with what a purge has done to them.
SELECT v.dataset_version, v.purge_marked_at, v.purged_at
  FROM dataset_versions v
 WHERE v.job_id = ANY (%(job_ids)s::uuid[])
 ORDER BY v.dataset_version
   FOR UPDATE
