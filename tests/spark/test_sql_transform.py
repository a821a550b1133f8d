"""sql_transform: a SELECT over pinned inputs, exact numbers, and tasks beside one another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from emr_jobs.operators import sql_transform
from emr_jobs.task import OperatorFailed
from tests.spark.runs import Place
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkColumn, SparkFailure, SparkResult

RUN = "emr_jobs.operators.sql_transform:run"
LOGS = {"block_number": "bigint", "address": "text", "value": "numeric(78,0)"}
LABELS = {"address": "text", "label": "text"}
LARGEST = 2**256 - 1


def run(place: Place, sql: str, **changes: Any) -> SparkResult:
    rows = [
        {"block_number": each, "address": f"0x0{each % 2}", "value": str(LARGEST - each)}
        for each in range(4)
    ]
    config = changes.pop("config", {})
    return place.run(
        RUN,
        inputs=(
            place.input("logs", LOGS, rows, cursor_column="block_number"),
            place.input("labels", LABELS, [{"address": "0x01", "label": "one"}]),
        ),
        config={"sql": sql, **config},
        **changes,
    )


def rows(place: Place, sql: str, **changes: Any) -> list[dict[str, Any]]:
    result = run(place, sql, **changes)
    assert result.failure is None, result.failure
    return place.rows_of(result.written[0])


def failure(place: Place, sql: str, **changes: Any) -> SparkFailure:
    found = run(place, sql, **changes).failure
    assert found is not None
    assert not found.retryable
    return found


def test_a_join_keeps_exact_numbers_and_its_columns_are_recorded(place: Place) -> None:
    sql = """SELECT l.block_number, l.value AS amount, b.label
        FROM logs l JOIN labels b USING (address)"""
    result = run(place, sql, config={"sort_by": ["block_number"]})
    [written] = result.written
    assert written.columns == (
        SparkColumn("block_number", "bigint"),
        SparkColumn("amount", "numeric(78,0)"),
        SparkColumn("label", "text"),
    )
    assert place.rows_of(written) == [
        {"block_number": each, "amount": str(LARGEST - each), "label": "one"} for each in (1, 3)
    ]


def test_an_exact_number_passes_with_union_and_subqueries(place: Place) -> None:
    sql = """WITH a AS (SELECT value AS v FROM logs) SELECT v FROM a
        UNION ALL SELECT value FROM logs WHERE value = (SELECT v FROM a WHERE v LIKE '%9935')"""
    result = run(place, sql)
    [written] = result.written
    assert written.columns == (SparkColumn("v", "numeric(78,0)"),)
    assert len(place.rows_of(written)) == 5


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT max(value) AS m FROM logs", "max of value"),
        ("SELECT sum(value) AS m FROM logs", "value as a number"),
        ("SELECT value + 1 AS m FROM logs", "value as a number"),
        ("SELECT * FROM logs ORDER BY value", "ORDER BY of value"),
        ("SELECT block_number FROM logs WHERE value > 100", "value as a number"),
        ("SELECT l.block_number FROM logs l JOIN logs b ON l.value < b.value", "< of value"),
        ("SELECT rank() OVER (ORDER BY value) AS r FROM logs", "ORDER BY of value"),
        ("WITH c AS (SELECT value AS v FROM logs) SELECT max(v) AS m FROM c", "max of v"),
        ("SELECT (SELECT min(value) FROM logs) AS m FROM labels", "min of value"),
        ("SELECT address FROM logs GROUP BY address HAVING max(value) > 5", "max of value"),
        ("SELECT value FROM logs UNION ALL SELECT 'x'", "value in UNION"),
        ("SELECT 1 AS n FROM logs WHERE value BETWEEN '1' AND '500'", ">= of value"),
        ("SELECT 1 AS n FROM logs WHERE '5' BETWEEN '1' AND value", "<= of value"),
    ],
)
def test_what_would_lose_digits_is_refused(place: Place, sql: str, said: str) -> None:
    found = failure(place, sql)
    assert found.code == "SqlRefused"
    assert said in found.message


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT sum(CASE WHEN block_number > 1 THEN value END) AS m FROM logs", "value as a"),
        ("SELECT sum(if(block_number > 1, value, NULL)) AS m FROM logs", "value as a number"),
        ("SELECT sum(coalesce(value, '0')) AS m FROM logs", "value as a number"),
        ("SELECT sum(nvl(value, '0')) AS m FROM logs", "value as a number"),
        ("SELECT sum(nullif(value, '0')) AS m FROM logs", "value as a number"),
        ("SELECT max(coalesce(value, '0')) AS m FROM logs", "max of value"),
        ("SELECT max_by(value, block_number) + 1 AS m FROM logs", "value as a number"),
        ("WITH c AS (SELECT nvl(value, '0') AS v FROM logs) SELECT max(v) AS m FROM c", "max of v"),
        (
            "WITH c AS (SELECT lag(value) OVER (ORDER BY block_number) AS v FROM logs) "
            "SELECT sum(v) AS m FROM c",
            "v as a number",
        ),
        (
            "SELECT max(v) AS m FROM (SELECT nvl(value, '0') AS v FROM logs UNION ALL "
            "SELECT address FROM labels)",
            "max of v",
        ),
        ("SELECT (SELECT max_by(value, 1) FROM logs) > '9' AS m FROM labels", "> of value"),
        (
            "SELECT sum(v) AS m FROM (SELECT value, value AS other FROM logs) "
            "UNPIVOT (v FOR k IN (value, other))",
            "v as a number",
        ),
        (
            "SELECT sum(v) AS m FROM logs, LATERAL stack(2, 'a', value, 'b', value) AS t(k, v)",
            "v as a number",
        ),
        ("SELECT max(struct(value, address)).address AS m FROM logs", "max of value"),
        ("SELECT max_by(address, struct(value, 1)) AS m FROM logs", "max_by of value"),
        ("SELECT array_max(collect_list(value)) AS m FROM logs", "array_max of value"),
        ("SELECT array_min(array(value, '9')) AS m FROM logs", "array_min of value"),
        ("SELECT x FROM logs l, LATERAL (SELECT l.value > '9' AS x)", "> of value"),
        ("SELECT max(v) AS m FROM logs LATERAL VIEW explode(array('1', value)) t AS v", "max of v"),
        (
            "SELECT v FROM (SELECT value AS v FROM logs GROUP BY CUBE(value)) ORDER BY v",
            "ORDER BY of v",
        ),
    ],
)
def test_an_exact_number_is_known_behind_what_only_picks_it(
    place: Place, sql: str, said: str
) -> None:
    """Spark has forgotten its type there, and would add doubles and compare letters."""
    found = failure(place, sql)
    assert found.code == "SqlRefused", found
    assert said in found.message


def test_what_was_picked_can_be_cast_and_counted(place: Place) -> None:
    sql = """SELECT sum(CAST(right(value, 3) AS bigint)) AS a, count(coalesce(value, '0')) AS b,
        sum(CAST(CASE WHEN block_number < 0 THEN value ELSE '7' END AS decimal(38,0))) AS c,
        sum(decimal(nullif('5', value))) AS d, max(length(value)) AS e,
        max(CASE WHEN value = '1' THEN block_number END) AS f
        FROM logs"""
    last = sum((LARGEST - each) % 1000 for each in range(4))
    names = """SELECT max(k) AS k, count(v) AS n
        FROM logs, LATERAL stack(2, 'a', value, 'b', value) AS t(k, v)"""
    assert rows(place, names) == [{"k": "b", "n": 8}]
    latest = "SELECT max(struct(block_number, value)).value AS v FROM logs"
    assert rows(place, latest) == [{"v": str(LARGEST - 3)}]
    expected = {"a": last, "b": 4, "c": Decimal(28), "d": Decimal(20), "e": 78, "f": None}
    assert rows(place, sql) == [expected]


def test_casts_that_somebody_wrote_are_theirs(place: Place) -> None:
    sql = """SELECT try_cast(value AS decimal(38,0)) AS small, CAST(value AS double) / 1e18 AS ether
        FROM logs WHERE block_number = 0"""
    assert rows(place, sql) == [{"small": None, "ether": LARGEST / 1e18}]
    found = failure(place, "SELECT sum(CAST(value AS decimal(38,0))) AS total FROM logs")
    assert "cannot be represented" in found.message or "NUMERIC" in found.message


def test_a_type_that_spark_does_not_know_can_be_given(place: Place) -> None:
    sql = "SELECT coalesce(value, '0') AS value FROM logs WHERE block_number = 0"
    result = run(place, sql, config={"types": {"value": "numeric(78,0)"}})
    [written] = result.written
    assert written.columns == (SparkColumn("value", "numeric(78,0)"),)
    assert place.rows_of(written) == [{"value": str(LARGEST)}]
    wrong = failure(
        place, "SELECT address AS value FROM logs", config={"types": {"value": "numeric(78,0)"}}
    )
    assert "not written as one" in wrong.message


def test_decimals_are_exact_and_an_overflow_is_an_error(place: Place) -> None:
    sql = "SELECT CAST('0.10' AS decimal(38,2)) * 3 AS a FROM labels"
    assert rows(place, sql) == [{"a": Decimal("0.30")}]
    found = failure(
        place, "SELECT CAST(9223372036854775807 AS bigint) + block_number AS a FROM logs"
    )
    assert "overflow" in found.message.lower()


@pytest.mark.parametrize(
    "time",
    [
        "CAST('now' AS timestamp)",
        "CAST(' Today ' AS date)",
        "CAST(concat('no', 'w') AS timestamp)",
        "to_timestamp('12:00')",
        "to_date('yesterday')",
        "date('today')",
        "try_cast('T10:00' AS timestamp)",
        "try_to_timestamp('now')",
        "date_trunc('day', 'now')",
        "date_add('today', 1)",
        "date '2026-01-01' < 'today'",
        "coalesce(timestamp_seconds(block_number), 'now')",
        "CAST(concat(address, string(CAST('now' AS timestamp))) AS timestamp)",
        "(SELECT to_date('today'))",
        "(SELECT max(block_number) FROM logs WHERE to_date('today') > date '2026-01-01')",
        "(SELECT x FROM VALUES (to_timestamp('12:00')) AS t(x))",
        "(SELECT x FROM VALUES (CAST('12:00' AS timestamp)) AS t(x))",
    ],
)
def test_a_constant_that_is_a_clock_is_refused(place: Place, time: str) -> None:
    found = failure(place, f"SELECT {time} AS t FROM logs")  # noqa: S608
    assert found.code == "SqlRefused", found
    assert "a date" in found.message


def test_constants_that_are_written_as_dates_are_times(place: Place) -> None:
    sql = """SELECT hour(CAST('2026-01-31 12:00:00' AS timestamp)) AS a, to_date('2026-01-31') AS b,
        to_date(date_trunc('month', timestamp '2026-01-15')) AS c, CAST(NULL AS date) AS d,
        year(to_timestamp('31.01.2026', 'dd.MM.yyyy')) AS e, timestamp_seconds(5) > '1970' AS f,
        year(x) AS g
        FROM VALUES (date '2026-01-31') AS t(x)"""
    [row] = rows(place, sql)
    assert (row["a"], str(row["b"]), str(row["c"]), row["d"]) == (
        12,
        "2026-01-31",
        "2026-01-01",
        None,
    )
    assert (row["e"], row["f"], row["g"]) == (2026, True, 2026)


def test_a_failure_does_not_repeat_the_statement(place: Place) -> None:
    found = failure(place, "SELECT 1 / (block_number - 1) AS secret_thing FROM logs")
    assert "zero" in found.message.lower()
    assert "secret_thing" not in found.message


def test_a_row_outside_of_the_range_of_the_task_is_refused(place: Place) -> None:
    scope = Scope.of_range(0, 9)
    config = {"cursor_column": "n", "sort_by": ["n"]}
    sql = "SELECT block_number AS n FROM logs"
    result = run(place, sql, config=config, scope=scope)
    [written] = result.written
    assert (written.scope, written.cursor_column) == (scope, "n")
    found = failure(place, "SELECT block_number + 7 AS n FROM logs", config=config, scope=scope)
    assert "lies outside of 0-9" in found.message


def test_appended_rows_need_the_columns_of_their_key(place: Place) -> None:
    output = place.output(update_strategy="append", unique_key=("address", "label"))
    found = failure(place, "SELECT address FROM labels", outputs=(output,))
    assert "no column label" in found.message
    [row] = rows(place, "SELECT * FROM labels", outputs=(output,))
    assert row == {"address": "0x01", "label": "one"}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT count(*) FROM logs", "give it a name"),
        ("SELECT address, address FROM logs", "two columns address"),
        ("SELECT addres FROM logs", "addres"),
        ("SELECT array(1) AS a FROM logs", "to_json"),
    ],
)
def test_columns_that_no_dataset_can_have_are_refused(place: Place, sql: str, said: str) -> None:
    assert said in failure(place, sql).message


def test_an_input_without_columns_hinders_only_those_who_read_it(place: Place) -> None:
    from trace_core.spark.wire import SparkInput

    given = (place.input("labels", LABELS, [{"address": "a", "label": "b"}]), SparkInput("ranges"))
    result = place.run(RUN, inputs=given, config={"sql": "SELECT label FROM labels"})
    assert result.failure is None
    result = place.run(RUN, inputs=given, config={"sql": "SELECT * FROM ranges"})
    assert result.failure is not None
    assert result.failure.code == "InputUnknown"


def test_tasks_beside_one_another_do_not_see_each_other(place: Place) -> None:
    def numbers(given: int) -> list[dict[str, Any]]:
        alone = Place(place.root / str(given), place.spark)
        source = alone.input("source", {"n": "bigint"}, [{"n": given}])
        return alone.rows(RUN, inputs=(source,), config={"sql": "SELECT n FROM source"})

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(numbers, range(8))) == [[{"n": each}] for each in range(8)]
    assert not place.spark.catalog.tableExists("source")


def test_the_session_is_a_second_wall(place: Place) -> None:
    """Were the gate open, there would be nothing to read, and what is read would be noticed."""
    path = place.object(LABELS, [{"address": "a", "label": "b"}]).uri
    session = sql_transform.session_of_its_own(place.spark)
    place.spark.sql("CREATE OR REPLACE TEMP VIEW elsewhere AS SELECT 1 AS n")
    for sql in (f"SELECT * FROM parquet.`{path}`", "SELECT * FROM elsewhere"):  # noqa: S608
        with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|UNSUPPORTED"):
            sql_transform.select(session, sql, {})
    session.read.parquet(path).createTempView("smuggled")
    with pytest.raises(OperatorFailed, match="no input of this job"):
        sql_transform.select(session, "SELECT * FROM smuggled", {})
    assert session.sql("SELECT '${env:HOME}' AS x").collect()[0]["x"] == "${env:HOME}"
