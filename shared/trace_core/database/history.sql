-- name: lock_history
-- One maker of partitions at a time; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(7274364);

-- name: history_partitions
-- The partitions of all history tables.
SELECT c.relname
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid;

-- name: make_history_partition
-- One month of one history table, not yet a part of it.
CREATE TABLE {partition} (LIKE {parent} INCLUDING ALL)

-- name: attach_history_partition
-- Attaching lets readers and writers go on, where making it as a part would lock them out.
ALTER TABLE {parent} ATTACH PARTITION {partition} FOR VALUES FROM ({start}) TO ({end})
