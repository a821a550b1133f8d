-- Goes before the code that needs it. Creates tables only: takes no lock that anybody waits for.
--
-- Three kinds of tables:
--   definitions   orgs, members, DAGs, jobs, datasets, edges: small, read by every call
--   working set   ready, leases, delayed, outbox: narrow, and only as long as work is open
--   history       tasks, attempts, inputs, outputs, events: inserted once, partitioned by the month
--                 of the task, so that finished work never slows down a claim
-- A task has no status column: it is where its row is (see docs/state_machines.md).

-- Definitions ---------------------------------------------------------------------------------

CREATE TABLE orgs (
    org_id     uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL
);

CREATE TABLE users (
    user_id    uuid PRIMARY KEY,
    subject    text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL
);

CREATE TABLE memberships (
    org_id        uuid NOT NULL REFERENCES orgs,
    user_id       uuid NOT NULL REFERENCES users,
    platform_role text NOT NULL CHECK (platform_role IN ('reader', 'writer', 'admin')),
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (org_id, user_id)
);

CREATE TABLE org_roles (
    org_id     uuid NOT NULL REFERENCES orgs,
    role       text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, role)
);

CREATE TABLE member_roles (
    org_id  uuid NOT NULL,
    user_id uuid NOT NULL,
    role    text NOT NULL,
    PRIMARY KEY (org_id, user_id, role),
    FOREIGN KEY (org_id, user_id) REFERENCES memberships ON DELETE CASCADE,
    FOREIGN KEY (org_id, role) REFERENCES org_roles ON DELETE CASCADE
);

CREATE TABLE worker_tokens (
    token_sha256 bytea PRIMARY KEY,
    org_id       uuid NOT NULL REFERENCES orgs,
    name         text NOT NULL,
    created_at   timestamptz NOT NULL,
    revoked_at   timestamptz
);

CREATE TABLE dags (
    dag_id                uuid PRIMARY KEY,
    org_id                uuid NOT NULL REFERENCES orgs,
    name                  text NOT NULL,
    active_dag_version_id uuid,
    paused_at             timestamptz,
    deploy_roles          text[] NOT NULL DEFAULT '{}',
    created_by            uuid REFERENCES users (user_id),
    created_at            timestamptz NOT NULL,
    UNIQUE (org_id, name)
);

CREATE TABLE dag_versions (
    dag_version_id uuid PRIMARY KEY,
    org_id         uuid NOT NULL REFERENCES orgs,
    dag_id         uuid NOT NULL REFERENCES dags,
    number         integer NOT NULL,
    content_sha256 text NOT NULL,
    source         text NOT NULL,
    created_by     uuid REFERENCES users (user_id),
    created_at     timestamptz NOT NULL,
    activated_at   timestamptz,
    UNIQUE (dag_id, number),
    UNIQUE (dag_id, content_sha256)
);

ALTER TABLE dags ADD FOREIGN KEY (active_dag_version_id) REFERENCES dag_versions;

-- What meters claims: a job's max_concurrency, a worker pool, an org's quota. A job that names
-- none of them is unmetered and its claims touch no counter.
CREATE TABLE capacities (
    capacity_id       uuid PRIMARY KEY,
    org_id            uuid NOT NULL REFERENCES orgs,
    kind              text NOT NULL CHECK (kind IN ('job', 'pool', 'org')),
    name              text NOT NULL,
    max_running       integer CHECK (max_running >= 0),
    reserved_for_live integer NOT NULL DEFAULT 0 CHECK (reserved_for_live >= 0),
    running           integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    running_backfill  integer NOT NULL DEFAULT 0 CHECK (running_backfill >= 0),
    max_starts_hourly integer CHECK (max_starts_hourly >= 0),
    hour_started_at   timestamptz,
    starts_this_hour  integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX capacities_org ON capacities (org_id) WHERE kind = 'org';

CREATE TABLE worker_pools (
    pool_id     uuid PRIMARY KEY,
    org_id      uuid NOT NULL REFERENCES orgs,
    dag_id      uuid NOT NULL REFERENCES dags,
    name        text NOT NULL,
    capacity_id uuid NOT NULL REFERENCES capacities,
    UNIQUE (dag_id, name)
);

CREATE TABLE slots (
    slot_id  uuid PRIMARY KEY,
    pool_id  uuid NOT NULL REFERENCES worker_pools,
    position integer NOT NULL,
    name     text NOT NULL,
    env      jsonb NOT NULL,
    secrets  jsonb NOT NULL,
    task_id  uuid,
    UNIQUE (pool_id, name)
) WITH (fillfactor = 50);

CREATE TABLE jobs (
    job_id             uuid PRIMARY KEY,
    org_id             uuid NOT NULL REFERENCES orgs,
    dag_id             uuid NOT NULL REFERENCES dags,
    name               text NOT NULL,
    fingerprint        text NOT NULL,
    activation         text NOT NULL CHECK (activation IN ('source', 'reactive')),
    runtime            text NOT NULL
                       CHECK (runtime IN ('worker', 'lambda', 'dispatcher', 'emr_serverless')),
    operator           text NOT NULL,
    definition         jsonb NOT NULL,
    source_kind        text CHECK (source_kind IN ('always_on', 'cron', 'manual', 'webhook')),
    schedule           text,
    outputs            integer NOT NULL,
    priority           smallint NOT NULL CHECK (priority IN (0, 1)),
    max_attempts       integer NOT NULL CHECK (max_attempts >= 1),
    timeout_seconds    integer NOT NULL CHECK (timeout_seconds >= 1),
    heartbeat_seconds  integer NOT NULL CHECK (heartbeat_seconds >= 1),
    pool_id            uuid REFERENCES worker_pools,
    capacity_ids       uuid[] NOT NULL DEFAULT '{}',
    -- In the active version of a DAG that is not paused; kept by whoever changes either.
    claimable          boolean NOT NULL DEFAULT false,
    created_at         timestamptz NOT NULL,
    UNIQUE (dag_id, name, fingerprint)
);

CREATE INDEX jobs_claimable ON jobs (org_id, runtime) WHERE claimable;
CREATE INDEX jobs_capacity ON jobs USING gin (capacity_ids);

CREATE TABLE dag_version_jobs (
    dag_version_id uuid NOT NULL REFERENCES dag_versions,
    job_id         uuid NOT NULL REFERENCES jobs,
    PRIMARY KEY (dag_version_id, job_id)
);

CREATE INDEX dag_version_jobs_job ON dag_version_jobs (job_id);

CREATE TABLE datasets (
    dataset_uuid uuid PRIMARY KEY,
    org_id       uuid NOT NULL REFERENCES orgs,
    dag_id       uuid NOT NULL REFERENCES dags,
    job_name     text NOT NULL,
    output_index integer NOT NULL,
    created_at   timestamptz NOT NULL,
    UNIQUE (dag_id, job_name, output_index)
);

-- The names that users see, each over one or more outputs of one DAG.
CREATE TABLE publications (
    org_id       uuid NOT NULL REFERENCES orgs,
    dataset_name text NOT NULL,
    dag_id       uuid NOT NULL REFERENCES dags,
    description  text NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (org_id, dataset_name)
);

CREATE TABLE publication_parts (
    org_id       uuid NOT NULL,
    dataset_name text NOT NULL,
    part         integer NOT NULL,
    dataset_uuid uuid NOT NULL REFERENCES datasets,
    PRIMARY KEY (org_id, dataset_name, part),
    FOREIGN KEY (org_id, dataset_name) REFERENCES publications ON DELETE CASCADE
);

CREATE TABLE dataset_versions (
    dataset_version uuid PRIMARY KEY,
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    org_id          uuid NOT NULL REFERENCES orgs,
    job_id          uuid NOT NULL REFERENCES jobs,
    output_index    integer NOT NULL,
    created_at      timestamptz NOT NULL,
    UNIQUE (job_id, output_index)
);

CREATE TABLE dataset_current (
    dataset_uuid    uuid PRIMARY KEY REFERENCES datasets,
    dataset_version uuid NOT NULL REFERENCES dataset_versions
);

CREATE TABLE edges (
    job_id       uuid NOT NULL REFERENCES jobs,
    input_index  integer NOT NULL,
    dataset_uuid uuid NOT NULL REFERENCES datasets,
    alias        text NOT NULL,
    filter       jsonb,
    triggers     boolean NOT NULL,
    -- The last four digits of the id of a task made on this edge; the rest is the event's id.
    route        text NOT NULL CHECK (route ~ '^[0-9a-f]{4}$' AND route <> '0000'),
    -- An input that names a published dataset reads all of its parts.
    PRIMARY KEY (job_id, input_index, dataset_uuid),
    UNIQUE (dataset_uuid, route)
);

-- Where an event of a dataset version goes. It follows from current pointers, edges and active
-- versions, and is kept beside them by whoever changes one of them, in the same transaction:
-- accepting an event then reads one table instead of six.
CREATE VIEW derived_routes AS
SELECT c.dataset_version, e.job_id, min(e.route) AS route, j.priority, j.runtime, j.dag_id
  FROM edges e
  JOIN dataset_current c ON c.dataset_uuid = e.dataset_uuid
  JOIN jobs j ON j.job_id = e.job_id
  JOIN dags d ON d.dag_id = j.dag_id
  JOIN dag_version_jobs a ON a.dag_version_id = d.active_dag_version_id AND a.job_id = j.job_id
 WHERE e.triggers
 GROUP BY c.dataset_version, e.job_id, j.priority, j.runtime, j.dag_id;

CREATE TABLE routes (
    dataset_version uuid NOT NULL REFERENCES dataset_versions,
    job_id          uuid NOT NULL REFERENCES jobs,
    route           text NOT NULL,
    priority        smallint NOT NULL,
    runtime         text NOT NULL,
    PRIMARY KEY (dataset_version, job_id)
);

-- State that an operator keeps between tasks. It belongs to the job's version; one row for each
-- key, so that a task touches its own keys only however much has gathered.
CREATE TABLE operator_state (
    job_id     uuid NOT NULL REFERENCES jobs,
    key        text NOT NULL,
    revision   bigint NOT NULL,
    value      jsonb NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, key)
) WITH (fillfactor = 70);

-- Requests to a manual source that no slice has taken up yet.
CREATE TABLE triggers (
    trigger_id   uuid PRIMARY KEY,
    org_id       uuid NOT NULL REFERENCES orgs,
    job_id       uuid NOT NULL REFERENCES jobs,
    number       bigint NOT NULL,
    request      jsonb NOT NULL,
    requested_by uuid REFERENCES users (user_id),
    requested_at timestamptz NOT NULL,
    taken_at     timestamptz,
    UNIQUE (job_id, number)
);

CREATE INDEX triggers_open ON triggers (job_id, number) WHERE taken_at IS NULL;

-- Working set ---------------------------------------------------------------------------------

-- Queued and claimable as soon as its job may run and has capacity. `attempt` counts the started
-- attempts; the fence of the last one stays until a newer one starts, so that a late completion
-- still finds it.
CREATE TABLE ready (
    job_id         uuid NOT NULL,
    priority       smallint NOT NULL,
    task_id        uuid NOT NULL,
    attempt        integer NOT NULL DEFAULT 0,
    failures       integer NOT NULL DEFAULT 0,
    lapses         integer NOT NULL DEFAULT 0,
    lease_sequence integer NOT NULL DEFAULT 0,
    lease_token    uuid,
    continues      boolean NOT NULL DEFAULT false,
    keeps_capacity boolean NOT NULL DEFAULT false,
    -- Of the slice that yielded last: the same body again is the same outcome.
    body_digest    uuid,
    ready_at       timestamptz NOT NULL,
    PRIMARY KEY (job_id, priority, task_id)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_analyze_scale_factor = 0.5);

-- Queued or Failed, and not due before `due_at`: a retry that waits for its backoff, a source
-- that waits for its next slice.
CREATE TABLE delayed (
    task_id        uuid PRIMARY KEY,
    job_id         uuid NOT NULL,
    priority       smallint NOT NULL,
    attempt        integer NOT NULL,
    failures       integer NOT NULL,
    lapses         integer NOT NULL DEFAULT 0,
    lease_sequence integer NOT NULL,
    lease_token    uuid,
    continues      boolean NOT NULL DEFAULT false,
    keeps_capacity boolean NOT NULL DEFAULT false,
    body_digest    uuid,
    due_at         timestamptz NOT NULL
);

CREATE INDEX delayed_due ON delayed (due_at);

-- Running, or reserved for a runner that has not yet exchanged its start token (started_at NULL).
-- A reservation keeps the fence of the last started attempt: until the exchange, a late completion
-- of that attempt still counts.
CREATE TABLE leases (
    task_id          uuid PRIMARY KEY,
    org_id           uuid NOT NULL,
    job_id           uuid NOT NULL,
    priority         smallint NOT NULL,
    attempt          integer NOT NULL,
    failures         integer NOT NULL,
    lapses           integer NOT NULL,
    lease_sequence   integer NOT NULL,
    lease_token      uuid,
    start_token      uuid,
    continues        boolean NOT NULL DEFAULT false,
    metered          boolean NOT NULL DEFAULT false,
    of_source        boolean NOT NULL DEFAULT false,
    worker_id        text NOT NULL,
    leased_at        timestamptz NOT NULL,
    started_at       timestamptz,
    lease_expires_at timestamptz NOT NULL,
    deadline_at      timestamptz NOT NULL,
    canceled_at      timestamptz,
    slot_id          uuid
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.5);

-- What must leave the database. A row is deleted when it is done; a Failed one stays and alarms.
CREATE TABLE outbox (
    outbox_id    uuid PRIMARY KEY,
    org_id       uuid NOT NULL,
    kind         text NOT NULL,
    target       text NOT NULL,
    task_ids     uuid[] NOT NULL,
    status       text NOT NULL DEFAULT 'Pending' CHECK (status IN ('Pending', 'Failed')),
    attempts     integer NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    -- Set on the row of a sweep: one for each kind and target, reset instead of added again.
    sweep_key    text,
    last_error   text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX outbox_due ON outbox (available_at) WHERE status = 'Pending';
CREATE UNIQUE INDEX outbox_sweep ON outbox (org_id, sweep_key) WHERE sweep_key IS NOT NULL;

-- History -------------------------------------------------------------------------------------

CREATE TABLE tasks (
    task_id          uuid NOT NULL,
    org_id           uuid NOT NULL,
    job_id           uuid NOT NULL,
    priority         smallint NOT NULL,
    created_at       timestamptz NOT NULL,
    -- What made it: an event with its scope, or nothing for the one durable task of a source.
    event_id         uuid,
    producer_task_id uuid,
    dataset_version  uuid,
    scope            text,
    range_start      bigint,
    range_end        bigint,
    revision         bigint,
    PRIMARY KEY (task_id)
) PARTITION BY RANGE (task_id);

CREATE TABLE attempts (
    task_id        uuid NOT NULL,
    attempt        integer NOT NULL,
    org_id         uuid NOT NULL,
    job_id         uuid NOT NULL,
    outcome        text NOT NULL
                   CHECK (outcome IN ('Completed', 'Failed', 'TimedOut', 'LeaseExpired', 'Lapsed',
                                      'Canceled')),
    final          boolean NOT NULL,
    late           boolean NOT NULL DEFAULT false,
    leased_at      timestamptz,
    started_at     timestamptz,
    ended_at       timestamptz NOT NULL,
    worker_id      text,
    lease_sequence integer NOT NULL,
    lease_token    uuid,
    -- Of the completion's body: the same body again is the same outcome, another one a conflict.
    body_digest    uuid,
    error_code     text,
    error_message  text,
    PRIMARY KEY (task_id, attempt)
) PARTITION BY RANGE (task_id);

-- Finished without success: few, and what people look for.
CREATE INDEX attempts_failed ON attempts (job_id, ended_at) WHERE outcome <> 'Completed';

CREATE TABLE task_inputs (
    task_id         uuid NOT NULL,
    attempt         integer NOT NULL,
    lease_sequence  integer NOT NULL,
    input_index     integer NOT NULL,
    dataset_version uuid NOT NULL,
    commit_number   bigint
) PARTITION BY RANGE (task_id);

-- Written once with the lease, in about the order of task ids: a summary index finds them, and
-- costs an insert next to nothing.
CREATE INDEX task_inputs_task ON task_inputs USING brin (task_id) WITH (pages_per_range = 16);

CREATE TABLE task_outputs (
    task_id         uuid NOT NULL,
    attempt         integer NOT NULL,
    lease_sequence  integer NOT NULL,
    output_index    integer NOT NULL,
    scope           text NOT NULL,
    dataset_version uuid NOT NULL,
    location        text NOT NULL,
    row_count       bigint,
    PRIMARY KEY (task_id, attempt, lease_sequence, output_index, scope)
) PARTITION BY RANGE (task_id);

-- The primary key is the dedupe key: what was announced once is announced once.
CREATE TABLE events (
    producer_task_id uuid NOT NULL,
    dataset_version  uuid NOT NULL,
    scope            text NOT NULL,
    revision         bigint NOT NULL,
    event_id         uuid NOT NULL,
    org_id           uuid NOT NULL,
    attempt          integer NOT NULL,
    range_start      bigint,
    range_end        bigint,
    accepted_at      timestamptz NOT NULL,
    PRIMARY KEY (producer_task_id, dataset_version, scope, revision)
) PARTITION BY RANGE (producer_task_id);
