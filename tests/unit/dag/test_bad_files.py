"""Every file in bad/ is refused with exactly the messages kept beside it.

After a deliberate change of a message run this file with TRACE_UPDATE_GOLDENS=1, and read the
difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.problems import DagInvalid, render

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*.yaml"))


def messages(path: Path, catalog: Catalog) -> tuple[DagInvalid, str]:
    data = path.read_bytes()
    with pytest.raises(DagInvalid) as caught:
        load_dag(data, filename=path.name, catalog=catalog)
    return caught.value, render(caught.value.problems, data.decode("utf-8", "replace")) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bad_file_gets_the_messages_that_are_kept_for_it(path: Path, catalog: Catalog) -> None:
    _, text = messages(path, catalog)
    golden = path.with_suffix(".txt")
    if os.environ.get("TRACE_UPDATE_GOLDENS"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_problem_of_a_bad_file_says_where_why_and_what_instead(
    path: Path, catalog: Catalog
) -> None:
    error, _ = messages(path, catalog)
    for problem in error.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.reason
        assert problem.suggestion
    assert error.body()["error"]["problems"] == [each.as_json() for each in error.problems]


def test_there_are_many_bad_files_and_no_golden_without_one() -> None:
    assert len(FILES) >= 60
    assert {path.stem for path in BAD.glob("*.txt")} == {path.stem for path in FILES}
