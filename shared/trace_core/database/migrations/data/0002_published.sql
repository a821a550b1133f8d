-- Goes before the code that needs it. Creates a schema and two tables; takes no lock on anything that
-- exists.

SET LOCAL ROLE trace_data_owner;

-- One view for each published dataset whose rows are all here.
CREATE SCHEMA published;

-- What each name became, and which versions its view shows. Changed with the views, in one
-- transaction.
CREATE TABLE trace.published_views (
    org_id       uuid NOT NULL,
    dataset_name text NOT NULL,
    -- The name itself, unless it is too long or another org has it.
    view_name    text NOT NULL UNIQUE,
    dag_id       uuid NOT NULL,
    -- In the order of the parts; those without a table are left out.
    versions     uuid[] NOT NULL,
    columns      jsonb NOT NULL,
    PRIMARY KEY (org_id, dataset_name)
);
CREATE INDEX published_views_dag ON trace.published_views (dag_id);

-- The readable pin of a version, copied from the state database: what its views show. Without a
-- foreign key: that would wait for whoever commits to the version.
CREATE TABLE trace.published_pins (
    dataset_version uuid PRIMARY KEY,
    number          bigint NOT NULL CHECK (number >= 0)
) WITH (fillfactor = 50);

GRANT USAGE ON SCHEMA published, trace TO trace_data_reader;
GRANT SELECT ON trace.published_views TO trace_data_reader;

RESET ROLE;
