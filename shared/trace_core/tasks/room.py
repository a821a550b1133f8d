"""Room for tasks that we start: how many of a runtime are held, and who waits for a place.

Some runtimes count what they hold. Others take whatever they get and let it wait inside, where
reservations lapse: for those, what they hold is counted here, where all relays see it.
"""

from __future__ import annotations

from dataclasses import dataclass

from trace_core.dag.model import Runtime
from trace_core.database.state import StateDatabase, Transaction
from trace_core.kernel.errors import Busy
from trace_core.kernel.ids import OrgId
from trace_core.tasks.statements import SQL


@dataclass(frozen=True)
class InLine:
    """An org with ready tasks, and what of the runtime it holds already."""

    org_id: OrgId
    held: int
    held_by_all: int


def orgs_in_line(state: StateDatabase, runtime: Runtime) -> list[InLine]:
    rows = state.read(SQL["orgs_in_line"], {"runtime": runtime.value})
    return [InLine(row.org_id, row.held, row.held_by_all) for row in rows]


def within(tx: Transaction, runtime: Runtime, concurrency: int | None, wanted: int) -> int:
    """As many of `wanted` as there is room for; it stays so until the transaction ends.

    Raises `Busy` when there is none.
    """
    if concurrency is None:
        return wanted
    tx.one(SQL["take_turn"], {})
    held: int = tx.all(SQL["held_tasks"], {"runtime": runtime.value})[0].held
    if held >= concurrency:
        raise Busy
    return min(wanted, concurrency - held)
