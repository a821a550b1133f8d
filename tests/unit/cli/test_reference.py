"""The reference pages say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_cli.reference import PAGES

FOLDER = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_fresh(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `python -m trace_cli.reference`"


def test_every_command_explains_itself_and_its_options() -> None:
    page = PAGES["cli.md"]()
    assert page.count("## `trace ") >= 17
    for line in page.splitlines():
        if line.startswith("| `"):
            assert not line.endswith("|  |"), line
