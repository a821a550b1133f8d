"""A dataclass of settings becomes the model that checks a DAG file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from emr_jobs.configs import COLUMN_PATTERN, config_from, setting
from trace_core.operators.configs import config_model


@dataclass(frozen=True)
class Bucket:
    column: str = setting(description="What is cut.", pattern=COLUMN_PATTERN)
    size: int = setting(1, description="How wide.", ge=1)


@dataclass(frozen=True)
class Settings:
    """For tests."""

    sort_by: tuple[str, ...] = setting(description="Order.", pattern=COLUMN_PATTERN, min_length=1)
    bucket: Bucket | None = setting(None, description="One bucket.")
    take: Mapping[str, str] = setting(
        {}, description="Columns.", key_pattern=COLUMN_PATTERN, pattern=COLUMN_PATTERN
    )
    how: Literal["one", "many"] = setting("one", description="How.")
    depth: int | None = setting(None, description="Depth.", ge=0)

    def __post_init__(self) -> None:
        if self.how == "many" and self.bucket and self.bucket.size == 1:
            raise ValueError("many need a bucket with a size above 1")


MODEL = config_model(Settings)


def checked(given: dict[str, Any]) -> dict[str, Any]:
    return MODEL.model_validate_json(json.dumps(given)).model_dump(mode="json")


def test_what_the_model_accepts_becomes_the_dataclass() -> None:
    given = checked({"sort_by": ["a"], "bucket": {"column": "b"}, "take": {"x": "y"}})
    assert config_from(Settings, given) == Settings(("a",), Bucket("b", 1), {"x": "y"}, "one", None)


def test_defaults_are_those_of_the_dataclass() -> None:
    assert config_from(Settings, {"sort_by": ["a"]}) == Settings(("a",))
    assert config_from(Settings, checked({"sort_by": ["a"]})) == Settings(("a",))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sort_by": []},
        {"sort_by": ["Not a column"]},
        {"sort_by": "a"},
        {"sort_by": ["a"], "more": 1},
        {"sort_by": ["a"], "bucket": {"column": "b", "size": 0}},
        {"sort_by": ["a"], "bucket": {"column": "B"}},
        {"sort_by": ["a"], "take": {"X": "y"}},
        {"sort_by": ["a"], "take": {"x": "Y"}},
        {"sort_by": ["a"], "how": "few"},
        {"sort_by": ["a"], "depth": -1},
        {"sort_by": ["a"], "depth": "1"},
    ],
)
def test_what_a_setting_rules_out_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        checked(given)


@pytest.mark.parametrize("given", [{}, {"sort_by": ["a"], "more": 1}])
def test_a_job_of_another_release_is_told_what_it_does_not_know(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="setting"):
        config_from(Settings, given)


def test_descriptions_reach_the_schema() -> None:
    assert MODEL.model_json_schema()["properties"]["sort_by"]["description"] == "Order."


def test_what_settings_rule_out_together_is_refused_alike_at_deploy_and_in_the_run() -> None:
    given = {"sort_by": ["a"], "how": "many", "bucket": {"column": "b"}}
    with pytest.raises(ValidationError, match="many need a bucket with a size above 1"):
        checked(given)
    with pytest.raises(ValueError, match="many need a bucket with a size above 1"):
        config_from(Settings, given)
    assert checked({**given, "bucket": {"column": "b", "size": 2}})["how"] == "many"
