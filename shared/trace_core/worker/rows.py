"""The rows of one attempt, on the side that holds the credentials.

Operator code asks for inputs and leaves outputs as files in its scratch folder. Here they are
fetched and written, before anything is reported.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from trace_core.kernel.errors import Rejected, StaleAttempt, Superseded, TraceError
from trace_core.kernel.scopes import Scope
from trace_core.ports.row_store import Begun, RowsFile, RowStore, StoredRows
from trace_core.tasks.model import table_location
from trace_core.worker.attempt import Attempt
from trace_core.worker.child import LeaseGone
from trace_core.worker.client import TaskApi, WorkerApi
from trace_core.worker.outcome import SUPERSEDED, Outcome, failed, failure

logger = logging.getLogger(__name__)
_CONTROL = "control"

Resolve = Callable[[Attempt, Mapping[str, Any]], Mapping[str, Any]]
"""Asks the platform for an input of an attempt; a page of it."""


@dataclass(frozen=True)
class RowAccess:
    """What an attempt's rows are fetched and written with."""

    store: Callable[[], RowStore]
    """Made with the first rows: it loads Arrow, and opens the data database."""
    resolve: Resolve


class AttemptRows:
    def __init__(self, attempt: Attempt, access: RowAccess | None) -> None:
        self._attempt = attempt
        self._access = access
        self._begun = Begun()
        self._files = itertools.count()
        self.payload: Mapping[str, Any] = attempt.payload
        """As the operator gets it."""

    def begin(self) -> Outcome | None:
        """Before anything runs or reads; an outcome when the work was done by an earlier attempt.

        Raises `LeaseGone`, and what the store raises.
        """
        if not self._writes_rows:
            return None
        try:
            begun = self._begun = self._store().begin(self._attempt.payload)
        except StaleAttempt as error:
            raise LeaseGone(error.message) from error
        if begun.done is not None:
            logger.info("%s: an earlier attempt has committed; its result is reported", self)
            stored = [self._fields(each) for each in begun.done.rows]
            return Outcome({**begun.done.body, "outputs": stored})
        if begun.keeps_cursor:
            state = [
                {"key": key, "revision": 0, "value": value}
                for key, value in (begun.cursor or {}).items()
            ]
            self.payload = {**self._attempt.payload, "state": state}
        return None

    def answer(self, asked: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
        """What the operator gets for its question; never raises."""
        try:
            return {"path": str(self._fetch(asked, scratch))}
        except TraceError as error:
            return {"error": error.message, "retryable": not isinstance(error, Rejected)}
        except Exception as error:
            logger.exception("%s: an input could not be fetched", self)
            return {"error": f"{type(error).__name__}: {error}", "retryable": True}

    def keep(self, outcome: Outcome, scratch: Path) -> Outcome:
        """Write what a successful run left; what it reports then. Raises `LeaseGone`."""
        moves_cursor = self._begun.keeps_cursor and bool(outcome.fields.get("state"))
        if not outcome.rows and not moves_cursor:
            return outcome
        fields = dict(outcome.fields)
        cursor = None
        if self._begun.keeps_cursor:
            moved = {each["key"]: each["value"] for each in fields.pop("state", ())}
            cursor = {**(self._begun.cursor or {}), **moved}
        own = fields.pop("outputs", [])
        try:
            files = [_file(each, scratch) for each in outcome.rows]
            stored = self._store().store(self._attempt.payload, self._begun, files, fields, cursor)
        except Superseded:
            return SUPERSEDED
        except StaleAttempt as error:
            raise LeaseGone(error.message) from error
        except TraceError as error:
            return failure(error.code, error.message, not isinstance(error, Rejected))
        except Exception as error:
            logger.exception("%s: its rows could not be written", self)
            return failed(error)
        outputs = [*own, *(self._fields(each) for each in stored)]
        return replace(outcome, fields={**fields, "outputs": outputs}, rows=())

    def __str__(self) -> str:
        return str(self._attempt)

    @property
    def _writes_rows(self) -> bool:
        outputs = self._attempt.payload.get("outputs") or ()
        return any(each.get("backend", _CONTROL) != _CONTROL for each in outputs)

    def _store(self) -> RowStore:
        return self._given().store()

    def _given(self) -> RowAccess:
        if self._access is None:
            raise Rejected("this runtime reads and writes no rows")
        return self._access

    def _fetch(self, asked: Mapping[str, Any], scratch: Path) -> Path:
        alias, scope = asked["alias"], asked.get("scope")
        inputs = [each for each in self._attempt.payload["inputs"] if each["alias"] == alias]
        if not inputs:
            raise Rejected(f"the job has no input {alias!r}")
        path = scratch / f"input-{next(self._files)}.arrow"
        self._store().fetch(
            self._parts(alias, scope),
            path,
            scope=None if scope is None else Scope(**scope),
            columns=asked.get("columns"),
            where=inputs[0]["filter"],
        )
        return path

    def _parts(self, alias: str, scope: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """All pages of all parts."""
        resolve = self._given().resolve
        wanted = {"alias": alias, "scope": scope}
        parts = [dict(each) for each in resolve(self._attempt, wanted)["parts"]]
        for part in parts:
            while part["next"] is not None:
                page = {"dataset_version": part["dataset_version"], "after": part["next"]}
                (more,) = resolve(self._attempt, {**wanted, **page})["parts"]
                part["entries"] = [*part["entries"], *more["entries"]]
                part["next"] = more["next"]
        return parts

    def _fields(self, stored: StoredRows) -> dict[str, Any]:
        """One output as the completion has it."""
        output = next(
            each
            for each in self._attempt.payload["outputs"]
            if each["output_index"] == stored.output_index
        )
        fields = {
            "output_index": stored.output_index,
            "dataset_uuid": output["dataset_uuid"],
            "dataset_version": output["dataset_version"],
            **stored.scope.fields(),
            "row_count": stored.row_count,
        }
        if stored.manifest_key is not None:
            return {**fields, "location": stored.manifest_key}
        attempt, lease_sequence = stored.written_by or (0, 0)
        return {
            **fields,
            "location": table_location(UUID(output["dataset_uuid"])),
            "commit_number": stored.commit_number,
            "replaces": stored.replaces,
            "written_by": {"attempt": attempt, "lease_sequence": lease_sequence},
        }


def _file(left: Mapping[str, Any], scratch: Path) -> RowsFile:
    # A name and nothing else: what an operator answers leads nowhere but into its own folder.
    return RowsFile(
        left["output_index"],
        Scope(**left["scope"]),
        scratch / Path(left["file"]).name,
        left["cursor_column"],
        left["name"],
    )


def rows_for_workers(api: WorkerApi, store: Callable[[], RowStore] | None) -> RowAccess | None:
    """With the worker token."""
    if store is None:
        return None
    return RowAccess(store, lambda attempt, wanted: api.inputs(attempt.fence, wanted))


def rows_for_tasks(api: TaskApi, store: Callable[[], RowStore] | None) -> RowAccess | None:
    """With the capability token of each attempt."""
    if store is None:
        return None

    def resolve(attempt: Attempt, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        return api.with_token(attempt.payload["capability_token"]).inputs(attempt.fence, wanted)

    return RowAccess(store, resolve)
