"""What is shipped: enough to import every handler, for the platform that runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from infra.constructs.packaging import DATA_GROUP, LEFT_OUT_OF_DATA, leave_out
from infra.environments import ENVIRONMENTS
from infra.functions import FUNCTIONS
from tests.infra.templates import CLOUD, EVERYWHERE, Templates

ROOT = Path(__file__).parents[2]
C_LIBRARY = {"3.11": (2, 26), "3.12": (2, 34)}
"""Of the Lambda runtimes: Amazon Linux 2 up to Python 3.11, Amazon Linux 2023 after it."""
LIMIT_MB = 250


def _locked(*which: str) -> list[str]:
    command = [os.environ.get("UV", "uv"), "export", "--frozen", "--quiet", "--no-emit-project"]
    done = subprocess.run(
        [
            *command,
            *(which or ("--no-default-groups",)),
            "--no-hashes",
            "--no-header",
            "--no-annotate",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"^([\w.-]+)==", done.stdout, re.M)


@pytest.fixture(scope="module")
def base_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the base layer alone, as links into this environment."""
    folder = tmp_path_factory.mktemp("layer")
    for name in _locked():
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform
        for top in {file.parts[0] for file in files if file.parts[0] != ".."}:
            source = Path(str(metadata.distribution(name).locate_file(top)))
            if source.exists() and not (folder / top).exists():
                (folder / top).symlink_to(source)
    return folder


def test_every_handler_starts_with_nothing_but_its_layers(base_layer: Path) -> None:
    imports = "\n".join(f"import functions.{each.name}.handler" for each in FUNCTIONS)
    done = subprocess.run(
        [sys.executable, "-S", "-c", imports],
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(map(str, (base_layer, ROOT / "shared", ROOT)))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_locked_packages_fit_into_a_layer(base_layer: Path) -> None:
    size = sum(
        file.stat().st_size for top in base_layer.iterdir() for file in _files(top.resolve())
    )
    assert 10 < size / 1e6 < LIMIT_MB / 2


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [each for each in path.rglob("*") if each.is_file() and each.suffix != ".pyc"]


@pytest.fixture(scope="module")
def data_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the data layer as they are shipped, for this machine."""
    folder = tmp_path_factory.mktemp("data")
    for name in _locked("--only-group", DATA_GROUP):
        for file in metadata.files(name) or []:
            source = Path(str(file.locate()))
            if ".." in file.parts or file.suffix == ".pyc" or not source.is_file():
                continue
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            # Not linked: libraries look for each other beside where they really lie.
            shutil.copy(source, target)
    leave_out(folder, LEFT_OUT_OF_DATA)
    return folder


def test_rows_are_written_and_read_with_what_is_left_of_the_data_layer(
    base_layer: Path, data_layer: Path
) -> None:
    path = (base_layer, data_layer, ROOT / "shared", ROOT)
    done = subprocess.run(
        [sys.executable, "-S", "-c", ROWS],
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(str(data_layer))


def test_base_data_and_core_fit_together_into_a_function(
    base_layer: Path, data_layer: Path
) -> None:
    tops = [*base_layer.iterdir(), *data_layer.iterdir(), ROOT / "shared" / "trace_core"]
    size = sum(file.stat().st_size for top in tops for file in _files(top.resolve()))
    # Those for arm64 are smaller still: 224 MB.
    assert size / 1e6 < LIMIT_MB


ROWS = """
import io
import duckdb, pyarrow as pa, pyarrow.parquet as pq
import trace_core.storage.task_rows, trace_core.storage.postgres_output, trace_core.storage.reader
from trace_core.storage.objects import parquet_bytes
from trace_chain.block_follower import BlockFollower
table = pa.table({"number": [1, 2], "text": ["a", None]})
assert pq.read_table(io.BytesIO(parquet_bytes(table))) == table
assert duckdb.from_arrow(table).aggregate("sum(number)").fetchall() == [(3,)]
print(pa.__file__)
"""


@pytest.mark.parametrize("environment", CLOUD)
def test_packages_need_no_newer_c_library_than_the_runtime_has(environment: str) -> None:
    data = ENVIRONMENTS[environment]
    match = re.fullmatch(r"aarch64-manylinux_(\d+)_(\d+)", data.wheel_platform or "")
    assert match
    assert (int(match[1]), int(match[2])) <= C_LIBRARY[data.python]


def test_local_packages_are_those_of_this_machine() -> None:
    local = ENVIRONMENTS["local"]
    assert local.wheel_platform is None
    assert local.python == f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize("environment", EVERYWHERE)
def test_functions_have_the_layers_that_they_need(templates: Templates, environment: str) -> None:
    layers = {
        each.logical_id: each.properties["Description"]
        for each in templates.resources(environment, "AWS::Lambda::LayerVersion")
    }
    by_name = {each.name: each for each in FUNCTIONS}
    for name, function in templates.functions(environment).items():
        given = [layers[each["Ref"]] for each in function.properties["Layers"]]
        own = environment == "local" and "operators" in by_name[name].needs
        rows = "arrow" in by_name[name].needs
        assert given == [
            *("Locked dependencies", "trace_core"),
            *(["Rows: Arrow, Parquet, DuckDB"] if rows else []),
            *(["The project's own operators"] if own else []),
        ]


def test_the_base_layer_is_named_by_what_goes_into_it(templates: Templates) -> None:
    keys = {
        name: next(
            each.properties["Content"]["S3Key"]
            for each in templates.resources(name, "AWS::Lambda::LayerVersion")
            if each.properties["Description"] == "Locked dependencies"
        )
        for name in EVERYWHERE
    }
    assert keys["dev"] == keys["staging"] == keys["prod"] != keys["local"]
