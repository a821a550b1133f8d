"""Which statements of users run, judged on the plan of Spark's own parser."""

# ruff: noqa: S608

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from emr_jobs.operators.sql_transform import session_of_its_own
from emr_jobs.sql_gate import judge
from emr_jobs.sql_text import SqlRefused
from tests.spark.hostile_sql import HOSTILE

ALIASES = ("logs", "labels")

HEALTHY = {
    "a join": "SELECT l.value, b.label FROM logs l LEFT JOIN labels AS b ON l.address = b.address",
    "joins": """SELECT * FROM logs JOIN labels USING (address) CROSS JOIN labels b
        LEFT SEMI JOIN labels c ON c.address = b.address FULL JOIN labels d ON d.label = b.label""",
    "a natural join": "SELECT * FROM logs NATURAL JOIN labels",
    "a window": """SELECT row_number() OVER (PARTITION BY address ORDER BY block_number DESC) AS r,
        sum(block_number) OVER w AS s, first_value(address) IGNORE NULLS OVER w AS f, lag(address)
        OVER (ORDER BY block_number) AS g FROM logs WINDOW w AS (PARTITION BY address
        ORDER BY block_number
        ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)""",
    "WITH": """WITH a AS (SELECT 1 AS n), b(m) AS (SELECT n FROM a)
        SELECT * FROM a JOIN b ON a.n = b.m""",
    "a WITH in a WITH": "WITH a AS (WITH b AS (SELECT 1 AS n) SELECT * FROM b) SELECT * FROM a",
    "explode": "SELECT e.v FROM logs, LATERAL explode(split(address, 'x')) AS e(v)",
    "a LATERAL VIEW": "SELECT v FROM logs LATERAL VIEW OUTER explode(array(1, 2)) t AS v",
    "explode in the list": "SELECT explode(array(1, 2)) AS v FROM logs",
    "range": "SELECT id FROM range(10)",
    "aggregates": """SELECT address, count(*) AS n, count(DISTINCT block_number) AS d,
        sum(block_number) FILTER (WHERE block_number > 1) AS s, min_by(address, block_number) AS m,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY block_number) AS p,
        array_sort(collect_set(block_number)) AS c
        FROM logs GROUP BY address HAVING count(*) > 1""",
    "texts in an order": """SELECT listagg(address, ',') WITHIN GROUP (ORDER BY address) AS a,
        mode() WITHIN GROUP (ORDER BY block_number) AS m FROM logs""",
    "groupings": "SELECT address, count(*) AS n FROM logs GROUP BY CUBE(address, block_number)",
    "sets": """SELECT address FROM logs UNION ALL SELECT address FROM labels
        INTERSECT SELECT '0x01' EXCEPT SELECT '0x02'""",
    "CASE": """SELECT CASE WHEN block_number > 1 THEN 'a' ELSE 'b' END AS a,
        CASE address WHEN '0x01' THEN 1 END AS b, if(true, 1, 2) AS c FROM logs""",
    "casts": """SELECT CAST(block_number AS decimal(38,0)) AS a, try_cast(address AS bigint) AS b,
        block_number::int AS c, double(block_number) AS d FROM logs""",
    "try": "SELECT try_divide(1, 0) AS a, try_add(1, 2) AS b, try_to_number('1', '9') AS c",
    "times": """SELECT date '2026-01-31' AS a, timestamp '2026-01-31 12:00:00' AS b,
        date_trunc('hour', timestamp '2026-01-31 12:00:00Z') AS c, interval 1 day AS d,
        extract(YEAR FROM date '2026-01-31') AS e""",
    "text": """SELECT trim(BOTH ' ' FROM address) AS a, substring(address FROM 1 FOR 2) AS b,
        upper(address) || 'x' AS c, address LIKE '0x%' AS d, address RLIKE '^0x' AS e,
        regexp_extract(address, '(x)', 1) AS f, "text" AS g, 'it''s; -- no comment' AS h
        FROM logs""",
    "lambdas": """SELECT transform(array(1, 2), x -> x + 1) AS a,
        aggregate(array(1, 2), 0, (a, x) -> a + x) AS b, exists(array(1), x -> x > 1) AS c""",
    "subqueries": """SELECT (SELECT max(block_number) FROM logs) AS m FROM labels b
        WHERE b.address IN (SELECT address FROM logs) AND EXISTS
        (SELECT 1 FROM logs l WHERE l.address = b.address)""",
    "an ordered LIMIT": "SELECT * FROM logs ORDER BY block_number LIMIT 3 OFFSET 1",
    "an ordered OFFSET": """SELECT sum(block_number) OVER w AS s FROM logs
        WINDOW w AS (PARTITION BY address) ORDER BY s OFFSET 1""",
    "VALUES": "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s)",
    "PIVOT": "SELECT * FROM labels PIVOT (count(address) FOR label IN ('a', 'b'))",
    "structs": "SELECT named_struct('a', 1).a AS a, map('k', 1)['k'] AS b, array(1)[0] AS c",
    "a star": "SELECT l.* EXCEPT (value) FROM logs l",
    "numbers": "SELECT -1 AS a, +1 AS b, ~1 AS c, 7 div 2 AS d, 7 % 2 AS e, 1 << 2 AS f, 1e3 AS g",
    "a hint for a join": "SELECT /*+ BROADCAST(b) */ * FROM logs JOIN labels b USING (address)",
    "FROM first": "FROM logs SELECT address",
    "comments": "/* a /* nested */ comment */ SELECT 1 AS n -- one\nFROM logs",
    "other case": "select ADDRESS as a from LOGS",
    "a qualified column of a strange name": "SELECT l.user AS u FROM (SELECT 1 AS `user`) l",
    "a column called from": """SELECT t.from AS sender, from AS again, lower(from) AS l, t.to
        FROM (SELECT address AS from, value AS to FROM logs) t JOIN labels b ON t.from = b.address
        WHERE t.from LIKE '0x%' AND from IS NOT NULL AND CASE WHEN from = 'a' THEN from ELSE to END
        = to OR t.from IN ('b') ORDER BY from DESC, t.from LIMIT 5""",
    "groups by a column called from": """SELECT from, count(*) AS n
        FROM (SELECT address AS from FROM logs) GROUP BY from HAVING count(*) > 1""",
    "BETWEEN": """SELECT block_number NOT BETWEEN 5 AND 6 AS a FROM logs
        WHERE block_number BETWEEN 1 AND 2 AND address BETWEEN 'a' AND lower('B')""",
    "ILIKE ANY": "SELECT address ILIKE ANY ('0X%', 'b') AS a FROM logs",
    "IS DISTINCT FROM": "SELECT 1 AS n FROM logs WHERE address IS DISTINCT FROM value",
    "JSON": "SELECT get_json_object('{}', '$.a') AS a, to_json(struct(1 AS x)) AS b FROM logs",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    found = session_of_its_own(spark)
    empty = "SELECT 1L AS block_number, '0x01' AS address, '1' AS value"
    found.sql(empty).createTempView("logs")
    found.sql("SELECT '0x01' AS address, 'a' AS label").createTempView("labels")
    yield found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_statement_is_refused_for_its_own_reason(
    name: str, session: SparkSession
) -> None:
    sql, said = HOSTILE[name]
    started = time.monotonic()
    with pytest.raises(SqlRefused) as caught:
        judge(session, sql, ALIASES)
    assert said.lower() in str(caught.value).lower()
    assert caught.value.fix
    assert time.monotonic() - started < 10


def test_there_are_many_hostile_statements() -> None:
    assert len(HOSTILE) >= 100


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_statement_runs(name: str, session: SparkSession) -> None:
    judge(session, HEALTHY[name], ALIASES)
    assert session.sql(HEALTHY[name]).columns


def test_a_refusal_names_the_place(session: SparkSession) -> None:
    with pytest.raises(SqlRefused) as caught:
        judge(session, "SELECT address,\n  mine(address) AS x\nFROM logs", ALIASES)
    assert caught.value.at == (2, 3)
    assert "line 2, column 3" in str(caught.value)


def test_only_what_is_named_counts_as_read(session: SparkSession) -> None:
    assert judge(session, "SELECT * FROM LABELS", ALIASES).reads == {"labels"}
    assert judge(session, "WITH logs AS (SELECT 1 AS n) SELECT * FROM logs", ALIASES).reads == set()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 38 + "1" + ")" * 38 + " AS n FROM logs",
        "SELECT " + "abs(" * 38 + "1" + ")" * 38 + " AS n FROM logs",
        "SELECT " + "CASE WHEN true THEN " * 38 + "1" + " END" * 38 + " AS n FROM logs",
        "SELECT * FROM " + "(SELECT * FROM " * 38 + "logs" + ")" * 38,
        "SELECT " + "NOT " * 19 + "true AS n FROM logs",
        "SELECT " + "1 + " * 120 + "1 AS n FROM logs",
        "SELECT 1 AS n FROM logs WHERE " + " AND ".join(["block_number > 1"] * 1000),
        "SELECT " + ", ".join(f"block_number + {at} AS c{at}" for at in range(1000)) + " FROM logs",
    ],
    ids=["brackets", "calls", "cases", "subqueries", "nots", "sums", "ands", "columns"],
)
def test_what_is_just_allowed_is_judged_in_seconds(sql: str, session: SparkSession) -> None:
    started = time.monotonic()
    judge(session, sql, ALIASES)
    assert time.monotonic() - started < 15
