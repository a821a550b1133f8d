"""Writes the templates of environments into a folder: `python -m infra.assemble FOLDER [NAME...]`.

Beside each environment's templates stands the report of cdk-nag (`validation-report.json`).
Nothing is looked up, so nothing but this repository is needed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

from infra import node

node.use()

import aws_cdk as cdk  # noqa: E402  # after node is chosen
import cdk_nag  # noqa: E402

from infra.application import add_stacks, context  # noqa: E402
from infra.environments import ENVIRONMENTS  # noqa: E402

_NO_BUNDLING: dict[str, object] = {"aws:cdk:bundling-stacks": []}


def assemble(folder: Path, name: str, *, bundling: bool) -> None:
    started = time.monotonic()
    # What an earlier run left would be taken for a part of this one.
    shutil.rmtree(folder / name, ignore_errors=True)
    app = cdk.App(
        outdir=str(folder / name),
        context={**context(), **({} if bundling else _NO_BUNDLING)},
        analytics_reporting=False,
    )
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    add_stacks(app, ENVIRONMENTS[name])
    try:
        app.synth()
    except RuntimeError as error:
        # Findings stand in the report; which of them are meant to be is for the reader to say.
        if "ValidationFailed" not in str(error):
            raise
    took = {"seconds": round(time.monotonic() - started, 1)}
    (folder / name / "assembled.json").write_text(json.dumps(took), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(ENVIRONMENTS))
    parser.add_argument("--no-bundling", action="store_true", help="leave out the code of layers")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in ENVIRONMENTS:
            parser.error(f"there is no environment {name}; there are {', '.join(ENVIRONMENTS)}")
        assemble(arguments.folder, name, bundling=not arguments.no_bundling)


if __name__ == "__main__":
    main()
