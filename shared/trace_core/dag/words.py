"""The words of the grammar that several parts of a DAG file share."""

from __future__ import annotations

import re
from enum import StrEnum

from trace_core.dag.containers import Key, ListOf, Object
from trace_core.dag.filters import FIELD
from trace_core.dag.shapes import Integer, Refusal, Text

_NOT_NAME = re.compile(r"[^a-z0-9]+")


def _as_name(text: str) -> str | None:
    """`My-Job 2` as a name: `my_job_2`."""
    name = _NOT_NAME.sub("_", text.lower()).strip("_")[:128]
    return name if re.fullmatch(r"[a-z][a-z0-9_]*", name) else None


def _as_column(text: str) -> str | None:
    name = _as_name(text)
    return name if name and len(name) <= 63 else None


def words(kind: type[StrEnum]) -> tuple[str, ...]:
    return tuple(word.value for word in kind)


NAME = Text(
    re.compile(r"[a-z][a-z0-9_]{0,127}"),
    "a name of lower-case letters, digits and `_`, starting with a letter",
    longest=128,
    fix=_as_name,
)
COLUMN = Text(FIELD, "a column name of lower-case letters, digits and `_`", 63, _as_column)
COLUMNS = ListOf(COLUMN, least=1, most=100, distinct=True, example="a list such as `[hash]`")
DESCRIPTION = Text(longest=2000)
ENV_NAME = Text(
    re.compile(r"[A-Z][A-Z0-9_]{0,127}"),
    "an environment variable name of upper-case letters, digits and `_`",
    longest=128,
    fix=lambda text: (_as_name(text) or "").upper() or None,
)
SECRET_NAME = Text(
    NAME.pattern, "the name of a user secret (never the secret itself)", 128, private=True
)
OUTPUTS_MAX = 100

NO_MODE = Refusal(
    "is not part of a DAG file: live and backfill work share one DAG",
    "use `priority: live` or `priority: backfill` on the job",
)
NO_UDF_SECRETS = Refusal(
    "cannot be given to user code", "remove it; a `udf` gets no secrets, only operators do"
)
NO_SECRETS = Refusal(
    "cannot be declared by a job",
    "declare them in a slot of `worker_pools` and name the pool with `worker_pool`",
)
NO_OUTPUT_INDEX = Refusal("has another name here", "write `output`", "output")

JOB_OUTPUT = Object(
    {
        "job": Key(NAME, "A job of this DAG.", required=True),
        "output": Key(Integer(0, OUTPUTS_MAX - 1), "Which of its outputs, from 0.", required=True),
    },
    refused={
        "output_index": NO_OUTPUT_INDEX,
        "dataset": Refusal("cannot be published again", "name a job of this DAG and its output"),
    },
    example="`{ job: name, output: 0 }`",
)
