-- Goes before the code that needs it. Creates a table only: takes no lock that anybody waits for.
--
-- The last slices of each source that were accepted, so that a report that comes twice is known
-- again also when the next slices have begun. A ring: a slice takes the place of the one that was
-- so many slices ago, and the table stays as small as the number of sources.

CREATE TABLE yields (
    task_id     uuid NOT NULL,
    -- The number of the lease, modulo the size of the ring.
    place       smallint NOT NULL,
    attempt     integer NOT NULL,
    lease_token uuid NOT NULL,
    body_digest uuid NOT NULL,
    PRIMARY KEY (task_id, place)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);
