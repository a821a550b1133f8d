"""Which inputs of a task hold the rows, and which only say what to do."""

from __future__ import annotations

from collections.abc import Collection

from emr_jobs.task import OperatorFailed, SparkTask


def row_inputs(task: SparkTask, *, but: Collection[str | None] = ()) -> list[str]:
    """All inputs but those whose events make tasks, unless there are no others.

    By the job's wiring alone: neither what happens to be written so far must decide, nor that a
    rewrite of the rows made this task.
    """
    aliases = [each.alias for each in task.inputs if each.alias not in but]
    return [each for each in aliases if each not in task.triggers] or aliases


def row_input(task: SparkTask, named: str | None) -> str:
    """The one input with the rows: the one that is named, or the only one that it can be."""
    if named is not None:
        return task.input(named).alias
    found = row_inputs(task)
    if len(found) != 1:
        raise OperatorFailed(
            f"the inputs {', '.join(found) or 'of which there are none'} could all be meant; "
            "name one in `input`",
            code="ConfigInvalid",
        )
    return found[0]
