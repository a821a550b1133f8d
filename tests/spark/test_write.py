"""What an operator writes: Parquet below its outputs' folders, listed in the result."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.spark.runs import Place
from trace_core.dag.model import Column
from trace_core.kernel.scopes import Scope
from trace_core.spark.wire import SparkColumn, SparkEmit, SparkInvalidation
from trace_core.storage.column_values import canonical_jsonb, canonical_number
from trace_core.storage.rows import arrow_schema

OPERATORS = "tests.spark.operators_for_tests"
BLOCKS = {"number": "bigint", "hash": "text"}


def blocks(*numbers: int) -> list[dict[str, object]]:
    return [{"number": each, "hash": f"0x{each:02x}"} for each in numbers]


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_the_result_lists_every_file_below_the_output(place: Place) -> None:
    result = place.run(
        f"{OPERATORS}:copy", inputs=(place.input("rows", BLOCKS, blocks(*range(9))),)
    )
    [written] = result.written
    folder = Path(place.outputs[0].uri.removeprefix("file://"))
    assert files_below(folder) == sorted(folder / each for each in written.objects)
    assert place.rows_of(written) == blocks(*range(9))


def test_one_file_holds_all_rows_in_their_order(place: Place) -> None:
    objects = [place.input("rows", BLOCKS, blocks(*each)) for each in ((5, 1), (4, 2), (3, 0))]
    given = replace(objects[0], parts=tuple(part for each in objects for part in each.parts))
    result = place.run(
        f"{OPERATORS}:copy", inputs=(given,), config={"one_file": True, "sort_by": ["number"]}
    )
    [written] = result.written
    [found] = place.tables_of(written)
    assert found.column("number").to_pylist() == [0, 1, 2, 3, 4, 5]


def test_several_files_are_listed_in_the_order_of_their_rows(place: Place) -> None:
    numbers = [(each * 7919) % 1000 for each in range(1000)]
    objects = [place.input("rows", BLOCKS, blocks(*numbers[at::4])) for at in range(4)]
    given = replace(objects[0], parts=tuple(part for each in objects for part in each.parts))
    rows = place.rows(f"{OPERATORS}:copy", inputs=(given,), config={"sort_by": ["number"]})
    assert rows == blocks(*range(1000))


def test_the_same_rows_give_the_same_files(place: Place) -> None:
    rows = [{"number": each % 3, "hash": f"0x{each:02x}"} for each in range(50)]
    first, second = (
        place.run(
            f"{OPERATORS}:copy",
            inputs=(place.input("rows", BLOCKS, given),),
            config={"one_file": True, "sort_by": ["number"]},
            outputs=(place.output(),),
        )
        for given in (rows, rows[::-1])
    )
    contents = []
    for result in (first, second):
        [written] = result.written
        [name] = written.objects
        [path] = [each for each in files_below(place.root / "staging") if str(each).endswith(name)]
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


def test_stored_types_are_those_of_the_platform(place: Place) -> None:
    columns = {"at": "timestamptz", "day": "date", "paid": "numeric(20,2)", "big": "numeric(78)"}
    given = place.input("rows", columns, [dict.fromkeys(columns)])
    result = place.run(f"{OPERATORS}:copy", inputs=(given,))
    [written] = result.written
    [found] = place.tables_of(written)
    assert found.schema.remove_metadata().equals(
        arrow_schema([Column(name, kind) for name, kind in columns.items()])
    )


def test_no_rows_are_a_file_with_columns(place: Place) -> None:
    result = place.run(f"{OPERATORS}:copy", inputs=(place.input("rows", BLOCKS),))
    [written] = result.written
    [found] = place.tables_of(written)
    assert (found.num_rows, found.schema.names) == (0, ["number", "hash"])


def test_declared_columns_are_what_is_written(place: Place) -> None:
    given = place.input("rows", {"number": "integer", "hash": "text"}, blocks(2, 1))
    wanted = {"hash": "text", "number": "numeric(78)"}
    result = place.run(f"{OPERATORS}:copy", inputs=(given,), outputs=(place.output(0, wanted),))
    [written] = result.written
    assert written.columns == (SparkColumn("hash", "text"), SparkColumn("number", "numeric(78)"))
    assert place.rows_of(written) == [
        {"hash": "0x02", "number": "2"},
        {"hash": "0x01", "number": "1"},
    ]


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({"number": "bigint"}, "have hash too many"),
        ({**BLOCKS, "miner": "text"}, "lack miner"),
        ({"number": "text", "hash": "text"}, "number is text and cannot hold bigint"),
        ({"number": "bigint", "hash": "timestamptz"}, "hash is timestamptz and cannot hold string"),
    ],
)
def test_rows_that_do_not_fit_their_columns_are_refused(
    place: Place, declared: dict[str, str], reason: str
) -> None:
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", BLOCKS, blocks(1)),),
        outputs=(place.output(0, declared),),
    )
    assert result.failure is not None
    assert reason in result.failure.message
    assert (result.failure.retryable, result.written) == (False, ())


@pytest.mark.parametrize(
    ("declared", "spelled"),
    [
        ("numeric", ["1.5", "1.5", "10", "-0.25", "0", "100", None]),
        ("numeric(60,4)", ["1.5000", "1.5000", "10.0000", "-0.2500", "0.0000", "100.0000", None]),
    ],
)
def test_equal_numbers_are_written_alike(
    place: Place, declared: str, spelled: list[str | None]
) -> None:
    values = ["1.50", "1.5", "10.000000", "-0.2500", "-0.0", "100", None]
    rows = [{"number": at, "amount": value} for at, value in enumerate(values)]
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", {"number": "bigint", "amount": "text"}, rows),),
        outputs=(place.output(0, {"number": "bigint", "amount": declared}),),
        config={"sort_by": ["number"]},
    )
    [written] = result.written
    assert [row["amount"] for row in place.rows_of(written)] == spelled


def test_decimals_of_another_scale_are_written_alike(place: Place) -> None:
    rows = [{"amount": Decimal("1.500000")}, {"amount": Decimal("-2.000000")}]
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", {"amount": "numeric(38,6)"}, rows),),
        outputs=(place.output(0, {"amount": "numeric"}),),
        config={"sort_by": ["amount"]},
    )
    [written] = result.written
    assert sorted(row["amount"] for row in place.rows_of(written)) == ["-2", "1.5"]


@pytest.mark.parametrize(
    "value", ["1e5", "+1", "007", "x", "-0", "", "1.5", "1\n", "1" * 79, "1" * 78 + ".5"]
)
def test_text_that_is_no_number_does_not_become_one(place: Place, value: str) -> None:
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", {"number": "text"}, [{"number": value}]),),
        outputs=(place.output(0, {"number": "numeric(78)"}),),
    )
    assert result.failure is not None
    assert "a value is not written as one" in result.failure.message
    assert not result.failure.retryable


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("1.5", "numeric(78,0)"),
        ("9" * 79, "numeric(78,0)"),
        ("1" * 61, "numeric(78,18)"),
        ("0.1234567890123456789", "numeric(78,18)"),
        ("1.", "numeric"),
        ("5\n", "numeric(78,0)"),
    ],
)
def test_a_number_that_its_column_cannot_hold_is_refused(
    place: Place, value: str, declared: str
) -> None:
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", {"number": "text"}, [{"number": value}]),),
        outputs=(place.output(0, {"number": declared}),),
    )
    assert result.failure is not None
    assert "a value is not written as one" in result.failure.message


@pytest.mark.parametrize("given", ["text", "numeric(20,5)", "numeric(60,5)", "bigint"])
def test_a_number_of_a_column_has_one_spelling(place: Place, given: str) -> None:
    """That of the platform, whatever it was before: joins compare it as text."""
    values = ["0", "7", "-7", "1234567890123"]
    if given != "bigint":
        values += ["0.00000", "1.50000", "-0.00010", "-12.34500"]
    types = {"numeric(60,18)": (60, 18), "numeric(60,5)": (60, 5), "numeric": (None, None)}
    cell = {"bigint": int, "numeric(20,5)": Decimal}.get(given, str)
    places = 5 if given == "numeric(60,5)" else 0
    told = [canonical_number(each, 60, places) if places else each for each in values]
    for declared, (precision, scale) in types.items():
        rows = [{"number": cell(each)} for each in told]
        result = place.run(
            f"{OPERATORS}:copy",
            inputs=(place.input("rows", {"number": given}, rows),),
            outputs=(place.output(0, {"number": declared}),),
        )
        assert result.failure is None, result.failure
        found = [row["number"] for row in place.rows_of(result.written[0])]
        assert found == [canonical_number(each, precision, scale) for each in values]


def test_text_becomes_json_in_the_spelling_of_the_platform(place: Place) -> None:
    texts = ['{"b": 1e2, "a": [true, null, "é"]}', "12345678901234567890123", None, ' "x" ']
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", {"told": "text"}, [{"told": each} for each in texts]),),
        outputs=(place.output(0, {"told": "jsonb"}),),
    )
    assert result.failure is None, result.failure
    found = [row["told"] for row in place.rows_of(result.written[0])]
    assert found == [None if each is None else canonical_jsonb(each) for each in texts]


@pytest.mark.parametrize("value", ["x", "{", "", "NaN", '"\\u0000"', "[" * 5000])
def test_text_that_is_no_json_does_not_become_some(place: Place, value: str) -> None:
    result = place.run(
        f"{OPERATORS}:copy",
        inputs=(place.input("rows", {"told": "text"}, [{"told": value}]),),
        outputs=(place.output(0, {"told": "jsonb"}),),
    )
    assert result.failure is not None
    assert "a value is not written as one" in result.failure.message
    assert not result.failure.retryable


def test_each_scope_has_objects_of_its_own(place: Place) -> None:
    result = place.run(
        f"{OPERATORS}:write_two_scopes", inputs=(place.input("rows", BLOCKS, blocks(*range(10))),)
    )
    assert [(each.scope, each.name) for each in result.written] == [
        (Scope.of_range(0, 4), "blocks"),
        (Scope.of_range(5, 9), "blocks"),
    ]
    assert [place.rows_of(each) for each in result.written] == [
        blocks(*range(5)),
        blocks(*range(5, 10)),
    ]


def test_a_scope_is_written_once(place: Place) -> None:
    result = place.run(f"{OPERATORS}:write_twice", inputs=(place.input("rows", BLOCKS, blocks(1)),))
    assert result.failure is not None
    assert "scope all of output 0 is written twice" in result.failure.message
    assert result.written == ()


def test_a_name_with_a_path_in_it_is_refused(place: Place) -> None:
    result = place.run(f"{OPERATORS}:badly_named", inputs=(place.input("rows", BLOCKS, blocks(1)),))
    assert result.failure is not None
    assert "no name for objects" in result.failure.message
    assert not files_below(place.root / "staging")


def test_events_and_invalidations_are_in_the_result(place: Place) -> None:
    result = place.run(f"{OPERATORS}:announce", inputs=(place.input("rows", BLOCKS, blocks(1)),))
    assert result.events == (SparkEmit(0, Scope.of_range(0, 9)),)
    assert result.invalidations == (
        SparkInvalidation("rows", Scope.of_range(3, 4), "two hashes for one block"),
    )


def test_nothing_but_the_files_of_a_run_is_left(place: Place) -> None:
    result = place.run(f"{OPERATORS}:copy", inputs=(place.input("rows", BLOCKS, blocks(1)),))
    [written] = result.written
    suffixes = {path.suffix for path in files_below(place.root)}
    assert suffixes == {".parquet", ".json"}
    assert len(written.objects) == 1
