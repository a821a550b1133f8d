"""What is shipped: enough to import every handler, for the platform that runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from infra.environments import ENVIRONMENTS
from infra.functions import FUNCTIONS
from tests.infra.templates import CLOUD, EVERYWHERE, Templates

ROOT = Path(__file__).parents[2]
C_LIBRARY = {"3.11": (2, 26), "3.12": (2, 34)}
"""Of the Lambda runtimes: Amazon Linux 2 up to Python 3.11, Amazon Linux 2023 after it."""
LIMIT_MB = 250


def _locked() -> list[str]:
    command = [os.environ.get("UV", "uv"), "export", "--frozen", "--quiet", "--no-emit-project"]
    done = subprocess.run(
        [*command, "--no-default-groups", "--no-hashes", "--no-header", "--no-annotate"],
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
        wanted = ["Locked dependencies", "trace_core"]
        assert given == [*wanted, *(["The project's own operators"] if own else [])]


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
