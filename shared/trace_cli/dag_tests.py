"""`trace test`: jobs run on the rows of fixtures, and what they write is compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from trace_cli.dag_file import Operators
from trace_cli.fixtures import report
from trace_cli.fixtures.file import (
    DAG_SUFFIX,
    SUFFIX,
    Fixture,
    FixturesInvalid,
    fixtures_beside,
    read_fixtures,
)
from trace_cli.fixtures.judge import Verdict, run_fixture
from trace_cli.fixtures.spark import SparkSession
from trace_cli.fixtures.update import update
from trace_cli.output import console, print_json, print_problems
from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag, Runtime
from trace_core.dag.problems import DagInvalid, did_you_mean, one_of
from trace_core.kernel.errors import Invalid, NotFound
from trace_core.operators.catalog import load_catalog
from trace_core.settings import Settings

Results = Sequence[tuple[Path, Sequence[Verdict]]]


def test(
    files: Annotated[
        list[Path] | None, typer.Argument(help="DAG files, or folders with some; default: here.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Fixtures whose name has this in it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Write a JUnit report for a build server as well.")
    ] = None,
    rewrite: Annotated[
        bool,
        typer.Option("--update", help="Write what comes out now into the fixtures that differ."),
    ] = False,
    operators: Operators = None,
) -> None:
    """Run the fixtures of DAGs, without a platform, and compare the rows."""
    modules = [*Settings.from_env().operator_modules, *(operators or [])]
    catalog = load_catalog(modules)
    results: list[tuple[Path, list[Verdict]]] = []
    left_out: list[str] = []
    invalid: list[tuple[Path, DagInvalid]] = []
    with SparkSession(modules) as spark:
        for path in _with_fixtures(files or [Path()]):
            try:
                dag = load_dag(path.read_bytes(), filename=str(path), catalog=catalog)
                fixtures, text = read_fixtures(fixtures_beside(path), dag)
            except DagInvalid as error:
                invalid.append((path, error))
                if not as_json:
                    _print_invalid(path, error)
                continue
            chosen = [each for each in fixtures if only is None or only in each.name]
            left_out += [each.name for each in fixtures if only and only not in each.name]
            source = fixtures_beside(path)
            verdicts = _run(dag, catalog, chosen, source, text, spark, quiet=as_json or rewrite)
            if rewrite:
                source.write_text(update(text, verdicts), encoding="utf-8")
                for each in verdicts if not as_json else ():
                    report.print_verdict(each, text)
            results.append((source, verdicts))
    every = [each for _, verdicts in results for each in verdicts]
    if left_out and not every and not invalid:
        better = did_you_mean(only or "", left_out, f"there are: {one_of(left_out)}")
        raise NotFound(f"No fixture has {only!r} in its name; {better}.")
    if junit is not None:
        junit.write_text(report.junit(results), encoding="utf-8")
    if as_json:
        _print_json(results, invalid)
    else:
        _conclude(results, len(invalid))
    if invalid or any(not each.passed and not each.updated for each in every):
        raise typer.Exit(1)


def _run(
    dag: Dag,
    catalog: Catalog,
    fixtures: Sequence[Fixture],
    source: Path,
    text: str,
    spark: SparkSession,
    *,
    quiet: bool,
) -> list[Verdict]:
    verdicts = []
    for fixture in fixtures:
        if dag.job(fixture.job).runtime is Runtime.EMR_SERVERLESS and not spark.started:
            if not quiet:
                console().print(Text("Spark starts, for all PySpark operators.", style="dim"))
            spark.start()
        began = time.monotonic()
        verdict = run_fixture(dag, catalog, fixture, source, spark)
        verdict.seconds = time.monotonic() - began
        verdicts.append(verdict)
        if not quiet:
            report.print_verdict(verdict, text)
    return verdicts


def _with_fixtures(given: Sequence[Path]) -> list[Path]:
    """The DAG files that have fixtures beside them."""
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            found += _inside(path)
            continue
        if path.name.endswith(SUFFIX):
            path = path.with_name(path.name.removesuffix(SUFFIX) + DAG_SUFFIX)
        if not path.is_file():
            raise NotFound(f"There is no file {path}.")
        if not fixtures_beside(path).is_file():
            raise NotFound(f"{path} has no fixtures: write {fixtures_beside(path)}.")
        found.append(path)
    if not found:
        raise Invalid(
            f"No fixtures found: beside a DAG file `name{DAG_SUFFIX}` they are in `name{SUFFIX}`."
        )
    return list(dict.fromkeys(found))


def _inside(folder: Path) -> list[Path]:
    found = []
    for each in sorted(folder.rglob(f"*{SUFFIX}")):
        # Not what tools have put into hidden folders.
        if any(part.startswith(".") for part in each.relative_to(folder).parts):
            continue
        dag_file = each.with_name(each.name.removesuffix(SUFFIX) + DAG_SUFFIX)
        if not dag_file.is_file():
            raise NotFound(
                f"{each} has no DAG file: nothing would run it. Name it as its DAG file."
            )
        found.append(dag_file)
    return found


def _print_invalid(path: Path, error: DagInvalid) -> None:
    file = fixtures_beside(path) if isinstance(error, FixturesInvalid) else path
    problems = [each.as_json() for each in error.problems]
    print_problems(problems, file.read_text("utf-8", "replace"))


def _print_json(results: Results, invalid: Sequence[tuple[Path, DagInvalid]]) -> None:
    print_json(
        {
            "fixtures": [
                report.as_json(file, each) for file, verdicts in results for each in verdicts
            ],
            "invalid": [problem.as_json() for _, error in invalid for problem in error.problems],
        }
    )


def _conclude(results: Results, invalid: int) -> None:
    every = [each for _, verdicts in results for each in verdicts]
    failed = sum(not each.passed and not each.updated for each in every)
    updated = sum(each.updated for each in every)
    counts = [
        f"{len(every)} fixture{'' if len(every) == 1 else 's'}",
        f"{failed} failed" if failed else "",
        f"{invalid} file{'' if invalid == 1 else 's'} with problems" if invalid else "",
        f"{updated} written anew: look at them before you keep them" if updated else "",
    ]
    style = "bold red" if failed or invalid else "bold green"
    told = ", ".join(each for each in counts if each)
    good = not (failed or updated or invalid)
    console().print(Text(f"{told}, all as expected" if good else told, style=style))
