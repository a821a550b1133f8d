"""LocalStack and the Python of its functions, installed from locks into environments of their own.

Neither shares a package with the project: LocalStack pins old versions of what we use, and a
function must find only what its code and layers bring.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trace_core.adapters.lite.atomic_files import exclusive_lock, replace_file
from trace_core.kernel.errors import Unavailable

VERSION = "4.9.2"
PYTHON = "3.11"

_HERE = Path(__file__).parent
_PROJECT = _HERE.parents[1]
_LOCKS = _HERE / "requirements"
_EXECUTOR = _HERE / "process_executor"
_WITHOUT_WHEEL = ("airspeed-ext", "crontab", "jsonpath-rw", "tailer")

Say = Callable[[str], None]


class Installation:
    """The two environments of one folder; `ensure` makes them once and again after a change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._marker = folder / "installed"

    @property
    def python(self) -> Path:
        """Runs LocalStack, with the process executor in it."""
        return self.folder / "localstack" / "bin" / "python"

    @property
    def function_python(self) -> Path:
        """Runs functions: AWS's runtime client and nothing else."""
        return self.folder / "function" / "bin" / "python"

    def ensure(self, say: Say) -> str:
        """Install what is missing or out of date; answers the fingerprint of what is there."""
        wanted = fingerprint()
        if self._found() != wanted:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with exclusive_lock(self.folder / "install.lock"):
                if self._found() != wanted:
                    self._install(wanted, say)
        return wanted

    def _found(self) -> str | None:
        try:
            found = self._marker.read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        # An interpreter that was upgraded or removed leaves a dangling link behind.
        return found if self.python.exists() and self.function_python.exists() else None

    def _install(self, wanted: str, say: Say) -> None:
        say(f"Installing LocalStack {VERSION} (once) …")
        started = time.monotonic()
        self._marker.unlink(missing_ok=True)
        uv = _uv()
        for python, lock in ((self.python, "build"), (self.function_python, "lambda")):
            environment = python.parents[1]
            _run(uv, "venv", "--clear", "--no-project", "--python", PYTHON, str(environment))
            _install_lock(uv, python, lock, "--only-binary=:all:")
        # What has no wheel is built with what the lock `build` brought, so nothing comes unhashed.
        built = [f"--no-binary={name}" for name in _WITHOUT_WHEEL]
        offline = "--no-build-isolation"
        _install_lock(uv, self.python, "localstack", offline, "--only-binary=:all:", *built)
        _install(uv, self.python, offline, "--no-deps", str(_EXECUTOR))
        replace_file(self._marker, wanted.encode("ascii"))
        seconds, size = time.monotonic() - started, sum(map(_size, _files(self.folder))) >> 20
        say(f"Installed in {seconds:.0f} s, {size} MB.")


def fingerprint() -> str:
    """Changes with the locks, the executor and how this module installs them."""
    digest = hashlib.sha256()
    sources = [*_LOCKS.glob("*.txt"), *_files(_EXECUTOR), Path(__file__)]
    for source in sorted(sources):
        if source.suffix in {".txt", ".py", ".toml"}:
            digest.update(f"{source.relative_to(_HERE)}\0".encode())
            digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()


def _uv() -> str:
    beside = _PROJECT / ".uv" / "bin" / "uv"
    # `uv run` names itself; `make` keeps one in the project where the machine has none.
    found = os.environ.get("UV") or shutil.which("uv") or (str(beside) if beside.exists() else None)
    if found is None:
        raise Unavailable("LocalStack is installed with uv: run `make localstack`, or install uv.")
    return found


def _install_lock(uv: str, python: Path, lock: str, *options: str) -> None:
    requirements = str(_LOCKS / f"{lock}.txt")
    _install(uv, python, "--require-hashes", *options, "--requirements", requirements)


def _install(uv: str, python: Path, *options: str) -> None:
    _run(uv, "pip", "install", "--python", str(python), *options)


def _run(*command: str) -> None:
    done = subprocess.run(  # noqa: S603
        command, check=False, capture_output=True, text=True, cwd=_PROJECT, errors="replace"
    )
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-20:])
        raise Unavailable(f"LocalStack cannot be installed: {' '.join(command[1:3])} said:\n{said}")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _size(path: Path) -> int:
    return path.stat().st_size
