"""The catalog and the example that all tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trace_core.dag.catalog import Catalog
from trace_core.dag.load import load_dag
from trace_core.dag.model import Dag
from trace_core.operators.catalog import load_catalog

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog([str(HERE / "future_operators.py")])


@pytest.fixture(scope="session")
def example() -> str:
    return (HERE / "example.dag.yaml").read_text()


@pytest.fixture(scope="session")
def load(catalog: Catalog) -> Callable[[str], Dag]:
    return lambda text: load_dag(text, filename="test.dag.yaml", catalog=catalog)
