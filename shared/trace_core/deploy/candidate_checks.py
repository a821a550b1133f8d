"""Checks of a DAG file on the rows of a candidate version, before anybody can read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from trace_core.dag.model import Check, CheckKind
from trace_core.database.state import Row, StateDatabase
from trace_core.deploy.builds import Verdicts
from trace_core.deploy.statements import SQL
from trace_core.kernel.errors import Rejected
from trace_core.kernel.ids import DatasetUuid, DatasetVersion, OrgId
from trace_core.registry.pins import PinResolver
from trace_core.storage.model import Pin
from trace_core.storage.reader import PinnedReader


class CandidateChecks:
    """Reads the candidate at one pin for each part; nothing is committed to it meanwhile."""

    def __init__(
        self, state: StateDatabase, resolver: PinResolver, reader: Callable[[], PinnedReader]
    ) -> None:
        self._state = state
        self._resolver = resolver
        self._reader = reader

    def __call__(self, _org_id: OrgId, dag_version: UUID) -> Verdicts:
        params = {"dag_version_id": dag_version}
        settings = self._state.read(SQL["settings_of_version"], params)[0].settings or {}
        checks = settings.get("checks", [])
        if not checks:
            return []
        parts: dict[str, list[Row]] = {}
        for row in self._state.read(SQL["parts_to_check"], params):
            parts.setdefault(row.dataset, []).append(row)
        return [self._verdict(each, parts.get(each["dataset"], [])) for each in checks]

    def _verdict(self, fields: dict[str, Any], parts: list[Row]) -> dict[str, Any]:
        # Loads DuckDB, which most passes of a Dispatcher do not need.
        from trace_core.storage.checks import run_check

        check = Check(fields["dataset"], CheckKind(fields["kind"]), tuple(fields["columns"]))
        with_rows = [row for row in parts if row.backend != "control"]
        if not with_rows:
            # What cannot be checked has not passed.
            return {**fields, "holds": False, "message": "it has no rows to check"}
        pins = [
            Pin(DatasetUuid(row.dataset_uuid), DatasetVersion(row.dataset_version), row.readable, 0)
            for row in with_rows
        ]
        try:
            found = run_check(check, self._resolver.resolve(pins), self._reader())
        except Rejected as error:
            return {**fields, "holds": False, "message": error.message}
        return {
            **fields,
            "holds": found.passed,
            "message": found.reason or "holds",
            "rows": found.rows,
            "examples": list(found.examples),
        }
