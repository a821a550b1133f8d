from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tests.unit.operators.payloads import make_payload
from trace_core.kernel.errors import Invalid
from trace_core.kernel.scopes import Scope
from trace_core.operators.api import (
    Emit,
    OperatorFailed,
    StateRow,
    is_reducer,
    load_operator,
    task_context,
)
from trace_core.operators.catalog import builtin_catalog
from trace_core.operators.configs import RangeRequestConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_builtin_operator_can_be_loaded_and_says_what_it_is() -> None:
    kinds = {
        name: is_reducer(load_operator(spec.implementation or ""))
        for name, spec in builtin_catalog().items()
    }
    assert kinds == {
        "range_aggregator": True,
        "range_splitter": False,
        "range_request": False,
        "trigger_cron": False,
    }


@pytest.mark.parametrize(
    "implementation",
    ["no.such.module:Class", "trace_core.operators.api:Missing", "json:JSONEncoder"],
)
def test_a_wrong_implementation_is_named(implementation: str) -> None:
    with pytest.raises(Invalid, match=implementation):
        load_operator(implementation)


def test_a_payload_becomes_a_typed_context() -> None:
    version = str(uuid4())
    payload = make_payload(
        "range_request",
        trigger={"start": 1, "end": 5, "revision": 9},
        inputs=[
            {
                "input_index": 0,
                "alias": "blocks",
                "dataset_uuid": version,
                "dataset_version": version,
                "commit_number": None,
                "filter": None,
            }
        ],
        state=[{"key": "next", "revision": 4, "value": {"at": 1}}],
    )
    task = task_context(payload, RangeRequestConfig(), now=NOW, env={"KEY": "hidden"})
    assert task.trigger is not None
    assert (task.trigger.scope, task.trigger.revision) == (Scope.of_range(1, 5), 9)
    assert task.inputs[0].alias == "blocks"
    assert task.state["next"] == StateRow(4, {"at": 1})
    assert "hidden" not in repr(task)


def test_without_a_platform_events_cannot_be_emitted_mid_task() -> None:
    task = task_context(make_payload("range_request"), RangeRequestConfig(), now=NOW)
    with pytest.raises(OperatorFailed):
        task.emit([Emit(0, Scope(cursor=1))])
