"""`trace dataset snapshot` and `snapshots`: names for datasets as they were."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_cli.figures import pin
from trace_cli.output import AsJson, ago, fields, hint, print_json, say, table
from trace_cli.transport import connect
from trace_client import each_page
from trace_core.http.dataset_answers import SnapshotPage

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]


def snapshot(
    dataset: Dataset,
    alias: Annotated[str, typer.Argument(help="Its name, such as q3-report.")],
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Name a dataset as it is now; the name never moves on, and protects it from a purge."""
    if delete:
        _delete(dataset, alias, as_json)
        return
    with connect() as api:
        done = api.create_snapshot(dataset, alias, description)
    if as_json:
        print_json(done)
    else:
        say(f"{alias} is {dataset} as it is now.")
        fields([(f"Part {each.part}", pin(each)) for each in done.pins])
        hint(f"Next: trace dataset head {dataset} --snapshot {alias}")


def _delete(dataset: str, alias: str, as_json: bool) -> None:
    with connect() as api:
        done = api.remove_snapshot(dataset, alias)
    if as_json:
        print_json(done)
    else:
        say(f"Deleted the snapshot {alias}.")


def snapshots(dataset: Dataset, as_json: AsJson = False) -> None:
    """List the snapshots of a dataset."""
    with connect() as api:
        pages = each_page(lambda at: api.snapshots(dataset, cursor=at))
        found = [each for page in pages for each in page.snapshots]
    if as_json:
        print_json(SnapshotPage(snapshots=found, next=None))
    elif not found:
        say(f"{dataset} has no snapshots.")
        hint(f"Next: trace dataset snapshot {dataset} ALIAS")
    else:
        rows = [
            (
                each.snapshot,
                ago(each.created_at),
                each.created_by,
                ", ".join(f"part {one.part} at {one.number}" for one in each.pins),
                each.description or None,
            )
            for each in found
        ]
        table(("Snapshot", "Made", "By", "Commits", "About"), rows)
