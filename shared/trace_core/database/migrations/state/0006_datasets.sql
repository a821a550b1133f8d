-- Goes before the code that needs it. Numbers the events that there are and builds an index on them,
-- under a lock that lets nobody write to events: about ten seconds for each million. Reads attempts
-- once under ACCESS EXCLUSIVE, to check their outcomes: about a second for each million. Changes
-- small tables under ACCESS EXCLUSIVE, for a moment.
--
-- Versioned datasets: numbers, commits, pins, deploys that build beside what is current, and gaps.

-- Numbers -------------------------------------------------------------------------------------

-- One row for each dataset version. Whoever announces or commits locks it until its own commit, so
-- that the order of numbers is the order of commits. For a version whose rows lie in the data
-- database, commits are numbered there, and `readable` follows what has been registered here.
CREATE TABLE version_counters (
    dataset_version uuid PRIMARY KEY REFERENCES dataset_versions,
    -- Of the last event. It is the number of the commit that was announced, except in the data
    -- database once somebody has declared a scope invalid: that takes a number here alone.
    last_number     bigint NOT NULL DEFAULT 0,
    -- The highest n with commits 1..n all registered: what a new pin gets.
    readable        bigint NOT NULL DEFAULT 0,
    -- The highest cursor that was announced.
    max_end         bigint,
    -- Raised with every change of where its events go. A statement that chose routes before such a
    -- change, and waited for this row meanwhile, sees the new one and begins anew.
    epoch           bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

ALTER TABLE events ADD COLUMN number bigint NOT NULL DEFAULT 0;
-- The announced scope was there before with other content, or was declared invalid: everybody who
-- reads it is told, not only those whom it triggers.
ALTER TABLE events ADD COLUMN rewrites boolean NOT NULL DEFAULT false;

UPDATE events e
   SET number = n.number
  FROM (SELECT producer_task_id, dataset_version, scope, revision,
               row_number() OVER (PARTITION BY dataset_version ORDER BY event_id) AS number
          FROM events) n
 WHERE (e.producer_task_id, e.dataset_version, e.scope, e.revision)
     = (n.producer_task_id, n.dataset_version, n.scope, n.revision);

CREATE INDEX events_number ON events (dataset_version, number);

INSERT INTO version_counters (dataset_version, last_number, readable, max_end)
SELECT v.dataset_version, coalesce(e.last_number, 0), coalesce(e.last_number, 0), e.max_end
  FROM dataset_versions v
  LEFT JOIN (SELECT dataset_version, max(number) AS last_number, max(range_end) AS max_end
               FROM events GROUP BY dataset_version) e USING (dataset_version);

-- Datasets, versions, pointers ----------------------------------------------------------------

ALTER TABLE dataset_versions
    -- `control`: events only, there are no rows behind it.
    ADD COLUMN backend text NOT NULL DEFAULT 'control'
        CHECK (backend IN ('control', 's3', 'postgres')),
    ADD COLUMN update_strategy text NOT NULL DEFAULT 'replace'
        CHECK (update_strategy IN ('replace', 'append')),
    ADD COLUMN unique_key text[] NOT NULL DEFAULT '{}',
    -- As the first commit wrote them, or as declared: [{name, type}].
    ADD COLUMN columns jsonb,
    -- No new pin may name it; deleted once no reader of an older pin can be left.
    ADD COLUMN purge_marked_at timestamptz,
    ADD COLUMN purged_at timestamptz;

CREATE INDEX dataset_versions_dataset ON dataset_versions (dataset_uuid);

-- How often the pointer has moved: of two pins of one dataset the one with more moves is later.
ALTER TABLE dataset_current ADD COLUMN swap bigint NOT NULL DEFAULT 1;

CREATE TABLE pointer_moves (
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    swap            bigint NOT NULL,
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    deploy_id       uuid,
    moved_at        timestamptz NOT NULL,
    PRIMARY KEY (dataset_uuid, swap)
);

INSERT INTO pointer_moves (dataset_uuid, swap, dataset_version, moved_at)
SELECT c.dataset_uuid, 1, c.dataset_version, v.created_at
  FROM dataset_current c JOIN dataset_versions v ON v.dataset_version = c.dataset_version;

-- What is published follows the active version of its DAG; a name that is no longer published stays
-- with its DAG, hidden, and keeps its readers for the day it comes back.
ALTER TABLE publications
    ADD COLUMN owner uuid REFERENCES users (user_id),
    ADD COLUMN read_roles text[] NOT NULL DEFAULT '{}',
    ADD COLUMN freshness interval,
    ADD COLUMN pii text[] NOT NULL DEFAULT '{}',
    ADD COLUMN storage text,
    ADD COLUMN write_mode text NOT NULL DEFAULT 'direct',
    ADD COLUMN schema jsonb,
    ADD COLUMN hidden_at timestamptz;

-- A name for a dataset as it was at one pin; it never advances, and what it names is not purged.
CREATE TABLE snapshots (
    org_id        uuid NOT NULL REFERENCES orgs,
    snapshot_name text NOT NULL,
    dataset_name  text NOT NULL,
    description   text NOT NULL DEFAULT '',
    created_by    uuid REFERENCES users (user_id),
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (org_id, snapshot_name),
    FOREIGN KEY (org_id, dataset_name) REFERENCES publications
);

CREATE TABLE snapshot_parts (
    org_id          uuid NOT NULL,
    snapshot_name   text NOT NULL,
    part            integer NOT NULL,
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    number          bigint NOT NULL,
    swap            bigint NOT NULL,
    PRIMARY KEY (org_id, snapshot_name, part),
    FOREIGN KEY (org_id, snapshot_name) REFERENCES snapshots ON DELETE CASCADE
);

CREATE INDEX snapshot_parts_version ON snapshot_parts (dataset_version);

-- Commits -------------------------------------------------------------------------------------

-- What was written, once it is registered: what readers may see. Valid for pins from `number` up to
-- and without `replaced_at`.
CREATE TABLE commits (
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    number          bigint NOT NULL,
    scope           text NOT NULL,
    range_start     bigint,
    range_end       bigint,
    replaced_at     bigint,
    -- The newest commit that its scope held before; 0 for none.
    replaces        bigint NOT NULL DEFAULT 0,
    task_id         uuid NOT NULL,
    attempt         integer NOT NULL,
    lease_sequence  integer NOT NULL,
    output_index    integer NOT NULL,
    -- [{dataset_uuid, dataset_version, number, swap}]: what it was made from.
    input_pins      jsonb NOT NULL,
    -- Of the S3 layout: where its manifest lies, and the objects that it lists.
    manifest_key    text,
    manifest_sha256 text,
    objects         jsonb,
    bytes           bigint,
    row_count       bigint,
    registered_at   timestamptz NOT NULL,
    PRIMARY KEY (dataset_version, number)
);

-- The commits of a scope as they came, and the live ones of a version: by scope, and by range.
CREATE INDEX commits_scope ON commits (dataset_version, scope, number);
CREATE INDEX commits_live ON commits (dataset_version, scope) WHERE replaced_at IS NULL;
CREATE INDEX commits_range ON commits (dataset_version, range_end, range_start)
    WHERE replaced_at IS NULL;
-- What a commit took the place of.
CREATE INDEX commits_replaced ON commits (dataset_version, replaced_at)
    WHERE replaced_at IS NOT NULL;
-- What one lease has committed: a source commits under one task for years.
CREATE INDEX commits_task ON commits (task_id, attempt, lease_sequence);

-- Scopes that were declared invalid, by whom and why. The event of the same id carries it to every
-- dependent job; it is processed when the tasks made from that event have completed.
CREATE TABLE invalidations (
    event_id        uuid PRIMARY KEY,
    org_id          uuid NOT NULL REFERENCES orgs,
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    scope           text NOT NULL,
    range_start     bigint,
    range_end       bigint,
    number          bigint NOT NULL,
    reason          text NOT NULL,
    -- `replace` by a task, `cutover` or `rollback` of a deploy, or `person`.
    source          text NOT NULL CHECK (source IN ('replace', 'cutover', 'rollback', 'person')),
    task_id         uuid,
    deploy_id       uuid,
    user_id         uuid REFERENCES users (user_id),
    -- Of a person's request: the same key again is the same request.
    client_key      text,
    created_at      timestamptz NOT NULL
);

CREATE INDEX invalidations_dataset ON invalidations (dataset_uuid, event_id);
CREATE INDEX invalidations_org ON invalidations (org_id, event_id);
CREATE UNIQUE INDEX invalidations_key ON invalidations (org_id, client_key, dataset_uuid)
    WHERE client_key IS NOT NULL;

-- Attempts ------------------------------------------------------------------------------------

-- Superseded: newer inputs were already in the output. The next attempt reads fresh ones, and it
-- counts as no failure.
ALTER TABLE attempts
    DROP CONSTRAINT attempts_outcome_check,
    ADD CONSTRAINT attempts_outcome_check
        CHECK (outcome IN ('Completed', 'Failed', 'TimedOut', 'LeaseExpired', 'Lapsed', 'Canceled',
                           'Superseded')),
    -- No late completion counts any more: what it wrote and did not commit is about to be deleted.
    ADD COLUMN closed_at timestamptz,
    -- It has been.
    ADD COLUMN cleaned_at timestamptz;

CREATE INDEX attempts_staged ON attempts (job_id, ended_at)
    WHERE outcome <> 'Completed' AND cleaned_at IS NULL;

-- Deploys -------------------------------------------------------------------------------------

-- What a version says beside its data: settings of jobs, pools, publications, checks. They become
-- true when the version becomes active, and come back with a rollback.
ALTER TABLE dag_versions ADD COLUMN settings jsonb;

-- Whether the data of a job is whole. A job that is not yet built is built beside what is current,
-- and goes on where an earlier deploy of the same definition was given up.
ALTER TABLE jobs
    ADD COLUMN built_at timestamptz,
    -- Of a source that is built: it has covered what the one before it had, and rests until the
    -- cutover.
    ADD COLUMN caught_up boolean NOT NULL DEFAULT false,
    ADD COLUMN standing text NOT NULL DEFAULT 'retired'
        CHECK (standing IN ('active', 'held', 'candidate', 'retired'));

UPDATE jobs SET built_at = created_at, standing = 'active';

CREATE INDEX jobs_retired ON jobs (job_id) WHERE standing = 'retired';

CREATE TABLE deploys (
    deploy_id     uuid PRIMARY KEY,
    org_id        uuid NOT NULL REFERENCES orgs,
    dag_id        uuid NOT NULL REFERENCES dags,
    number        integer NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('deploy', 'rollback')),
    from_version  uuid REFERENCES dag_versions,
    to_version    uuid NOT NULL REFERENCES dag_versions,
    status        text NOT NULL
                  CHECK (status IN ('Building', 'Paused', 'Checking', 'ChecksFailed', 'Draining',
                                    'Done', 'Canceled')),
    plan          jsonb,
    report        jsonb NOT NULL DEFAULT '{}',
    capacity_id   uuid REFERENCES capacities,
    created_by    uuid REFERENCES users (user_id),
    created_at    timestamptz NOT NULL,
    built_at      timestamptz,
    cut_over_at   timestamptz,
    ended_at      timestamptz,
    error         text,
    UNIQUE (dag_id, number)
);

-- One at a time of each DAG; what only drains is over as far as the next one is concerned.
CREATE UNIQUE INDEX deploys_open ON deploys (dag_id)
    WHERE status IN ('Building', 'Paused', 'Checking', 'ChecksFailed');
CREATE INDEX deploys_unended ON deploys (deploy_id) WHERE ended_at IS NULL;

-- A build may be limited to so many tasks at once.
ALTER TABLE capacities DROP CONSTRAINT capacities_kind_check;
ALTER TABLE capacities ADD CHECK (kind IN ('job', 'pool', 'org', 'deploy'));

-- What a candidate job reads while it is built: versions, and for those outside of the build the
-- number at which the hold began.
CREATE TABLE candidate_inputs (
    job_id          uuid NOT NULL REFERENCES jobs,
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    deploy_id       uuid NOT NULL REFERENCES deploys,
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    pinned_at       bigint,
    PRIMARY KEY (job_id, dataset_uuid)
);

-- Events of a version that were not routed to a job which reads it: those with a number in
-- (after_number, up_to]. Open (up_to is NULL) while the job is not current; closed, and then filled,
-- when it becomes current. `latest`: one task for each scope, from its last event.
CREATE TABLE gaps (
    job_id          uuid NOT NULL REFERENCES jobs,
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    latest          boolean NOT NULL,
    after_number    bigint NOT NULL,
    up_to           bigint,
    priority        smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, dataset_version, latest)
);

CREATE INDEX gaps_to_fill ON gaps (job_id) WHERE up_to IS NOT NULL;

-- A bounded recompute of one job: one task for each scope of its trigger that lies in a range, made a
-- window at a time, so that it can rest, go on and be given up.
CREATE TABLE backfills (
    backfill_id     uuid PRIMARY KEY,
    org_id          uuid NOT NULL REFERENCES orgs,
    dag_id          uuid NOT NULL REFERENCES dags,
    number          integer NOT NULL,
    job_id          uuid NOT NULL REFERENCES jobs,
    range_start     bigint NOT NULL,
    range_end       bigint NOT NULL,
    status          text NOT NULL CHECK (status IN ('Running', 'Paused', 'Done', 'Canceled')),
    -- How many of its tasks may be open at once.
    window_size     integer NOT NULL CHECK (window_size >= 1),
    reason          text NOT NULL,
    created_by      uuid REFERENCES users (user_id),
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    UNIQUE (dag_id, number)
);

CREATE INDEX backfills_unended ON backfills (backfill_id) WHERE ended_at IS NULL;

CREATE TABLE backfill_scopes (
    backfill_id     uuid NOT NULL REFERENCES backfills,
    place           integer NOT NULL,
    dataset_version uuid NOT NULL,
    scope           text NOT NULL,
    range_start     bigint,
    range_end       bigint,
    revision        bigint NOT NULL,
    -- Once its task is made.
    task_id         uuid,
    PRIMARY KEY (backfill_id, place)
);

CREATE INDEX backfill_scopes_open ON backfill_scopes (backfill_id, place) WHERE task_id IS NULL;

-- No longer in the pool: whoever holds it may finish, nobody gets it again.
ALTER TABLE slots ADD COLUMN retired boolean NOT NULL DEFAULT false;

-- With the number of the commit, the pin.
ALTER TABLE task_inputs ADD COLUMN swap bigint;

-- Why a lease was canceled: a person, or a version that took the place of its own.
ALTER TABLE leases ADD COLUMN cancel_code text;

-- Routes --------------------------------------------------------------------------------------

ALTER TABLE routes ADD COLUMN triggers boolean NOT NULL DEFAULT true;

DROP VIEW derived_routes;

-- Events of a current version go to the active jobs that read it, held ones included; events of a
-- candidate version to the candidates of the same deploy only.
CREATE VIEW derived_routes AS
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
 GROUP BY r.dataset_version, e.job_id, j.standing, j.priority, j.runtime, j.dag_id;

INSERT INTO routes (dataset_version, job_id, route, priority, runtime, triggers)
SELECT d.dataset_version, d.job_id, d.route, d.priority, d.runtime, d.triggers FROM derived_routes d
    ON CONFLICT (dataset_version, job_id) DO UPDATE SET triggers = excluded.triggers;
