from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.platform_for_tests import Platform, serve
from trace_core.worker.children import ChildPool

OPERATORS = str(Path(__file__).parents[2] / "operators_for_tests.py")


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture
def url(platform: Platform) -> Iterator[str]:
    with serve(platform) as address:
        yield address


@pytest.fixture(scope="module")
def pool() -> Iterator[ChildPool]:
    """One warm pool for all tests of a module; none of them may leave it broken."""
    made = ChildPool(2, modules=[OPERATORS], task_api="http://127.0.0.1:9")
    made.warm()
    try:
        yield made
    finally:
        made.close()
