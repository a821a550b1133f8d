"""`trace slot`: slots of worker pools, and those in quarantine."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.output import AsJson, ago, hint, print_json, say, table
from trace_cli.transport import connect
from trace_core.http.work_answers import Slot

commands = typer.Typer(
    help="Slots of worker pools, their providers, and those in quarantine.", no_args_is_help=True
)


@commands.command(name="list")
def list_slots(
    dag: Annotated[str | None, typer.Option(help="Only slots of this DAG.")] = None,
    as_json: AsJson = False,
) -> None:
    """List slots with their providers: who holds them, what they took, what went wrong."""
    with connect() as api:
        found = api.slots(dag)
    if as_json:
        print_json(found)
    elif not found.slots:
        say("No worker pools.")
    else:
        columns = (
            "DAG", "Pool", "Slot", "Provider", "State", "Requests", "429s", "Retries", "Errors",
            "MiB", "ms each", "Note",
        )  # fmt: skip
        table(columns, [_row(each) for each in found.slots])
        if any(each.state == "quarantined" for each in found.slots):
            hint("Next: trace slot release DAG POOL SLOT")


def _row(slot: Slot) -> tuple[object, ...]:
    return (
        slot.dag,
        slot.pool,
        slot.slot,
        ", ".join(slot.upstreams) or None,
        slot.state,
        slot.requests,
        slot.rate_limited,
        slot.retries,
        slot.errors,
        round(slot.bytes / 2**20, 1),
        round(slot.latency_ms / slot.requests) if slot.requests else None,
        _note(slot),
    )


def _note(slot: Slot) -> str | None:
    if slot.last_fault is None or not slot.failures:
        return None
    note = f"{slot.last_fault}, {slot.failures} in a row, the last {ago(slot.last_fault_at)}"
    if slot.quarantined_until is not None:
        note += f"; until {slot.quarantined_until:%H:%M:%S}"
    return note


@commands.command()
def release(
    dag: Annotated[str, typer.Argument(help="Name of the DAG.")],
    pool: Annotated[str, typer.Argument(help="Name of the worker pool.")],
    slot: Annotated[str, typer.Argument(help="Name of the slot.")],
    as_json: AsJson = False,
) -> None:
    """Take a slot out of quarantine, with a clean record."""
    with connect() as api:
        done = api.release_slot(dag, pool, slot)
    if as_json:
        print_json(done)
    else:
        say(f"Released slot {slot}." if done.released else f"Slot {slot} is in no quarantine.")
