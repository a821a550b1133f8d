-- Goes before the code that needs it. Adds columns to slots, a small table, under a lock that is
-- held for a moment.
--
-- What each slot took of its upstreams, and whether it is in quarantine.

ALTER TABLE slots
    ADD COLUMN requests          bigint NOT NULL DEFAULT 0,
    ADD COLUMN retries           bigint NOT NULL DEFAULT 0,
    ADD COLUMN rate_limited      bigint NOT NULL DEFAULT 0,
    ADD COLUMN errors            bigint NOT NULL DEFAULT 0,
    ADD COLUMN bytes             bigint NOT NULL DEFAULT 0,
    ADD COLUMN latency_ms        bigint NOT NULL DEFAULT 0,
    ADD COLUMN last_used_at      timestamptz,
    -- Attempts in a row that ended by the provider's fault.
    ADD COLUMN failures          integer NOT NULL DEFAULT 0,
    ADD COLUMN last_fault        text,
    ADD COLUMN last_fault_at     timestamptz,
    -- Quarantines in a row: each is longer than the one before it.
    ADD COLUMN quarantines       integer NOT NULL DEFAULT 0,
    ADD COLUMN quarantined_until timestamptz,
    -- The lease that was counted last: a report that comes twice counts once.
    ADD COLUMN reported_lease    uuid;

CREATE INDEX slots_quarantined ON slots (quarantined_until) WHERE quarantined_until IS NOT NULL;
