"""One warm session for all tests of this folder, in each process that runs some of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emr_jobs.session import local_session
from tests.spark.runs import Place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Reading rows, pyspark leaves the closing of its socket to the garbage collector.
    ignored = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(ignored)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(
        "tests",
        scratch=tmp_path_factory.mktemp("spark"),
        # Plans are looked at, and are cut short by default.
        settings={"spark.sql.maxMetadataStringLength": "10000"},
    )
    yield session
    session.stop()


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    """A folder with objects, and a way to run operators over them."""
    return Place(tmp_path, spark)
