"""The catalog and the example that all tests of this folder share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.dag.future_operators import NAMES, stand_in_catalog
from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag
from trace_core.operators.catalog import SHIPPED

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return stand_in_catalog()


@pytest.fixture
def shipped_without_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shipped, but for operators with the name of a stand-in."""
    for name in SHIPPED:
        module = importlib.import_module(name)
        monkeypatch.setattr(
            module, "OPERATORS", [each for each in module.OPERATORS if each.name not in NAMES]
        )


@pytest.fixture(scope="session")
def example() -> str:
    return (HERE / "example.dag.yaml").read_text()


@pytest.fixture(scope="session")
def load(catalog: Catalog) -> Callable[[str], Dag]:
    return lambda text: load_dag(text, filename="test.dag.yaml", catalog=catalog)
