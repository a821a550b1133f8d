"""The command `trace`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trace_cli import (
    backfills,
    dags,
    datasets,
    db,
    deploys,
    events,
    members,
    orgs,
    outbox,
    profile_commands,
    queues,
    quotas,
    secrets,
    slots,
    tasks,
    tokens,
    transport,
    uploads,
)
from trace_cli import project as project_folder
from trace_cli.audit import audit
from trace_cli.dag_tests import test
from trace_cli.dataset_purge import storage
from trace_cli.dev import dev
from trace_cli.init import init
from trace_cli.lineage import lineage
from trace_cli.output import print_error
from trace_cli.profiles import LITE
from trace_cli.status import status
from trace_cli.worker import worker
from trace_core.kernel.errors import TraceError
from trace_core.telemetry import described

app = typer.Typer(
    help="Trace: an event-driven data platform.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main_options(
    profile: Annotated[
        str, typer.Option(help="Which platform to talk to; see `trace profile list`.")
    ] = LITE,
) -> None:
    transport.chosen.set(profile)


app.command()(init)
app.command()(test)
app.command()(status)
app.command()(dev)
app.command()(worker)
app.command()(audit)
app.command()(storage)
app.command()(lineage)
app.command()(uploads.upload)
app.command()(tokens.token)
app.add_typer(dags.commands, name="dag")
app.add_typer(datasets.commands, name="dataset")
app.add_typer(deploys.commands, name="deploy")
app.add_typer(backfills.commands, name="backfill")
app.add_typer(tasks.commands, name="task")
app.add_typer(outbox.commands, name="outbox")
app.add_typer(queues.commands, name="queue")
app.add_typer(quotas.commands, name="quota")
app.add_typer(slots.commands, name="slot")
app.add_typer(db.commands, name="db")
app.add_typer(members.commands, name="member")
app.add_typer(members.role_commands, name="role")
app.add_typer(secrets.commands, name="secret")
app.add_typer(tokens.worker_commands, name="worker-token")
app.add_typer(tokens.hook_commands, name="hook")
app.add_typer(orgs.commands, name="org")
app.add_typer(events.commands, name="event")
app.add_typer(profile_commands.commands, name="profile")


def main() -> None:
    """Errors are one clear message on stderr and exit code 1, never a traceback."""
    try:
        project_folder.enter()
        app()
    except TraceError as error:
        print_error(error)
        sys.exit(1)
    except Exception as error:
        # Where it happened, for the report of the bug; what it said may hold somebody's data.
        found = described(error)
        where = found["at"][-1] if found["at"] else "an unknown place"
        print_error(TraceError(f"Trace failed unexpectedly: {found['name']} at {where}."))
        sys.exit(1)
