"""`trace dataset`: what is published, who may read it, and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from trace_cli import dataset_checks, dataset_purge, dataset_snapshots
from trace_cli.figures import backends, moment, neighbour, of_scope, pin, size, state, whole
from trace_cli.members import user_id_of
from trace_cli.output import (
    AsJson,
    Cursor,
    ago,
    fields,
    hint,
    more,
    print_json,
    say,
    span,
    table,
)
from trace_cli.transport import connect
from trace_client import each_page
from trace_core.http.dataset_answers import DatasetDetail, DatasetPage, Freshness, Head
from trace_core.kernel.errors import Invalid
from trace_core.kernel.limits import HEAD_ROWS_MAX

commands = typer.Typer(help="Published datasets: readers, rows, versions.", no_args_is_help=True)
commands.command()(dataset_snapshots.snapshot)
commands.command()(dataset_snapshots.snapshots)
commands.command()(dataset_checks.verify)
commands.command()(dataset_checks.invalidate)
commands.command()(dataset_checks.invalidations)
commands.command()(dataset_purge.purge)

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="How many at most.")]
_CELL = 32
"""Longer values are cut in a table; --json has them whole."""


@commands.command(name="list")
def list_datasets(
    dag: Annotated[str | None, typer.Option(help="Only datasets of this DAG.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only names with this in them.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only those that you own.")] = False,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Those that are published no more; for administrators.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the datasets that you may read."""
    with connect() as api:
        pages = each_page(
            lambda at: api.datasets(dag=dag, contains=contains, mine=mine, hidden=hidden, cursor=at)
        )
        found = [each for page in pages for each in page.datasets]
    if as_json:
        print_json(DatasetPage(datasets=found, next=None))
    elif not found:
        say("No dataset that you may read.")
        hint("Next: publish an output in a DAG file, or ask an administrator for a read role")
    else:
        table(
            ("Dataset", "DAG", "Storage", "Updated", "Fresh", "Owner"),
            [
                (
                    each.name,
                    each.dag,
                    backends(each.backends),
                    ago(each.freshness.announced_at),
                    _fresh(each.freshness),
                    each.owner,
                )
                for each in found
            ],
        )


@commands.command()
def show(dataset: Dataset, as_json: AsJson = False) -> None:
    """Show one dataset: where it lies, what it is made from, who reads it."""
    with connect() as api:
        found = api.dataset(dataset)
    if as_json:
        print_json(found)
        return
    fields(
        [
            ("Dataset", found.name),
            ("About", found.description or None),
            ("DAG", found.dag),
            ("Owner", found.owner),
            ("Read roles", ", ".join(found.read_roles) or "none: administrators and deployers"),
            ("Updated", ago(found.freshness.announced_at) or "never"),
            ("Fresh", _allowed(found.freshness)),
            ("Personal", ", ".join(found.pii) or None),
            ("Hidden since", ago(found.hidden_at)),
            ("Made from", ", ".join(map(neighbour, found.upstream)) or None),
            ("Read by", ", ".join(map(neighbour, found.downstream)) or None),
            ("Snapshots", ", ".join(each.snapshot for each in found.snapshots) or None),
        ]
    )
    say("")
    _parts(found)


def _parts(found: DatasetDetail) -> None:
    table(
        ("Part", "Job", "Storage", "Commit", "Partitions", "Rows", "Size", "Updated"),
        [
            (
                each.part,
                f"{each.job}.{each.output_index}",
                backends([each.backend]),
                each.number,
                each.commits,
                whole(each.row_count),
                size(each.bytes),
                ago(each.announced_at),
            )
            for each in found.parts
        ],
    )
    columns = next((each.columns for each in found.parts if each.columns), None)
    if columns:
        say("")
        table(("Column", "Type"), [(each.name, each.type) for each in columns])
    placed = [(f"Part {each.part}", each.location) for each in found.parts if each.location]
    if placed:
        say("")
        fields(placed)


@commands.command()
def versions(
    dataset: Dataset, limit: Limit = 20, cursor: Cursor = None, as_json: AsJson = False
) -> None:
    """List the versions of a dataset, the newest first."""
    with connect() as api:
        found = api.dataset_versions(dataset, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return
    several = any(each.part for each in found.versions)
    table(
        ("Version", *(["Part"] if several else []), "State", "DAG v.", "Rows", "Size", "Made"),
        [
            (
                each.dataset_version,
                *([each.part] if several else []),
                state(each.standing),
                each.dag_version,
                whole(each.row_count),
                size(each.bytes),
                ago(each.created_at),
            )
            for each in found.versions
        ],
    )
    more(found.next)


@commands.command()
def partitions(
    dataset: Dataset,
    part: Annotated[int | None, typer.Option(min=0, max=1000, help="Only this part.")] = None,
    of: Annotated[
        str | None, typer.Option("--scope", help="Only this cursor or partition key.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List what readers see of a dataset: live commits, or announcements if it has no rows."""
    with connect() as api:
        found = api.dataset_partitions(dataset, part=part, scope=of, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return
    if not found.partitions:
        say("Nothing has been written yet.")
    else:
        several = any(each.part for each in found.partitions)
        table(
            ("Scope", *(["Part"] if several else []), "Commit", "Rows", "Size", "When", "Task"),
            [
                (
                    of_scope(each.scope),
                    *([each.part] if several else []),
                    each.number,
                    whole(each.row_count),
                    size(each.bytes),
                    ago(each.at),
                    each.task_id,
                )
                for each in found.partitions
            ],
        )
    more(found.next)


@commands.command()
def head(
    dataset: Dataset,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=HEAD_ROWS_MAX, help="How many rows.")
    ] = 20,
    at: Annotated[
        str | None, typer.Option(metavar="VERSION:NUMBER", help="As it was after that commit.")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="As it is in that snapshot.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Only these columns, in this order, split by commas.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the first rows of a dataset, and the pin that shows them again."""
    if at is not None and snapshot is not None:
        raise Invalid("Give --at or --snapshot, not both.")
    version, number = moment(at)
    with connect() as api:
        found = api.head(dataset, limit=limit, version=version, number=number, snapshot=snapshot)
    if columns is not None:
        found = only(found, columns.split(","))
    if as_json:
        print_json(found)
    else:
        show_head(found)


def only(found: Head, columns: Sequence[str]) -> Head:
    """These columns of the rows, in this order."""
    at = {each.name: index for index, each in enumerate(found.columns)}
    unknown = [each for each in columns if each not in at]
    if unknown:
        raise Invalid(
            f"{found.dataset} has no column {', '.join(unknown)}; it has {', '.join(at)}.",
            field="columns",
        )
    chosen = [at[each] for each in columns]
    return found.model_copy(
        update={
            "columns": [found.columns[each] for each in chosen],
            "rows": [[row[each] for each in chosen] for row in found.rows],
        }
    )


def show_head(found: Head) -> None:
    if found.rows:
        names = [each.name for each in found.columns]
        table(names, [[_shortened(value) for value in row] for row in found.rows])
    else:
        say("The first commits show no rows." if found.cut else "There are no rows.")
    if found.cut:
        hint("Not all rows are shown.")
    for each in found.pins:
        hint(f"Part {each.part} at {pin(each)}")


@commands.command(name="read-roles")
def read_roles(
    dataset: Dataset,
    roles: Annotated[
        list[str] | None, typer.Argument(help="Org roles whose members may read it from now on.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="No role may read it any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or set which org roles may read a dataset."""
    if clear and roles:
        raise Invalid("Give roles or --clear, not both.")
    with connect() as api:
        if roles or clear:
            done = api.set_read_roles(dataset, roles or [])
            named, answer = done.read_roles, done.model_dump(mode="json")
        else:
            named = api.dataset(dataset).read_roles
            answer = {"dataset": dataset, "read_roles": named}
    if as_json:
        print_json(answer)
    else:
        whom = f" and {', '.join(named)}" if named else ""
        say(f"{dataset} is open to administrators, those who may deploy its DAG{whom}.")


@commands.command()
def owner(
    dataset: Dataset,
    subject: Annotated[
        str | None, typer.Argument(help="Subject of a member; none: the DAG's creator.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whom to ask about a dataset; it gives no right."""
    with connect() as api:
        user_id = None if subject is None else user_id_of(api, subject)
        done = api.set_dataset_owner(dataset, user_id)
    if as_json:
        print_json(done)
    else:
        say(f"{dataset} belongs to {done.owner or 'the creator of its DAG'}.")


def _fresh(value: Freshness) -> str | None:
    return None if value.fresh is None else "yes" if value.fresh else "late"


def _allowed(value: Freshness) -> str | None:
    if value.allowed_seconds is None:
        return None
    said = "yes" if value.fresh else "late"
    return f"{said}: may be {span(value.allowed_seconds)} old"


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > _CELL:
        return value[: _CELL - 1] + "…"
    return value
