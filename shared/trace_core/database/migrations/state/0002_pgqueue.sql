-- Goes before the code that needs it. Creates tables only: takes no lock that anybody waits for.
--
-- The queue of the profile `lite`: hints that work may be waiting. Nothing else refers to it, and
-- on AWS it stays empty.

CREATE TABLE pgqueue_messages (
    queue         text NOT NULL,
    message_id    uuid NOT NULL,
    -- Hidden from receivers before this time: in flight, if it was received.
    visible_at    timestamptz NOT NULL,
    receive_count integer NOT NULL DEFAULT 0,
    -- Names the last receive; whoever shows another one is late.
    receive_token uuid,
    body          text NOT NULL,
    PRIMARY KEY (queue, message_id)
-- Every message leaves three dead rows. A thousand of them are cleaned up at once: a share of the
-- table would let them pile up in front of the next receiver. Giving pages back to the disk would
-- lock everybody out, for pages that the next burst takes again.
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 10000,
        autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
        toast.autovacuum_vacuum_scale_factor = 0.0, toast.autovacuum_vacuum_threshold = 1000,
        toast.autovacuum_vacuum_cost_delay = 0, toast.vacuum_truncate = off);

CREATE INDEX pgqueue_messages_visible ON pgqueue_messages (queue, visible_at);

CREATE TABLE pgqueue_dead (
    queue         text NOT NULL,
    message_id    uuid NOT NULL,
    died_at       timestamptz NOT NULL,
    receive_count integer NOT NULL,
    body          text NOT NULL,
    PRIMARY KEY (queue, message_id)
);
