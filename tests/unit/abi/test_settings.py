"""What `decode_logs` refuses when a DAG is deployed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from emr_jobs.catalog import OPERATORS

[MODEL] = [each.config for each in OPERATORS if each.name == "decode_logs"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "no event is named"),
        ({"events": ["erc777"]}, "there is no event `erc777`"),
        ({"events": ["event A(uint x"]}, "`,` is missing before the end"),
        ({"events": ["erc20"], "layout": "columns"}, "is for one event, and 2 are chosen"),
        (
            {"events": ["A(address block_number)"], "layout": "columns"},
            "two columns would be called `block_number`",
        ),
        ({"events": ["erc20"], "keep": ["args", "block_number"]}, "which `layout: rows` has"),
        ({"events": ["erc20"], "keep": ["address"]}, "`cursor` is block_number"),
        ({"events": ["erc20"], "keep": ["block_number"] * 2}, "names a column twice"),
        ({"events": ["erc20"], "addresses": ["vitalik.eth"]}, "match pattern"),
        ({"events": ["erc20"], "topics": ["topic0"]}, "at least 4 items"),
        ({"abi": [{"type": "event", "name": "A", "inputs": [{}]}]}, "in the ABI's event `A`"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=r".") as told:
        MODEL.model_validate(given, strict=False)
    assert reason in str(told.value)


def test_settings_of_one_event_are_accepted() -> None:
    MODEL.model_validate({"events": ["erc721.Transfer"], "layout": "columns"}, strict=False)
