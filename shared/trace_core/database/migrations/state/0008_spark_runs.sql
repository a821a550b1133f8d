-- Goes before the code that needs it. Replaces one constraint of invalidations under ACCESS EXCLUSIVE,
-- reading that table once; every other table is new.
--
-- Runs of PySpark operators: one row for each time that a run was asked for.

CREATE TABLE spark_runs (
    task_id             uuid NOT NULL,
    -- Grows only after the run before it is known to have ended: with task and attempt it names the
    -- run to whoever starts it, so that asking twice begins one run.
    start_number        integer NOT NULL,
    org_id              uuid NOT NULL,
    job_id              uuid NOT NULL,
    -- What the lease becomes by the exchange.
    attempt             integer NOT NULL,
    lease_sequence      integer NOT NULL,
    -- Of the reservation that this run belongs to.
    start_token         uuid NOT NULL,
    -- `index version number swap` of each input, with commas between them: fixed with this row, since
    -- the inputs are exported before the run begins.
    pins                text NOT NULL,
    timeout_seconds     integer NOT NULL,
    -- As the service names it; unknown until its answer is stored.
    run_id              text,
    -- Asked for, and then the words of the service.
    state               text NOT NULL DEFAULT 'PREPARED'
                        CHECK (state IN ('PREPARED', 'SUBMITTED', 'PENDING', 'SCHEDULED', 'QUEUED',
                                         'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLING', 'CANCELLED',
                                         'REFUSED', 'LOST')),
    detail              text,
    prepared_at         timestamptz NOT NULL,
    -- How often the service was asked to start it; at 0 no run can exist.
    start_tries         integer NOT NULL DEFAULT 0,
    submitted_at        timestamptz,
    started_at          timestamptz,
    -- The start token was exchanged for the lease: the attempt counts from here.
    exchanged_at        timestamptz,
    ended_at            timestamptz,
    queued_seconds      double precision,
    vcpu_hours          double precision,
    memory_gb_hours     double precision,
    storage_gb_hours    double precision,
    cancel_reason       text CHECK (cancel_reason IN ('Canceled', 'TimedOut', 'QueueTimedOut', 'Gone')),
    cancel_requested_at timestamptz,
    -- All that follows from its end is done.
    closed_at           timestamptz,
    -- When somebody looks at it next.
    look_at             timestamptz NOT NULL,
    -- How often what follows from its end could not be done.
    end_tries           integer NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, start_number)
) WITH (fillfactor = 70);

-- A task has one run at a time.
CREATE UNIQUE INDEX spark_runs_open ON spark_runs (task_id) WHERE closed_at IS NULL;
CREATE INDEX spark_runs_look ON spark_runs (look_at) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX spark_runs_run ON spark_runs (run_id) WHERE run_id IS NOT NULL;

-- `task`: a check found the scope of an input bad.
ALTER TABLE invalidations
    DROP CONSTRAINT invalidations_source_check,
    ADD CONSTRAINT invalidations_source_check
        CHECK (source IN ('replace', 'cutover', 'rollback', 'person', 'task'));
