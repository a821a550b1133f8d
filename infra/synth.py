"""Templates of every environment, checked: `make synth`.

cdk-nag and cfn-lint may find only what `exceptions.py` keeps, and no exception may be idle.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from infra import costs, exceptions, wildcards
from infra.environments import (
    DRIVER_GB,
    DRIVER_VCPUS,
    ENVIRONMENTS,
    EXECUTOR_GB,
    EXECUTOR_VCPUS,
)
from infra.node import ROOT

OUTPUT = ROOT / "cdk.out"


@dataclass(frozen=True)
class Finding:
    tool: str
    rule: str
    where: str
    text: str


class SynthFailed(Exception):
    """What the tools said."""


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """What a synth gets to see: no account, region or profile, and no file that has them."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("AWS_", "CDK_"))}
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return {**kept, **nowhere, "AWS_EC2_METADATA_DISABLED": "true"}


def assemble(
    folder: Path,
    *names: str,
    bundling: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """In a process of its own: it prints what cdk-nag finds, which is judged here instead."""
    options = [] if bundling else ["--no-bundling"]
    done = subprocess.run(  # noqa: S603  # our own module
        [sys.executable, "-m", "infra.assemble", str(folder), *names, *options],
        cwd=ROOT,
        env=without_credentials(environ),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SynthFailed(done.stderr[-4000:])


def nag_findings(folder: Path) -> Iterator[Finding]:
    for report in sorted(folder.glob("*/validation-report.json")):
        prefix = f"trace-{report.parent.name}-"
        for plugin in json.loads(report.read_text(encoding="utf-8"))["pluginReports"]:
            for violation in plugin["violations"]:
                for construct in violation["violatingConstructs"]:
                    stack, _, path = construct["constructPath"].partition("/")
                    where = f"{stack.removeprefix(prefix).replace('-', '_')}/{path}"
                    yield Finding("cdk-nag", violation["ruleName"], where, violation["description"])


def lint_findings(folder: Path) -> Iterator[Finding]:
    templates = [str(file) for file in sorted(folder.glob("*/*.template.json"))]
    done = subprocess.run(  # noqa: S603  # our own templates
        [Path(sys.executable).with_name("cfn-lint"), "--format", "json", *templates],
        capture_output=True,
        text=True,
    )
    if not done.stdout.strip():
        raise SynthFailed(done.stderr[-4000:])
    for match in json.loads(done.stdout):
        stack = wildcards.stack_of(Path(match["Filename"]))
        yield Finding("cfn-lint", match["Rule"]["Id"], stack, match["Message"])


def unexpected(found: list[Finding], kept: tuple[exceptions.Kept, ...]) -> Iterator[str]:
    """Findings that no exception covers, and exceptions that cover none."""
    for each in found:
        if not any(exception.covers(each.rule, each.where) for exception in kept):
            yield f"{each.tool}: {each.rule} at {each.where}: {each.text}"
    for exception in kept:
        if not any(exception.covers(each.rule, each.where) for each in found):
            yield f"exceptions.py: nothing needs {exception.rule} at {exception.where}"


def problems(folder: Path) -> list[str]:
    return [
        *unexpected(list(nag_findings(folder)), exceptions.NAG),
        *unexpected(list(lint_findings(folder)), exceptions.LINT),
    ]


def summary(folder: Path, name: str) -> list[str]:
    """One row: stacks, resources, functions, wildcards, megabytes of layers, seconds."""
    files = sorted((folder / name).glob("*.template.json"))
    templates = {file: json.loads(file.read_text(encoding="utf-8")) for file in files}
    resources = [each for template in templates.values() for each in template["Resources"].values()]
    found = {
        each.text
        for file, template in templates.items()
        for each in wildcards.wildcards(wildcards.stack_of(file), name, template)
    }
    assembled = json.loads((folder / name / "assembled.json").read_text(encoding="utf-8"))
    return [
        name,
        str(len(templates)),
        str(len(resources)),
        str(sum(each["Type"] == "AWS::Lambda::Function" for each in resources)),
        str(len(found)),
        _layer_megabytes(folder / name, resources),
        f"{assembled['seconds']:.1f}",
    ]


def _layer_megabytes(folder: Path, resources: list[dict[str, Any]]) -> str:
    sizes = []
    for each in resources:
        if each["Type"] == "AWS::Lambda::LayerVersion":
            asset = folder / f"asset.{each['Properties']['Content']['S3Key'].removesuffix('.zip')}"
            files = [file for file in asset.rglob("*") if file.is_file()]
            sizes.append(sum(file.stat().st_size for file in files) / 1e6)
    return f"{sum(sizes):.0f}"


def _spark_costs() -> Table:
    """Idle, a run with one executor, a run with all it may have, and everything at once."""
    table = Table(title="Spark, in dollars an hour (estimates; see infra/costs.py)")
    for column in ("environment", "idle", "smallest run", "largest run", "ceiling", "runs at once"):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for name, environment in ENVIRONMENTS.items():
        emr = environment.emr
        if emr is None:
            continue
        one, most = (
            costs.one_run(
                DRIVER_VCPUS + executors * EXECUTOR_VCPUS, DRIVER_GB + executors * EXECUTOR_GB
            )
            for executors in (1, emr.executors)
        )
        highest = costs.ceiling(emr)
        dollars = [f"{each:.2f}" for each in (0, one, most, highest)]
        table.add_row(name, *dollars, str(emr.runs))
    return table


def command_line_accepts(folder: Path, name: str) -> None:
    """The pinned command line reads what the pinned library wrote."""
    done = subprocess.run(  # noqa: S603  # our own module
        [sys.executable, "-m", "infra.node", "ls", "--app", str(folder / name)],
        cwd=ROOT,
        env=without_credentials(os.environ),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SynthFailed(done.stderr[-4000:])


def main() -> int:
    from rich.console import Console

    console, started = Console(), time.monotonic()
    names = list(ENVIRONMENTS)
    try:
        assemble(OUTPUT, *names)
        found = problems(OUTPUT)
        for name in names:
            command_line_accepts(OUTPUT, name)
    except SynthFailed as error:
        console.print(str(error), markup=False)
        return 1
    table = Table(title="Templates in cdk.out")
    for column in (
        "environment",
        "stacks",
        "resources",
        "functions",
        "wildcards",
        "layer MB",
        "seconds",
    ):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for name in names:
        table.add_row(*summary(OUTPUT, name))
    console.print(table)
    console.print(_spark_costs())
    for problem in found:
        console.print(problem, markup=False, style="red")
    kept = len(exceptions.NAG) + len(exceptions.LINT)
    verdict = (
        f"{len(found)} problems" if found else f"cdk-nag and cfn-lint: clean, {kept} exceptions"
    )
    console.print(f"{verdict}; {time.monotonic() - started:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
