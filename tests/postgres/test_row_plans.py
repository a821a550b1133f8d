"""Reads of a table look at what they give, however much history lies before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.dataset_layouts import PostgresLayout
from tests.postgres.data_world import DataWorld
from trace_core.dag.model import Column
from trace_core.database.data import Places, compose
from trace_core.kernel.scopes import Scope
from trace_core.storage.model import PinnedPart

ROWS = 100_000
COLUMNS = (Column("number", "bigint"), Column("hash", "text"))


@pytest.fixture
def followed(data_world: DataWorld) -> PostgresLayout:
    """A long history, each row with a cursor of its own."""
    layout = data_world.layout(columns=COLUMNS, cursor_column="number")
    numbers = pa.array(range(ROWS), pa.int64())
    table = pa.table({"number": numbers, "hash": numbers.cast(pa.string())})
    layout.commit(Scope.of_range(0, ROWS - 1), table)
    with psycopg.connect(data_world.dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return layout


def _explained(
    world: DataWorld,
    patch: pytest.MonkeyPatch,
    layout: PostgresLayout,
    part: PinnedPart,
    **asked: Any,
) -> dict[str, Any]:
    seen: list[tuple[str, Mapping[str, Any], Places]] = []
    stream = world.data.stream

    def watched(statement: str, params: Any, places: Places, **settings: Any) -> Any:
        seen.append((statement, params, places))
        return stream(statement, params, places, **settings)

    patch.setattr(world.data, "stream", watched)
    layout.reader.table(part, **asked)
    ((statement, params, places),) = seen
    with world.data.connection() as connection:
        explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
        ((plans,),) = connection.execute(compose(explain + statement, places), params).fetchall()
    return dict(plans[0]["Plan"])


@pytest.mark.parametrize("first", [100, ROWS // 2, ROWS - 200])
def test_a_range_is_read_without_what_lies_before_it(
    data_world: DataWorld, followed: PostgresLayout, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    # As the platform reads: nobody has told it that rows have cursors of their own.
    part = replace(followed.part(1), cursor_column=None)
    scope = Scope.of_range(first, first + 99)
    plan = _explained(data_world, monkeypatch, followed, part, scope=scope)
    assert plan["Actual Rows"] == 100
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 40


def test_each_row_is_compared_with_one_of_many_cold_ranges(
    data_world: DataWorld, followed: PostgresLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block in each of 200 ranges is not cold."""
    size = ROWS // 200
    cold = [(first, first + size - 2) for first in range(0, ROWS, size)]
    monkeypatch.setattr("trace_core.storage.read_plan.covered_ranges", lambda _: tuple(cold))
    plan = _explained(data_world, monkeypatch, followed, followed.part(1))
    assert plan["Actual Rows"] == 200
    looked_at = sum(each["Actual Rows"] * each["Actual Loops"] for each in _nodes(plan))
    assert looked_at <= ROWS


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)
