"""The home folder of the lite profile: what one machine keeps between runs, closed to others.

Functions in the cloud import this too. What only the extra `lite` installs is imported where it is
used.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trace_core.adapters.lite.atomic_files import create_file, exclusive_lock, replace_file
from trace_core.kernel.errors import Unavailable

_STATE = "trace_state"
_DATA = "trace_data"


class Home:
    """The folder and the names inside it; nothing is made before it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().resolve()

    @property
    def objects(self) -> Path:
        return self._made("objects")

    @property
    def spark(self) -> Path:
        """Of the Spark runner: which runs there are, and its log."""
        return self._made("spark")

    @property
    def keys(self) -> Path:
        return self._made("keys")

    @property
    def secrets(self) -> Path:
        return self._made("secrets")

    @property
    def scratch(self) -> Path:
        return self._made("scratch")

    @property
    def log_file(self) -> Path:
        return self._made("log") / "trace.log"

    def token(self, name: str, new: Callable[[], str]) -> str:
        """The token in `<name>.token`, made at the first call; only its owner may read it."""
        path = self._made("tokens") / f"{name}.token"
        create_file(path, new().encode())
        return path.read_text(encoding="ascii").strip()

    def known_token(self, name: str) -> str | None:
        try:
            return (self.folder / "tokens" / f"{name}.token").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None

    def _made(self, name: str) -> Path:
        path = self.folder / name
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Unavailable(f"{path} cannot be made: {error.strerror}.") from error
        return path

    def postgres(self) -> SharedPostgres:
        return SharedPostgres(self._made("postgres"))

    def running(self) -> dict[str, Any] | None:
        """What the `trace dev` of this folder wrote down, if it still runs."""
        import psutil  # type: ignore[import-untyped]

        try:
            found = json.loads((self.folder / "dev.json").read_text(encoding="utf-8"))
            process = psutil.Process(int(found["pid"]))
            # The number may belong to another process by now.
            same = abs(process.create_time() - float(found["process_started"])) < 1
        except (OSError, ValueError, KeyError, TypeError, psutil.Error):
            return None
        return found if same else None

    def write_running(self, content: dict[str, Any]) -> None:
        import psutil

        started = psutil.Process().create_time()
        fields = {"pid": os.getpid(), "process_started": started, **content}
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / "dev.json", json.dumps(fields, indent=2).encode())

    def remove_running(self) -> None:
        with suppress(FileNotFoundError):
            (self.folder / "dev.json").unlink()


class SharedPostgres:
    """The folder's own server, from the first process that needs it to the last.

    Each user holds a shared lock, which the kernel drops when it dies: whoever lets go and finds
    itself alone stops the server.
    """

    def __init__(self, folder: Path) -> None:
        from trace_core.adapters.lite.embedded_postgres import EmbeddedPostgres

        self._folder = folder
        self._embedded = EmbeddedPostgres(folder)
        self._users: int | None = None

    def acquire(self) -> str:
        """Make sure that the server runs; answers the address of the state database."""
        return self._database(_STATE)

    def acquire_data(self) -> str:
        """The same for the data database."""
        return self._database(_DATA)

    def _database(self, name: str) -> str:
        if self._users is None:
            with exclusive_lock(self._folder / "gate.lock"):
                self._embedded.start()
                users = os.open(self._folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
                fcntl.flock(users, fcntl.LOCK_SH)
                self._users = users
        return self._embedded.database(name)

    def release(self) -> None:
        if self._users is None:
            return
        with exclusive_lock(self._folder / "gate.lock"):
            try:
                with suppress(BlockingIOError):
                    fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._embedded.stop()
            finally:
                os.close(self._users)
                self._users = None
