"""What the PySpark operators refuse when a DAG is deployed, where there is no Spark."""

from __future__ import annotations

import pytest

from emr_jobs.sql_text import SqlRefused, check_text
from trace_core.dag.load import load_dag
from trace_core.dag.problems import DagInvalid, Problem
from trace_core.operators.catalog import load_catalog

DAG = """
version: 1
name: chain
jobs:
  - name: request
    activation: source
    runtime: dispatcher
    operator: range_request
    source: {{ kind: manual }}
    outputs: 1
  - name: chunks
    activation: reactive
    runtime: dispatcher
    operator: range_splitter
    execution_strategy: PerPartition
    inputs: [{{ from: {{ job: request, output: 0 }} }}]
    outputs: 1
    config: {{ chunk_size: 1000 }}
  - name: work
    activation: reactive
    runtime: emr_serverless
    operator: {operator}
    execution_strategy: PerPartition
    inputs:
      - {{ from: {{ job: chunks, output: 0 }} }}
      - {{ from: {{ dataset: logs }} }}
    outputs: 1
    update_strategy: replace
    config: {config}
"""


def problems(operator: str, config: str) -> list[Problem]:
    text = DAG.format(operator=operator, config=config)
    try:
        load_dag(text, filename="chain.dag.yaml", catalog=load_catalog([]))
    except DagInvalid as error:
        return list(error.problems)
    return []


def test_a_statement_over_the_inputs_passes() -> None:
    assert problems("sql_transform", "{ sql: SELECT address FROM logs }") == []


@pytest.mark.parametrize(
    ("sql", "said", "better"),
    [
        ("SELECT * FROM lgos", "the relation lgos at line 1, column 15", "chunks, logs"),
        ("DROP TABLE logs", "only one SELECT is run", "begin with SELECT"),
        ("SELECT 1; SELECT 2", "one statement is run", "a job of each"),
        ("SELECT now() FROM logs", "the function now", "leave it out"),
    ],
)
def test_a_statement_that_cannot_run_is_refused_with_its_place(
    sql: str, said: str, better: str
) -> None:
    [problem] = problems("sql_transform", f'{{ sql: "{sql}" }}')
    assert problem.field == "jobs[2].config.sql"
    assert said in problem.reason
    assert problem.suggestion
    assert better in problem.suggestion


def test_a_type_that_no_column_has_is_refused() -> None:
    [problem] = problems("sql_transform", "{ sql: SELECT 1 AS a FROM logs, types: { a: uint } }")
    assert problem.field == "jobs[2].config.types.a"


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT 1 AS n), b (m) AS (SELECT n FROM a) SELECT * FROM a JOIN b ON a.n = b.m",
        "SELECT extract(YEAR FROM t), trim(BOTH ' ' FROM x) FROM logs",
        "SELECT 1 FROM logs WHERE a IS DISTINCT FROM b",
        "SELECT 'DROP TABLE x; -- (((' AS a, \"'\" AS b, `a;``b` FROM logs -- ; (",
        "/* ; /* ( */ */ SELECT r'\\' || 'a\\'b' FROM logs",
        "SELECT * FROM LOGS AS l JOIN `logs` m USING (address), LATERAL explode(x) AS e(v)",
        "SELECT first_value(x) OVER (ORDER BY y) FROM logs",
        "SELECT e.v FROM (SELECT 1 AS v) e",
    ],
)
def test_the_text_alone_condemns_nothing_healthy(sql: str) -> None:
    check_text(sql, ["logs"])


@pytest.mark.parametrize(
    ("sql", "at"),
    [("SELECT 1\n  FROM a.b", (2, 8)), ("SELECT\n1;", (2, 2)), ("SELECT 'x", (1, 8))],
)
def test_a_refusal_counts_lines_and_columns_from_one(sql: str, at: tuple[int, int]) -> None:
    with pytest.raises(SqlRefused) as caught:
        check_text(sql, ["a"])
    assert caught.value.at == at


def rollup(bucket: str, more: str = "") -> list[Problem]:
    return problems(
        "rollup", f"{{ aggregates: {{ n: {{ function: count }} }}, bucket: {bucket}{more} }}"
    )


def test_buckets_must_divide_the_ranges_that_feed_them() -> None:
    assert rollup("{ by: cursor, column: block_number, size: 250 }") == []
    [problem] = rollup("{ by: cursor, column: block_number, size: 300 }")
    assert problem.field == "jobs[2].config.bucket.size"
    assert problem.reason == "ranges of 1000 cut buckets of 300 in two"
    [problem] = rollup("{ by: time, column: timestamp, size: 3600 }")
    assert problem.suggestion is not None
    assert "partial: true" in problem.suggestion
    assert rollup("{ by: time, column: timestamp, size: 3600 }", ", partial: true") == []


def test_what_cannot_be_added_up_is_no_part() -> None:
    [problem] = problems(
        "rollup", "{ aggregates: { a: { function: avg, column: x } }, partial: true }"
    )
    assert problem.field == "jobs[2].config.aggregates.a.function"


def test_a_lookup_names_an_input() -> None:
    lookup = "{ lookups: [{ input: lables, keys: { address: address } }] }"
    [problem] = problems("enrich", lookup)
    assert problem.field == "jobs[2].config.lookups[0].input"
