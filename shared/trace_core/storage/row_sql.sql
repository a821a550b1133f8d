-- name: speak_utc
-- Instants come back as they went in.
SET TimeZone = 'UTC';

-- name: lock_out
-- No file and no network; after it nothing about files can be changed.
SET enable_external_access = false;

-- name: first_of_key
-- Of rows with one key the first commit's, and in it the first, counts; then only those of interest.
SELECT {columns}
  FROM (SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY "#number", "#position") AS "#rank"
          FROM given)
 WHERE "#rank" = 1 AND "#wanted";

-- name: take
-- All rows once, so that several questions can be asked of them.
CREATE TABLE checked AS SELECT {columns} FROM given;

-- name: count
-- How many rows were looked at.
SELECT count(*) FROM checked;

-- name: gaps
-- Values that have a successor, but not the next number; the first few.
SELECT value + 1, following - 1, count(*) OVER ()
  FROM (SELECT value, lead(value) OVER (ORDER BY value) AS following
          FROM (SELECT DISTINCT {column}::HUGEINT AS value FROM checked WHERE {column} IS NOT NULL))
 WHERE following > value + 1
 ORDER BY 1
 LIMIT {limit};

-- name: repeats
-- Keys that stand more than once; a NULL equals nothing.
SELECT {columns}, count(*), count(*) OVER ()
  FROM checked
 WHERE {present}
 GROUP BY {columns}
HAVING count(*) > 1
 ORDER BY count(*) DESC, {columns}
 LIMIT {limit};

-- name: nulls
-- Rows that lack the value.
SELECT count(*) FROM checked WHERE {column} IS NULL;
