"""`trace upload`: give a CSV file to a manual source that takes one, such as `address_labels`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_cli.output import AsJson, hint, print_json, say
from trace_cli.transport import connect
from trace_core.kernel import limits
from trace_core.kernel.errors import Invalid


def upload(
    dag: Annotated[str, typer.Argument(help="Name of the DAG.")],
    job: Annotated[str, typer.Argument(help="Name of a manual source that takes CSV.")],
    file: Annotated[Path, typer.Argument(help="The CSV file; its first line names columns.")],
    as_json: AsJson = False,
) -> None:
    """Upload a CSV file to a manual source, which judges it line by line."""
    try:
        size = file.stat().st_size
        if size > limits.REQUEST_BODY_MAX:
            raise Invalid(f"{file} has {size} bytes; {limits.REQUEST_BODY_MAX} fit.")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{file} is not UTF-8: byte {error.start} cannot be read.") from error
    with connect() as api:
        done = api.trigger(dag, job, {"csv": text})
    if as_json:
        print_json(done)
    else:
        say(f"Uploaded {file.name} to {dag}.{job}: request {done.number}.")
        hint(f"Next: trace task list --dag {dag}")
