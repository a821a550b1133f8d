"""`trace dataset verify`, `invalidate` and `invalidations`: is it right, and what if it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from trace_cli.figures import counted, of_scope, size
from trace_cli.output import AsJson, Cursor, ago, console, hint, more, print_json, say, table
from trace_cli.transport import connect
from trace_client import each_page
from trace_core.http.dataset_answers import Invalidation, Verification
from trace_core.kernel.errors import Invalid

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
Partition = Annotated[str | None, typer.Option(help="Only this cursor or partition key.")]


def verify(dataset: Dataset, partition: Partition = None, as_json: AsJson = False) -> None:
    """Read the objects of a dataset again and compare them with what was committed.

    Ends with 1 when something is altered, missing or extra.
    """
    found: list[Verification] = []
    with connect() as api, _progress() as progress:
        task = progress.add_task(f"Verifying {dataset}", total=None)
        for page in each_page(lambda at: api.verify(dataset, scope=partition, cursor=at)):
            found.append(page)
            progress.update(task, total=found[0].partitions_in_all, advance=page.partitions)
    answer: dict[str, Any] = {
        "dataset": dataset,
        "partitions": sum(page.partitions for page in found),
        "objects": sum(page.objects for page in found),
        "bytes": sum(page.bytes for page in found),
        "unverifiable": found[0].unverifiable,
        "findings": [each.model_dump(mode="json") for page in found for each in page.findings],
    }
    if as_json:
        print_json(answer)
    else:
        _say_verified(dataset, answer, found)
    if answer["findings"]:
        raise typer.Exit(1)


def _say_verified(dataset: str, answer: dict[str, Any], found: list[Verification]) -> None:
    findings = [each for page in found for each in page.findings]
    what = f"{counted(answer['objects'], 'object')} in {counted(answer['partitions'], 'partition')}"
    if findings:
        table(
            ("Object is", "Scope", "Part", "Commit", "Key"),
            [
                (each.problem, of_scope(each.scope), each.part, each.number, each.key)
                for each in findings
            ],
        )
        kinds = Counter(each.problem for each in findings)
        said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        say(f"{dataset} differs from what was committed: {said}; read {what}.")
    elif answer["partitions"]:
        say(f"{dataset} is as it was committed: {what}, {size(answer['bytes'])}.")
    if answer["unverifiable"]:
        parts = ", ".join(map(str, answer["unverifiable"]))
        say(f"Nothing to compare in part {parts}: its rows are not kept as objects.")


@contextmanager
def _progress() -> Iterator[Progress]:
    out = console(stderr=True)
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # Gone when it is done, and never in a pipe.
    with Progress(*bar, console=out, transient=True, disable=not out.is_terminal) as progress:
        yield progress


def invalidate(
    dataset: Dataset,
    reason: Annotated[str, typer.Option(help="Why it is wrong; readers of the log see it.")],
    start: Annotated[int | None, typer.Option("--from", min=0, help="First cursor.")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Last cursor, included.")] = None,
    partition: Annotated[str | None, typer.Option(help="A partition key.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="All of the dataset.")] = False,
    as_json: AsJson = False,
) -> None:
    """Declare a part of a dataset invalid: every job that reads it does its work again."""
    given = [start is not None or end is not None, partition is not None, whole]
    if sum(given) != 1 or (start is None) is not (end is None):
        raise Invalid("Give --from and --to, or --partition, or --all.")
    with connect() as api:
        done = api.invalidate(
            dataset, reason, str(uuid4()), partition_key=partition, start=start, end=end
        )
    if as_json:
        print_json(done)
    else:
        what = partition or ("all of it" if whole else f"{start}-{end}")
        say(f"Declared {dataset} invalid ({what}): {counted(done.tasks_made, 'task')} to do again.")
        hint(f"Next: trace dataset invalidations {dataset}")


def invalidations(
    dataset: Dataset,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List what was declared invalid, by whom and why, and what became of it."""
    with connect() as api:
        found = api.invalidations(dataset, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return
    if not found.invalidations:
        say(f"Nothing of {dataset} was declared invalid.")
    else:
        rows = [
            (
                of_scope(each.scope),
                each.declared_by or each.source,
                ago(each.created_at),
                _became(each),
                each.reason,
            )
            for each in found.invalidations
        ]
        table(("Scope", "By", "When", "Tasks", "Reason"), rows)
    more(found.next)


def _became(value: Invalidation) -> str:
    if not value.tasks:
        return "nobody reads it"
    done = sum(task.status == "Completed" for task in value.tasks)
    return f"{done} of {len(value.tasks)} done"
