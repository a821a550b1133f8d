"""`trace dataset purge` and `trace storage`: what is stored, and what need not be."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trace_cli.figures import counted, size, state, whole
from trace_cli.output import AsJson, ago, hint, print_json, say, table
from trace_cli.transport import connect
from trace_client import each_page
from trace_core.http.dataset_answers import PurgeVersion, StoragePage, StoredVersion
from trace_core.kernel.errors import Invalid
from trace_core.registry.standing import Standing

Versions = Annotated[
    list[str] | None, typer.Option("--version", help="A version to purge; may be repeated.")
]


def purge(
    dataset: Annotated[
        str, typer.Argument(help="Name of the dataset, or the id of an output without one.")
    ],
    version: Versions = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Keep marked versions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete old versions of a dataset for good; without --version, only say what may go.

    They are marked at once, and deleted when no reader can be left: after a day.
    """
    if not version:
        if yes or cancel:
            raise Invalid("Say which: --version VERSION.")
        _preview(dataset, as_json)
        return
    with connect() as api:
        if cancel:
            done = api.cancel_purge(dataset, version)
        else:
            if not yes:
                found = [api.purge_preview(dataset, each).versions[0] for each in version]
                _ask(dataset, found)
            done = api.purge(dataset, version)
    if as_json:
        print_json(done)
        return
    for each in done.versions:
        say(_outcome(each))


def _preview(dataset: str, as_json: bool) -> None:
    with connect() as api:
        found = api.purge_preview(dataset)
    if as_json:
        print_json(found)
        return
    table(
        ("Version", "State", "Rows", "Objects", "Size", "May it go?"),
        [
            (
                each.dataset_version,
                state(each.standing),
                whole(each.row_count),
                whole(each.objects),
                size(each.bytes),
                _verdict(each),
            )
            for each in found.versions
        ],
    )
    say("", f"A purge of what may go frees {size(found.freed_bytes)}.")
    for each in found.versions:
        for why in each.kept:
            if why.reason not in ("current", "rollback_target"):
                say(f"{each.dataset_version}: {why.message}")
    hint(f"Next: trace dataset purge {dataset} --version VERSION")


def _verdict(each: PurgeVersion) -> str:
    if each.standing is Standing.PURGING:
        return f"goes {ago(each.deleted_after)}"
    if not each.kept:
        return "yes"
    return "no: " + ", ".join(why.reason.value.removesuffix("_target") for why in each.kept)


def _ask(dataset: str, found: list[PurgeVersion]) -> None:
    """Only somebody who sits there can answer; a script says --yes."""
    freed = size(sum(each.bytes for each in found))
    rows = sum(each.row_count for each in found)
    what = f"{counted(len(found), 'version')} of {dataset}: {counted(rows, 'row')}, {freed}"
    if not sys.stdin.isatty():
        raise Invalid(f"That would delete {what}. Say --yes to do it.")
    if not typer.confirm(f"Delete {what}, for good?"):
        raise typer.Exit(1)


def _outcome(each: PurgeVersion) -> str:
    if each.purged_at is not None:
        return f"{each.dataset_version} was purged {ago(each.purged_at)}."
    if each.deleted_after is None:
        return f"{each.dataset_version} stays."
    return (
        f"{each.dataset_version} takes no new reader, and is deleted "
        f"{ago(each.deleted_after)} ({size(each.bytes)})."
    )


def storage(
    dag: Annotated[str | None, typer.Option(help="Only datasets of this DAG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored of each dataset and version, and what a purge would free."""
    with connect() as api:
        pages = each_page(lambda at: api.storage(dag=dag, cursor=at))
        found = [each for page in pages for each in page.versions]
    if as_json:
        print_json(StoragePage(versions=found, next=None))
        return
    if not found:
        say("Nothing is stored that you may read.")
        return
    found.sort(key=lambda each: (_name(each), each.created_at))
    table(
        ("Dataset", "State", "DAG v.", "Rows", "Size", "Superseded", "Purge frees", "Made"),
        [
            (
                _name(each),
                state(each.standing),
                each.dag_version,
                whole(each.row_count),
                size(each.bytes),
                size(each.superseded_bytes),
                size(_freed(each)) if _freed(each) else None,
                ago(each.created_at),
            )
            for each in found
        ],
    )
    stored = sum(each.bytes + each.superseded_bytes for each in found)
    freed = sum(map(_freed, found))
    say(
        "",
        f"{counted(len(found), 'version')}: {size(stored)}, of which a purge would free "
        f"{size(freed)}.",
    )
    if freed:
        hint("Next: trace dataset purge DATASET")


def _name(each: StoredVersion) -> str:
    return each.dataset or f"{each.dag}.{each.job}.{each.output_index}"


def _freed(each: StoredVersion) -> int:
    may_go = each.standing is Standing.RETIRED and not each.in_snapshot
    return each.bytes + each.superseded_bytes if may_go else 0
