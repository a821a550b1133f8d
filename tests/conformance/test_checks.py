"""Checks of a candidate: they hold, or say what is wrong with examples, in every layout."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.dataset_layouts import Layout, Layouts, block
from trace_core.dag.model import Check, CheckKind, Column
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.storage.checks import Verdict, run_check
from trace_core.storage.errors import Damaged
from trace_core.storage.model import Backend
from trace_core.storage.scopes import WHOLE


def _run(layout: Layout, number: int, kind: CheckKind, *columns: str) -> Verdict:
    return run_check(Check("blocks", kind, columns), [layout.part(number)], layout.reader)


def test_numbers_without_a_gap_hold_and_gaps_are_named(layouts: Layouts) -> None:
    layout = layouts.make()
    layout.commit(Scope.of_range(0, 9), [block(n, f"{n}") for n in (5, 3, 4, 4)])
    assert _run(layout, 1, CheckKind.NO_GAPS, "number") == Verdict(
        Check("blocks", CheckKind.NO_GAPS, ("number",)), 4
    )
    layout.commit(Scope.of_range(10, 99), [block(n, f"{n}") for n in (7, 20, 22)])
    found = _run(layout, 2, CheckKind.NO_GAPS, "number")
    assert not found.passed
    assert found.reason == "number has 3 gaps"
    assert found.examples == ("6", "8-19", "21")


def test_at_most_five_examples_are_given_and_all_are_counted(layouts: Layouts) -> None:
    layout = layouts.make()
    number = layout.commit(WHOLE, [block(n, f"{n % 7}") for n in range(0, 40, 2)])
    gaps = _run(layout, number, CheckKind.NO_GAPS, "number")
    assert (gaps.failures, len(gaps.examples)) == (19, 5)
    repeats = _run(layout, number, CheckKind.UNIQUE, "hash")
    assert (repeats.failures, len(repeats.examples)) == (7, 5)
    assert repeats.reason == "7 values of (hash) stand in more than one row"


def test_a_repeated_key_is_shown_and_null_equals_nothing(layouts: Layouts) -> None:
    layout = layouts.make()
    nameless = {**block(3, "x"), "hash": None}
    rows = [block(1, "a"), block(1, "b"), block(2, "b"), nameless, nameless]
    number = layout.commit(WHOLE, rows)
    assert _run(layout, number, CheckKind.UNIQUE, "number", "hash").passed
    found = _run(layout, number, CheckKind.UNIQUE, "hash")
    assert found.examples == ("hash = 'b' (2 rows)",)
    assert found.rows == 5


def test_missing_values_are_counted_for_each_column(layouts: Layouts) -> None:
    layout = layouts.make()
    number = layout.commit(
        WHOLE, [block(1, "a"), {**block(2, "b"), "amount": None}, {**block(3, "c"), "amount": None}]
    )
    assert _run(layout, number, CheckKind.NOT_NULL, "number", "hash").passed
    found = _run(layout, number, CheckKind.NOT_NULL, "hash", "amount")
    assert (found.reason, found.failures) == ("amount: values are missing", 2)
    assert found.examples == ("amount: 2 rows without a value",)


def test_a_candidate_without_rows_breaks_no_check(layouts: Layouts) -> None:
    layout = layouts.make()
    for kind in CheckKind:
        found = _run(layout, 0, kind, "number")
        assert (found.passed, found.rows) == (True, 0)


def test_several_parts_are_one_relation(layouts: Layouts) -> None:
    hot = layouts.make(cursor_column="number")
    cold = Layouts(layouts.store, layouts.data, layouts.clock, layouts.ids, Backend.S3).make(
        cursor_column="number"
    )
    hot.commit(Scope.of_range(5, 14), [block(n, f"{n}") for n in range(5, 15)])
    cold.commit(Scope.of_range(0, 9), [block(n, f"{n}") for n in range(10)])
    parts = [hot.part(1), cold.part(1)]
    for kind in (CheckKind.NO_GAPS, CheckKind.UNIQUE):
        found = run_check(Check("blocks", kind, ("number",)), parts, hot.reader)
        assert (found.passed, found.rows) == (True, 15), found


def test_a_check_of_what_cannot_be_checked_is_refused(layouts: Layouts) -> None:
    layout = layouts.make()
    with pytest.raises(Invalid, match="whole numbers"):
        _run(layout, 0, CheckKind.NO_GAPS, "hash")
    with pytest.raises(Invalid, match="missing"):
        _run(layout, 0, CheckKind.NOT_NULL, "missing")


def test_gaps_of_long_numbers_are_exact(layouts: Layouts) -> None:
    columns = (Column("n", "numeric(38)"),)
    layout = layouts.make(columns=columns)
    base = 10**37
    rows = pa.table({"n": pa.array([str(base), str(base + 2)])})
    number = layout.commit(WHOLE, rows)
    assert _run(layout, number, CheckKind.NO_GAPS, "n").examples == (str(base + 1),)


def test_a_lost_object_is_no_verdict(layouts: Layouts) -> None:
    cold = Layouts(layouts.store, layouts.data, layouts.clock, layouts.ids, Backend.S3).make()
    cold.commit(WHOLE, [block(1, "a")])
    part = cold.part(1)
    layouts.store.delete(part.entries[0].objects[0].key)
    with pytest.raises(Damaged):
        run_check(Check("blocks", CheckKind.NOT_NULL, ("hash",)), [part], cold.reader)
