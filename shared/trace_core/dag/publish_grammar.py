"""The keys of a publication and of its checks."""

from __future__ import annotations

from trace_core.dag import model
from trace_core.dag.containers import Key, ListOf, MapOf, Object
from trace_core.dag.dag_shapes import ColumnType, Duration
from trace_core.dag.shapes import Choice, Refusal
from trace_core.dag.words import COLUMN, COLUMNS, DESCRIPTION, JOB_OUTPUT, words

SCHEMA = Object(
    {
        "columns": Key(
            MapOf(COLUMN, ColumnType(), 1000, 1, example="`name: type` lines such as `hash: text`"),
            "Column to type, in this order.",
            required=True,
        ),
        "unique": Key(COLUMNS, "The columns that identify a row."),
        "indexes": Key(
            ListOf(COLUMNS, 0, 30, distinct=True, example="lists of columns: `[[event_time]]`"),
            "Further indexes, each a list of columns.",
        ),
    },
    example="`columns:` with `name: type` lines under it",
)

PUBLICATION = Object(
    {
        "from": Key(
            ListOf(JOB_OUTPUT, 1, 20, example="`{ job: name, output: 0 }`", single=True),
            "The outputs that make up the dataset (hot, backfilled, cold).",
            required=True,
        ),
        "description": Key(DESCRIPTION, "For the people who read it."),
        "freshness": Key(Duration(), "Older data alerts."),
        "pii": Key(
            ListOf(COLUMN, distinct=True, example="a list such as `[email]`"),
            "Columns whose reads are logged.",
        ),
        "storage": Key(
            Choice(words(model.Storage)), "Where it is kept.", default="the operator's own"
        ),
        "write_mode": Key(
            Choice(words(model.WriteMode)),
            "Written by the job, or by the platform from a buffer.",
            default="direct",
        ),
        "schema": Key(SCHEMA, "The table; required for `write_mode: buffered`."),
    },
    refused={
        "read_roles": Refusal(
            "is set by administrators in the registry, not by a DAG", "remove it here"
        )
    },
    example="`from: { job: name, output: 0 }` under the dataset's name",
)

CHECK = Object(
    {
        "kind": Key(
            Choice(words(model.CheckKind)),
            "`no_gaps`: every whole number between smallest and largest is there; `unique`: no "
            "two rows agree in these columns; `not_null`: none is empty.",
            required=True,
        ),
        "column": Key(COLUMN, "With `no_gaps`."),
        "columns": Key(COLUMNS, "With `unique` and `not_null`."),
    },
    example="`{ kind: unique, columns: [hash] }`",
)
