-- fragment: pinned
-- Cold ranges are sorted and do not meet: only the last that begins before a row can hold it. Of a
-- commit without cursors that counts which lies in the range asked for: no more of the cold is known.
_from <= %(pin)s AND (_to IS NULL OR _to > %(pin)s)
AND (_start IS NOT NULL
     AND least(_end, %(end_at)s::bigint) <= (%(cold_ends)s::bigint[])[
         width_bucket(greatest(_start, %(start_at)s::bigint), %(cold_starts)s::bigint[])])
    IS NOT TRUE
AND {where}

-- name: all_rows
-- Exactly the rows of the pin, without those that a colder part has.
SELECT {selected} FROM {schema}.{table}
 WHERE
-- include: pinned

-- name: rows_at_cursors
-- Rows with cursors of their own, in a range.
SELECT {selected} FROM {schema}.{table}
 WHERE _start BETWEEN %(start_at)s AND %(end_at)s AND
-- include: pinned

-- name: rows_of_range
-- Rows of the commits that meet a range: by their bounds, by name, or because they hold all. Rows that
-- begin before it and reach into it have an index of their own: of the other one, which is all that
-- tables of earlier releases have, everything before the range would be read.
SELECT {selected} FROM {schema}.{table}
 WHERE (_start BETWEEN %(start_at)s AND %(end_at)s
        OR (_start < %(start_at)s AND _end >= %(start_at)s AND _start < _end)
        OR (_start IS NULL AND _scope = ANY(ARRAY['', %(scope)s]))) AND
-- include: pinned

-- name: rows_of_scope
-- Rows of a partition by its name, and of commits that hold all.
SELECT {selected} FROM {schema}.{table}
 WHERE _scope = ANY(ARRAY['', %(scope)s]) AND
-- include: pinned
