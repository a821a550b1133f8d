"""Which operators exist, and how a project adds its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from trace_core.dag.catalog import Catalog, OperatorSpec
from trace_core.dag.model import Activation, Runtime
from trace_core.kernel.errors import Invalid
from trace_core.operators.catalog import builtin_catalog, load_catalog
from trace_core.operators.configs import RangeAggregatorConfig, TriggerCronConfig


class Nothing(BaseModel):
    speed: int = 1


def make_spec(**changes: object) -> OperatorSpec:
    fields: dict[str, object] = {
        "name": "mine",
        "code_version": "1",
        "activations": frozenset({Activation.REACTIVE}),
        "runtimes": frozenset({Runtime.WORKER}),
        "config": Nothing,
        "description": "Does nothing.",
    }
    return OperatorSpec(**(fields | changes))  # type: ignore[arg-type]


def test_exactly_the_four_control_operators_are_built_in() -> None:
    catalog = builtin_catalog()
    assert sorted(catalog) == [
        "range_aggregator",
        "range_request",
        "range_splitter",
        "trigger_cron",
    ]
    for spec in catalog.values():
        assert spec.control
        assert spec.implementation == (
            f"trace_core.operators.{spec.name}:"
            + "".join(part.capitalize() for part in spec.name.split("_"))
        )


def test_configs_are_strict_and_frozen() -> None:
    config = RangeAggregatorConfig(cursor="block_number", range_size=10)
    assert config.finality_depth == 0
    with pytest.raises(ValidationError):
        config.range_size = 11
    for wrong in (
        {"cursor": "n", "range_size": "10"},
        {"cursor": "n", "range_size": True},
        {"cursor": "n", "range_size": 0},
        {"cursor": "n", "range_size": 1, "finality_depth": -1},
        {"cursor": "Bad Name", "range_size": 1},
        {"cursor": "n\n", "range_size": 1},
        {"cursor": "n", "range_size": 1, "more": 1},
    ):
        with pytest.raises(ValidationError):
            RangeAggregatorConfig.model_validate(wrong)
    assert TriggerCronConfig().model_dump() == {"catch_up": "latest", "max_catch_up": 100}


@pytest.mark.usefixtures("shipped_without_stand_ins")
def test_a_file_or_a_module_adds_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(__file__).parent / "future_operators.py"
    catalog = load_catalog([str(here), str(here)])
    assert "block_follower" in catalog
    assert catalog["block_follower"].affects == {"chain_id", "start_block", "verify"}
    assert catalog.nearest("blockfollower") == "block_follower"
    (tmp_path / "my_project_operators.py").write_text(here.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    assert "sql_transform" in load_catalog(["my_project_operators"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("OPERATORS = 3", "must define OPERATORS"),
        ("", "must define OPERATORS"),
        ("import nowhere_to_be_found", "cannot be imported"),
        ("1 / 0", "cannot be imported"),
        ("def", "cannot be imported"),
        (
            "from trace_core.operators.catalog import builtin_catalog\n"
            "OPERATORS = list(builtin_catalog().values())",
            "defined twice",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_with_a_reason(
    content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "operators.py"
    path.write_text(content)
    with pytest.raises(Invalid, match=message):
        load_catalog([str(path)])


@pytest.mark.parametrize("name", ["no_such_module_here", "trace_core.nothing", "nowhere.py", ".x"])
def test_a_module_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        load_catalog([name])


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Not A Name"},
        {"execution_only": frozenset({"speeed"})},
        {"activations": frozenset()},
        {"runtimes": frozenset()},
        {"runtimes": frozenset({Runtime.DISPATCHER})},
        {"implementation": "module.Class"},
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        make_spec(**changes)


def test_a_catalog_is_extended_without_changing_the_first_one() -> None:
    small = Catalog(make_spec())
    larger = small.with_operators(make_spec(name="other", outputs=range(1, 4)))
    assert list(small) == ["mine"]
    assert list(larger) == ["mine", "other"]
    assert larger["other"].allows_outputs(3)
    assert not larger["other"].allows_outputs(4)
    assert not larger["mine"].allows_outputs(0)
    with pytest.raises(Invalid):
        larger.with_operators(make_spec())
