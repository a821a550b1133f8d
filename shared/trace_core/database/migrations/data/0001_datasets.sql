-- Goes before the code that needs it. Creates a schema and its tables; takes no lock on anything that
-- exists. The roles are there by then (`make_data_roles` in migrate.sql).

-- Everything below belongs to the owner, whoever migrates.
SET LOCAL ROLE trace_data_owner;

CREATE SCHEMA trace;

-- A restore of either database raises it, so that no writer from before gets through again.
CREATE TABLE trace.epoch (
    singleton boolean PRIMARY KEY CHECK (singleton),
    epoch     bigint NOT NULL CHECK (epoch >= 1)
);
INSERT INTO trace.epoch (singleton, epoch) VALUES (true, 1);

-- The newest attempt and lease of a task that came to write; lower ones are refused.
CREATE TABLE trace.fences (
    task_id        uuid PRIMARY KEY,
    epoch          bigint NOT NULL,
    attempt        integer NOT NULL,
    lease_sequence integer NOT NULL
) WITH (fillfactor = 80);

-- Dataset versions with a table here. `last_number` is the counter of commits: its row is locked
-- until the commit, so that the order of numbers is the order of commits.
CREATE TABLE trace.versions (
    dataset_version uuid PRIMARY KEY,
    dataset_uuid    uuid NOT NULL,
    columns         jsonb NOT NULL,
    update_strategy text NOT NULL CHECK (update_strategy IN ('replace', 'append')),
    unique_key      text[] NOT NULL,
    last_number     bigint NOT NULL CHECK (last_number >= 0)
) WITH (fillfactor = 50);

-- What one data transaction was asked to do, and what its attempt reports for it.
CREATE TABLE trace.completions (
    task_id        uuid NOT NULL,
    epoch          bigint NOT NULL,
    attempt        integer NOT NULL,
    lease_sequence integer NOT NULL,
    -- Which data transaction under that lease.
    step           integer NOT NULL CHECK (step >= 0),
    request_digest text NOT NULL,
    input_pins     jsonb NOT NULL,
    body           jsonb NOT NULL,
    committed_at   timestamptz NOT NULL,
    PRIMARY KEY (task_id, epoch, attempt, lease_sequence, step)
);

-- One commit of one scope of one output.
CREATE TABLE trace.records (
    dataset_version uuid NOT NULL REFERENCES trace.versions,
    number          bigint NOT NULL CHECK (number >= 1),
    task_id         uuid NOT NULL,
    output_index    integer NOT NULL,
    scope           text NOT NULL,
    start_at        bigint,
    end_at          bigint,
    -- The newest commit that the scope held before; 0 when there was none.
    replaces        bigint NOT NULL,
    -- The commit whose scope took in all of this one's.
    replaced_at     bigint,
    -- Its rows lie at cursors of their own, and can be replaced one by one.
    row_cursors     boolean NOT NULL,
    row_count       bigint NOT NULL,
    epoch           bigint NOT NULL,
    attempt         integer NOT NULL,
    lease_sequence  integer NOT NULL,
    step            integer NOT NULL,
    registered_at   timestamptz,
    PRIMARY KEY (dataset_version, number),
    UNIQUE (task_id, output_index, scope, replaces),
    CHECK ((start_at IS NULL) = (end_at IS NULL)),
    FOREIGN KEY (task_id, epoch, attempt, lease_sequence, step) REFERENCES trace.completions
);
CREATE INDEX records_of_lease
    ON trace.records (task_id, epoch, attempt, lease_sequence, step);
CREATE INDEX records_open_scope
    ON trace.records (dataset_version, scope, number) WHERE replaced_at IS NULL;
-- A range has at most a few open commits in each version, so the version need not be in the index.
CREATE INDEX records_open_range
    ON trace.records USING gist (int8range(start_at, end_at, '[]'))
    WHERE replaced_at IS NULL AND start_at IS NOT NULL;
CREATE INDEX records_unregistered
    ON trace.records (dataset_version, number) WHERE registered_at IS NULL;

-- How far a source has come, moved in the transaction that writes what it found.
CREATE TABLE trace.cursors (
    task_id uuid PRIMARY KEY,
    value   jsonb NOT NULL
) WITH (fillfactor = 50);

GRANT USAGE ON SCHEMA trace TO trace_data_writer;
GRANT SELECT ON trace.epoch TO trace_data_writer;
GRANT SELECT, INSERT, UPDATE ON trace.fences, trace.cursors TO trace_data_writer;
GRANT SELECT, UPDATE (last_number) ON trace.versions TO trace_data_writer;
GRANT SELECT, INSERT ON trace.completions TO trace_data_writer;
GRANT SELECT, INSERT, UPDATE (replaced_at, registered_at) ON trace.records TO trace_data_writer;

RESET ROLE;
