"""Which rows `task.read` asks for, when the operator does not say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from tests.unit.operators.payloads import make_payload
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import OperatorFailed, TaskContext, task_context
from trace_core.operators.configs import OperatorConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RANGE, DAY = Scope.of_range(0, 9), Scope(partition_key="2026-01-01")


def context(trigger: Scope | None) -> tuple[TaskContext[Any], list[Any]]:
    """A task whose inputs are the one that triggered it, and another one."""
    asked: list[Any] = []
    fields = None if trigger is None else trigger.fields()
    payload = make_payload("pass_on", trigger=fields)
    own = payload["trigger"]["dataset_uuid"] if trigger is not None else str(uuid4())
    payload["inputs"] = [
        {"input_index": at, "alias": alias, "dataset_uuid": dataset}
        for at, (alias, dataset) in enumerate((("own", own), ("other", str(uuid4()))))
    ]

    def fetch(alias: str, scope: Scope | None, columns: Sequence[str] | None) -> Any:
        asked.append((alias, scope, columns))

    return task_context(payload, OperatorConfig(), now=NOW, fetch=fetch), asked


@pytest.mark.parametrize(
    ("trigger", "own", "other"),
    [
        (RANGE, RANGE, RANGE),
        (Scope(cursor=5), Scope(cursor=5), Scope(cursor=5)),
        (DAY, DAY, None),
        (Scope(), None, None),
        (None, None, None),
    ],
    ids=["range", "cursor", "partition", "all of it", "a source"],
)
def test_without_a_scope_it_is_the_triggers(
    trigger: Scope | None, own: Scope | None, other: Scope | None
) -> None:
    task, asked = context(trigger)
    task.read("own")
    task.read("other", columns=["a"])
    assert asked == [("own", own, None), ("other", other, ["a"])]


def test_a_scope_that_is_given_wins() -> None:
    task, asked = context(RANGE)
    task.read("own", Scope.of_range(5, 7))
    task.read("own", Scope())
    assert [scope for _, scope, _ in asked] == [Scope.of_range(5, 7), None]


def test_control_work_reads_no_rows() -> None:
    payload = make_payload("pass_on", trigger={"cursor": 1})
    payload["inputs"] = [{"input_index": 0, "alias": "own", "dataset_uuid": str(uuid4())}]
    task = task_context(payload, OperatorConfig(), now=NOW)
    with pytest.raises(OperatorFailed, match="control work reads no rows"):
        task.read("own")
