"""What a function's code is made of: locked packages, the core, and its own folder. No Docker."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jsii
from aws_cdk import (
    AssetHashType,
    BundlingOptions,
    DockerImage,
    IgnoreMode,
    ILocalBundling,
    RemovalPolicy,
)
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from infra.emr_code import ENTRY_POINT, copy_code
from infra.environments import Architecture, Environment
from infra.node import ROOT, TOOLS

_NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc")
_NEVER_PULLED = DockerImage.from_registry("never-used")
"""CDK asks for an image, also where everything is built here."""
DATA_GROUP = "layer-data"
LEFT_OUT_OF_DATA = (
    # Lambda takes 250 MB of everything, and Arrow alone would be 150: without what is needed to
    # build against it, without servers, and without file systems of its own (objects come through
    # our store), it is 90. A library under its three names is kept under that which others ask for.
    *(
        "pyarrow/tests",
        "pyarrow/include",
        "pyarrow/includes",
        "pyarrow/src",
        "pyarrow/*.p[xy][dxi]",
    ),
    *("pyarrow/libarrow_flight.so*", "pyarrow/libarrow_python_flight.so*", "pyarrow/_flight.*"),
    *("pyarrow/libarrow_s3.so*", "pyarrow/_s3fs.*", "pyarrow/_gcsfs.*", "pyarrow/_azurefs.*"),
    *("pyarrow/_hdfs.*", "pyarrow/_pyarrow_cpp_tests.*", "pyarrow/libarrow_python*.so"),
    "pyarrow/libarrow_python*.so.*.*",
    # Of this one only Keccak is used.
    *("Crypto/SelfTest", "Crypto/PublicKey", "Crypto/Cipher", "Crypto/Math", "Crypto/Protocol"),
    *("Crypto/Signature", "Crypto/IO"),
)


class Layers(Construct):
    """The layers that all functions of an environment share."""

    def __init__(self, scope: Construct, name: str, *, environment: Environment) -> None:
        super().__init__(scope, name)
        self._environment = environment
        base = self._layer("Base", base_code(environment), "Locked dependencies")
        core = self._layer("Core", core_code(), "trace_core")
        self.of_every_function = [base, core]
        self.data = self._layer("Data", data_code(environment), "Rows: Arrow, Parquet, DuckDB")
        self.operators = None
        if environment.operator_package:
            code = package_code(environment.operator_package)
            self.operators = self._layer("Operators", code, "The project's own operators")

    def _layer(self, name: str, code: lambda_.Code, description: str) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            name,
            code=code,
            description=description,
            compatible_runtimes=[runtime(self._environment)],
            compatible_architectures=[architecture(self._environment)],
            removal_policy=RemovalPolicy.DESTROY,
        )


def runtime(environment: Environment) -> lambda_.Runtime:
    return lambda_.Runtime(f"python{environment.python}", lambda_.RuntimeFamily.PYTHON)


def architecture(environment: Environment) -> lambda_.Architecture:
    if environment.architecture is Architecture.ARM64:
        return lambda_.Architecture.ARM_64
    return lambda_.Architecture.X86_64


def function_code(name: str) -> lambda_.Code:
    """The folder of one function, under the import path that it has everywhere."""
    return lambda_.Code.from_asset(
        str(ROOT),
        ignore_mode=IgnoreMode.GIT,
        exclude=[
            *("/*", "!/functions"),
            *("/functions/*", "!/functions/__init__.py", f"!/functions/{name}"),
            *("__pycache__", "*.pyc"),
        ],
    )


def core_code() -> lambda_.Code:
    # With the operators that come with the platform: DAG files are checked against all of them.
    return package_code("shared/trace_core", "shared/trace_chain", "emr_jobs")


def package_code(*folders: str) -> lambda_.Code:
    packages = [ROOT / folder for folder in folders]
    return lambda_.Code.from_asset(
        str(packages[0]),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(image=_NEVER_PULLED, local=CopyPackages(packages)),
    )


def spark_code(scope: Construct, name: str, environment: Environment) -> s3_assets.Asset:
    """A folder; it becomes a zip when it is published, named by what is in it."""
    return s3_assets.Asset(
        scope,
        name,
        path=str(ENTRY_POINT.parent),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(
            image=_NEVER_PULLED, local=CopySparkCode(environment.operator_package)
        ),
    )


def spark_entry_point(scope: Construct, name: str) -> s3_assets.Asset:
    return s3_assets.Asset(scope, name, path=str(ENTRY_POINT))


def base_code(environment: Environment) -> lambda_.Code:
    return _locked_code("base", InstallLocked(environment.python, environment.wheel_platform))


def data_code(environment: Environment) -> lambda_.Code:
    install = InstallLocked(
        environment.python, environment.wheel_platform, DATA_GROUP, left_out=LEFT_OUT_OF_DATA
    )
    return _locked_code("data", install)


def _locked_code(layer: str, install: InstallLocked) -> lambda_.Code:
    """Named by what goes in: the lock has a hash for every file, so the same comes out."""
    return lambda_.Code.from_asset(
        str(ROOT / "layers" / layer),
        asset_hash_type=AssetHashType.CUSTOM,
        asset_hash=install.digest,
        bundling=BundlingOptions(image=_NEVER_PULLED, local=install),
    )


@jsii.implements(ILocalBundling)
class CopyPackages:
    def __init__(self, packages: Sequence[Path]) -> None:
        self._packages = packages

    def try_bundle(self, output_dir: str, *_arguments: object, **_options: object) -> bool:
        for package in self._packages:
            shutil.copytree(package, Path(output_dir, "python", package.name), ignore=_NOT_CODE)
        return True


@jsii.implements(ILocalBundling)
class CopySparkCode:
    """What Spark runs import, and the project's own operators."""

    def __init__(self, own: str | None) -> None:
        self._own = [ROOT / own] if own else []

    def try_bundle(self, output_dir: str, *_arguments: object, **_options: object) -> bool:
        copy_code(Path(output_dir), self._own)
        return True


@jsii.implements(ILocalBundling)
class InstallLocked:
    """Installs the locked dependencies for a platform; what was built before is copied."""

    def __init__(
        self,
        python: str,
        platform: str | None,
        group: str | None = None,
        *,
        left_out: Sequence[str] = (),
    ) -> None:
        self._requirements = locked_requirements(group)
        self._left_out = tuple(left_out)
        self._arguments = ["--python-version", python]
        if platform:
            self._arguments += ["--python-platform", platform, "--only-binary", ":all:"]
        self.digest = hashlib.sha256(
            "\n".join([*self._arguments, *self._left_out, self._requirements]).encode()
        ).hexdigest()

    def try_bundle(self, output_dir: str, *_arguments: object, **_options: object) -> bool:
        shutil.copytree(self._built(), Path(output_dir, "python"), dirs_exist_ok=True)
        return True

    def _built(self) -> Path:
        built = TOOLS / "layers" / self.digest
        if built.exists():
            return built
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            target = Path(folder, "python")
            command = [*_uv(), "pip", "install", "--quiet", "--target", str(target)]
            subprocess.run(  # noqa: S603  # our own lock
                [*command, *self._arguments, "--require-hashes", "-r", "-"],
                input=self._requirements,
                text=True,
                check=True,
                cwd=ROOT,
            )
            (target / ".lock").unlink(missing_ok=True)
            leave_out(target, self._left_out)
            target.rename(built)
        return built


def leave_out(folder: Path, patterns: Sequence[str]) -> None:
    for pattern in patterns:
        for each in folder.glob(pattern):
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()


@cache
def locked_requirements(group: str | None = None) -> str:
    """The base dependencies with their hashes, as the lock has them; or those of one group."""
    which = ["--no-default-groups"] if group is None else ["--only-group", group]
    command = [*_uv(), "export", "--frozen", "--quiet", "--no-emit-project", *which]
    done = subprocess.run(  # noqa: S603  # our own lock
        [*command, "--no-header", "--no-annotate"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout


def _uv() -> list[str]:
    """The uv that runs us, or else the one that the Makefile installed."""
    found = os.environ.get("UV") or shutil.which("uv")
    return [found or str(ROOT / ".uv" / "bin" / "uv")]
