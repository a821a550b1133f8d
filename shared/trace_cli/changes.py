"""`trace dag plan`, `apply` and `rollback`: what a change means, and making it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trace_cli import plan_file
from trace_cli.deploy_progress import watch
from trace_cli.output import AsJson, ago, console, hint, print_json, print_problems, say, table
from trace_cli.plan_file import Given
from trace_cli.plan_view import show_plan
from trace_cli.transport import connect
from trace_client import ApiError, Client
from trace_core.deploy.plan_model import Plan, exit_code
from trace_core.http.deploy_answers import Deployed, Planned, RollbackPreview, RolledBack
from trace_core.kernel.errors import Invalid, PlanStale

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def plan(
    file: Annotated[Path, typer.Argument(help="DAG file.")],
    out: Annotated[
        Path | None, typer.Option(help="Keep the plan in a file, for `trace dag apply`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a DAG file would change. Exit code 0: nothing to do; 2: changes; 1: an error."""
    given = plan_file.read(file)
    with connect() as api:
        planned = make_plan(api, given)
    if out is not None:
        plan_file.write(out, given, planned)
    made = planned.plan()
    if as_json:
        print_json(planned)
    else:
        show_plan(made, console(), file=str(out or file))
    raise typer.Exit(exit_code(made))


def apply(
    file: Annotated[Path, typer.Argument(help="DAG file, or a plan that was kept by --out.")],
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until the build has ended.")] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Tasks of the build that run at once, at most."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the plan of a DAG file and, once that is agreed, do exactly what it says."""
    given = plan_file.read(file)
    with connect() as api:
        planned = make_plan(api, given)
        if not given.is_still(planned):
            raise PlanStale
        made = planned.plan()
        if not as_json:
            show_plan(made, console(), file=str(file), apply=None)
            if made.is_empty:
                return
        _agree(made, yes=yes, asks=not as_json)
        done = api.deploy(
            given.text, given.filename, expected_state=planned.state_token, concurrency=concurrency
        )
        if not as_json:
            say("", deployed_line(done))
        if wait and done.deploy is not None:
            ended = watch(api, done.dag, done.deploy, quiet=as_json)
            if as_json:
                print_json(ended)
            raise typer.Exit(0 if ended.status == "Done" else 1)
    if as_json:
        print_json(done)
    else:
        _hints(done)


def make_plan(api: Client, given: Given) -> Planned:
    try:
        return api.plan(given.text, given.filename)
    except ApiError as error:
        if error.error_code == "DagInvalid":
            print_problems(error.details.get("problems", []), given.text)
        raise


def deploy_file(api: Client, file: Path) -> Deployed:
    """Without a plan: for a platform that nobody else uses."""
    given = plan_file.read(file)
    try:
        return api.deploy(given.text, given.filename)
    except ApiError as error:
        if error.error_code == "DagInvalid":
            print_problems(error.details.get("problems", []), given.text)
        raise


def deployed_line(done: Deployed) -> str:
    if done.builds:
        return (
            f"Deploy {done.deploy} builds {done.dag} version {done.version}: {_list(done.builds)}."
        )
    if not done.created and done.deploy is not None:
        return (
            f"Deploy {done.deploy} of {done.dag} version {done.version} is {done.status} already."
        )
    if not done.created:
        return f"{done.dag} version {done.version} is deployed already; nothing changed."
    return f"Deployed {done.dag} version {done.version} with {_count(len(done.jobs), 'job')}."


def _hints(done: Deployed) -> None:
    for job in done.webhooks if done.created else ():
        say(
            f"{job} can be called once it has a secret: trace hook secret {done.dag} {job} --rotate"
        )
    if done.builds:
        hint(f"Next: trace deploy show {done.dag}")
    elif done.created:
        hint(f"Next: trace status, or trace task list --dag {done.dag}")


def _agree(plan: Plan, *, yes: bool, asks: bool) -> None:
    """A first version replaces nothing; everything else is agreed to by somebody."""
    if yes or plan.from_version is None or plan.is_empty:
        return
    if asks and sys.stdin.isatty() and sys.stdout.isatty():
        typer.echo()
        typer.confirm("Apply this plan?", abort=True)
    elif plan.rebuild_set or plan.incompatible:
        what = (
            f"rebuilds {_list(sorted(plan.rebuild_set))}" if plan.rebuild_set else "is incompatible"
        )
        raise Invalid(f"This plan {what}: look at it, then apply it with --yes.")


def rollback(
    dag: Annotated[str, typer.Argument(help="Name of the DAG.")],
    to: Annotated[
        int | None,
        typer.Option(min=1, max=999_999_999, help="Version; default: the one active before."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Return to a version that was active before: code and data together, at once."""
    with connect() as api:
        preview = api.rollback_preview(dag, to)
        if not as_json:
            _show_preview(preview)
        if not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            typer.echo()
            typer.confirm("Roll back?", abort=True)
        elif not yes:
            raise Invalid(
                f"This takes {dag} from version {preview.from_version} to {preview.to_version}: "
                "say --yes."
            )
        done = api.rollback(dag, preview.to_version)
    if as_json:
        print_json(done)
    else:
        typer.echo()
        show_report(done)


def _show_preview(found: RollbackPreview) -> None:
    say(
        f"{found.dag}: version {found.from_version} → version {found.to_version}, "
        f"which became active {ago(found.last_active_at)}"
    )
    names = sorted({*found.restored, *found.ended})
    if names:
        rows = [(name, found.restored.get(name), found.ended.get(name)) for name in names]
        table(("Job", "Events it missed", "Open tasks that end"), rows)
    else:
        say("No job changes its data; settings and publications do.")


def show_report(done: RolledBack) -> None:
    say(f"Rolled back {done.dag} to version {done.version} (deploy {done.deploy}).")
    outputs: dict[str, str] = {}
    for each in done.restored:
        name = each.dataset or f"output {each.output_index}"
        outputs[each.job] = f"{outputs[each.job]}, {name}" if each.job in outputs else name
    names = sorted({*outputs, *done.behind, *done.canceled})
    if names:
        table(
            ("Job", "Restored", "Events to catch up", "Tasks canceled"),
            [
                (name, outputs.get(name), done.behind.get(name, 0), done.canceled.get(name, 0))
                for name in names
            ],
        )
    if done.deliveries:
        say(f"Version {done.from_version} had sent {len(done.deliveries)} deliveries.")
    hint(f"Next: trace deploy show {done.dag}, or trace dag versions {done.dag}")


def _list(names: list[str]) -> str:
    return ", ".join(names)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
