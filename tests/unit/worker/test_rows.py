"""Rows between an operator and whoever holds the credentials: asked for, left behind, written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.unit.operators.payloads import make_payload
from tests.unit.worker.conftest import OPERATORS
from tests.unit.worker.platform_for_tests import SystemClock
from trace_core.kernel.errors import Fenced, Rejected, Superseded, TraceError, Unavailable
from trace_core.kernel.scopes import Scope
from trace_core.operators.catalog import load_catalog
from trace_core.ports.row_store import Begun, Done, RowsFile, StoredRows
from trace_core.storage.arrow_files import open_rows, write_batches
from trace_core.worker.attempt import Attempt, Reason, RunControl
from trace_core.worker.children import ChildPool
from trace_core.worker.client import HttpClient, TaskApi
from trace_core.worker.outcome import Outcome
from trace_core.worker.rows import RowAccess
from trace_core.worker.supervision import Execution, InThisProcess, Supervisor

TABLE = pa.table({"number": [1, 2, 3]})


class Store:
    """A row store in memory that notes what it was asked, and raises what it is told to."""

    def __init__(self) -> None:
        self.begun = Begun()
        self.asked: list[dict[str, Any]] = []
        self.kept: list[pa.Table] = []
        self.files: list[RowsFile] = []
        self.body: Mapping[str, Any] = {}
        self.cursor: Any = None
        self.errors: dict[str, Exception] = {}
        self.before_store: Callable[[], None] = lambda: None

    def _raise(self, at: str) -> None:
        if at in self.errors:
            raise self.errors[at]

    def begin(self, payload: Mapping[str, Any]) -> Begun:
        self._raise("begin")
        return self.begun

    def fetch(self, parts: Sequence[Mapping[str, Any]], into: Path, **wanted: Any) -> None:
        self.asked.append({"entries": [len(each["entries"]) for each in parts], **wanted})
        self._raise("fetch")
        write_batches(into, TABLE.schema, TABLE.to_batches())

    def store(
        self, payload: Mapping[str, Any], begun: Begun, files: Sequence[RowsFile],
        body: Mapping[str, Any], cursor: Any = None,
    ) -> list[StoredRows]:  # fmt: skip
        self.before_store()
        self._raise("store")
        self.files, self.body, self.cursor = list(files), body, cursor
        self.kept = [open_rows(each.path) for each in files]
        return [
            StoredRows(each.output_index, each.scope, rows.num_rows, manifest_key=f"key-{at}")
            for at, (each, rows) in enumerate(zip(files, self.kept, strict=True))
        ]


class Scene:
    def __init__(self, execution: Execution) -> None:
        self.store = Store()
        self.resolved: list[Mapping[str, Any]] = []
        self.pages = [[{"number": 1}], [{"number": 2}]]
        access = RowAccess(lambda: self.store, self._resolve)
        self._supervisor = Supervisor(execution, clock=SystemClock(), rows=access)
        self.control = RunControl()

    def _resolve(self, _attempt: Attempt, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        self.resolved.append(wanted)
        at = wanted.get("after", 0)
        more = at + 1 if at + 1 < len(self.pages) else None
        return {"parts": [{"dataset_version": "v", "entries": self.pages[at], "next": more}]}

    def run(self, config: Mapping[str, Any] | None = None, **changes: Any) -> Outcome | None:
        changes.setdefault("trigger", {"start": 0, "end": 9})
        payload = make_payload("copy_rows", config, **changes)
        dataset = payload["trigger"]["dataset_uuid"] if payload["trigger"] else str(uuid4())
        payload["inputs"] = [
            {
                "input_index": 0, "alias": "source", "dataset_uuid": dataset,
                "dataset_version": str(uuid4()), "commit_number": 7, "swap": 1, "backend": "s3",
                "filter": "number > 0",
            }
        ]  # fmt: skip
        payload["outputs"][0] |= {"backend": "s3", "columns": None, "unique_key": []}
        answer = {"task": payload, "attempt": 1, "lease_token": payload["lease_token"]}
        return self._supervisor.run(Attempt.of(answer), self.control)


@pytest.fixture(params=["a child", "this process"])
def scene(request: pytest.FixtureRequest, pool: ChildPool) -> Iterator[Scene]:
    if request.param == "a child":
        yield Scene(pool)
        return
    client = HttpClient("http://127.0.0.1:9")
    yield Scene(InThisProcess(load_catalog([OPERATORS]), TaskApi(client)))
    client.close()


def fields(outcome: Outcome | None) -> Mapping[str, Any]:
    assert outcome is not None
    return outcome.fields


def test_an_operator_reads_what_the_parent_fetched_and_the_parent_writes_what_it_left(
    scene: Scene,
) -> None:
    found = fields(scene.run())
    assert found["status"] == "Completed"
    (output,) = found["outputs"]
    assert (output["location"], output["row_count"], output["partition_key"]) == (
        "key-0",
        3,
        "0-9",
    )
    assert [table.to_pydict() for table in scene.store.kept] == [{"number": [1, 2, 3]}]
    (file,) = scene.store.files
    assert (file.scope, file.cursor_column, file.name) == (Scope.of_range(0, 9), "number", "copy")
    assert "outputs" not in scene.store.body and scene.store.body["status"] == "Completed"
    # Nothing is left of the files.
    assert not file.path.exists()


def test_inputs_are_asked_for_page_by_page_with_the_scope_of_the_trigger_and_the_filter(
    scene: Scene,
) -> None:
    scene.run()
    scope = {"partition_key": "0-9", "start": 0, "end": 9}
    assert [each["scope"] for each in scene.resolved] == [scope, scope]
    assert [each.get("after") for each in scene.resolved] == [None, 1]
    (asked,) = scene.store.asked
    assert asked == {
        "entries": [2],
        "scope": Scope.of_range(0, 9),
        "columns": ["number"],
        "where": "number > 0",
    }


@pytest.mark.parametrize(
    ("error", "retryable"), [(Unavailable("away"), True), (Rejected("no such column"), False)]
)
def test_an_input_that_cannot_be_read_fails_the_operator_with_the_reason(
    scene: Scene, error: TraceError, retryable: bool
) -> None:
    scene.store.errors["fetch"] = error
    found = fields(scene.run())
    assert (found["status"], found["error_code"], found["retryable"]) == (
        "Failed",
        "ReadFailed",
        retryable,
    )
    assert f"input source cannot be read: {error.message}" in found["error_message"]


def test_an_unknown_input_names_those_there_are(scene: Scene) -> None:
    found = fields(scene.run({"alias": "sauce"}))
    assert "the job has no input 'sauce'; it has: source" in found["error_message"]
    assert found["retryable"] is False


def test_an_attempt_that_is_fenced_reports_nothing(scene: Scene) -> None:
    scene.store.errors["store"] = Fenced()
    assert scene.run() is None
    scene.store.errors = {"begin": Fenced()}
    assert scene.run() is None


def test_superseded_rows_are_reported_as_such(scene: Scene) -> None:
    scene.store.errors["store"] = Superseded()
    assert fields(scene.run()) == {"status": "Superseded"}


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (Unavailable("away"), "Unavailable", True),
        (Rejected("does not fit"), "Rejected", False),
        (OSError("disk full"), "OSError", True),
    ],
)
def test_rows_that_cannot_be_written_fail_the_attempt(
    scene: Scene, error: Exception, code: str, retryable: bool
) -> None:
    scene.store.errors["store"] = error
    found = fields(scene.run())
    assert (found["status"], found["error_code"], found["retryable"]) == ("Failed", code, retryable)


def test_what_an_earlier_attempt_committed_is_reported_without_running(scene: Scene) -> None:
    stored = StoredRows(0, Scope.of_range(0, 9), 5, commit_number=3, replaces=2, written_by=(1, 4))
    scene.store.begun = Begun("fence", done=Done({"status": "Completed", "events": []}, [stored]))
    found = fields(scene.run({"alias": "sauce"}))
    (output,) = found["outputs"]
    assert found["status"] == "Completed"
    assert (output["commit_number"], output["replaces"], output["row_count"]) == (3, 2, 5)
    assert output["written_by"] == {"attempt": 1, "lease_sequence": 4}
    assert output["location"] == f"postgres_table:dataset_{output['dataset_uuid']}"
    assert scene.store.files == []


def test_a_sources_state_is_its_cursor_where_its_rows_are(scene: Scene) -> None:
    scene.store.begun = Begun("fence", {"next": 5, "other": 1}, keeps_cursor=True)
    job = {"activation": "source", "source_kind": "always_on"}
    stale = [{"key": "next", "revision": 9, "value": 0}]
    found = fields(scene.run({"state": True}, job=job, state=stale, trigger=None))
    assert found["status"] == "Yielded"
    assert "state" not in found
    assert scene.store.cursor == {"next": 6, "other": 1}


def test_a_run_that_was_canceled_leaves_nothing(scene: Scene) -> None:
    scene.store.begun = Begun()
    scene.control.interrupt(Reason.CANCELED, 30)
    assert fields(scene.run()) == {"status": "Canceled"}
    assert scene.store.files == []


def test_rows_for_an_output_that_keeps_none_and_events_for_one_that_does_are_refused(
    scene: Scene,
) -> None:
    assert "has rows, and is announced" in fields(scene.run({"emit": True}))["error_message"]
    message = fields(scene.run({"output": 3}))["error_message"]
    assert "the job has no output 3" in message


def test_several_threads_of_an_operator_get_each_their_own_rows(scene: Scene) -> None:
    found = fields(scene.run({"threads": 4}))
    assert found["status"] == "Completed", found
    assert len(scene.store.asked) == 4


def test_a_read_that_takes_long_does_not_keep_a_run_from_being_killed(pool: ChildPool) -> None:
    scene = Scene(pool)
    reading, done = threading.Event(), threading.Event()

    def resolve(_attempt: Attempt, _wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        reading.set()
        done.wait(30)
        raise Unavailable("too late")

    scene._supervisor = Supervisor(
        pool, clock=SystemClock(), rows=RowAccess(lambda: scene.store, resolve)
    )
    ended: list[Outcome | None] = []
    runner = threading.Thread(target=lambda: ended.append(scene.run()))
    runner.start()
    assert reading.wait(20)
    scene.control.interrupt(Reason.LEASE_LOST, 0)
    runner.join(10)
    assert ended == [None]
    done.set()
    # The next task of the pool gets its own answers.
    again = Scene(pool)
    assert fields(again.run())["status"] == "Completed"
