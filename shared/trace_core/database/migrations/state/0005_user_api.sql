-- Goes before the code that needs it. Builds an index on events, under a lock that lets nobody write
-- to them: a second for ten million events. Creates a table.

-- Events come in about the order of their ids, so a summary of each block range finds those of a
-- time, and costs an insert next to nothing.
CREATE INDEX events_event ON events USING brin (event_id) WITH (pages_per_range = 16,
                                                                autosummarize = on);

-- Requests of each caller in each minute. Unlogged: nobody waits for a disk to be counted, and after
-- a crash of the database everybody begins anew.
CREATE UNLOGGED TABLE request_counts (
    window_started_at timestamptz NOT NULL,
    -- A user, an org or a webhook source.
    counted_id        uuid NOT NULL,
    rate              text NOT NULL,
    requests          integer NOT NULL,
    PRIMARY KEY (window_started_at, counted_id, rate)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);
