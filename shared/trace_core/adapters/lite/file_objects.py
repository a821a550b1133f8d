"""Objects in a folder, under the same keys as on S3."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from trace_core.adapters.lite.atomic_files import exclusive_lock
from trace_core.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from trace_core.ports.object_store import (
    OWN_FOLDER,
    ObjectInfo,
    check_key,
    check_prefix,
    is_text,
)

_LOCKS = 64
_CREATE_TRIES = 100
_SETTLED_SECONDS = 2.0
_REMEMBERED_MAX = 100_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that somebody put in an object's place must not block its reader.
_OBJECT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_SUCH_OBJECT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)


class FileObjectStore:
    """`ObjectStore` on a file system, for any number of processes at once.

    Paths are walked folder by folder without following links, so that operator code that may
    write under one prefix cannot lead the platform elsewhere.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.expanduser().resolve()
        self._new = self._root / OWN_FOLDER / "new"
        self._locks = self._root / OWN_FOLDER / "locks"
        self._new.mkdir(parents=True, exist_ok=True)
        self._etags: dict[tuple[int, int, int], str] = {}
        self._remove_abandoned()

    def create(self, key: str, data: bytes) -> ObjectInfo:
        check_key(key)
        with _writing(key), self._temporary(data) as temporary:
            for _ in range(_CREATE_TRIES):
                try:
                    with self._folder_of(key, make=True) as (folder, name):
                        os.link(temporary, name, dst_dir_fd=folder, follow_symlinks=False)
                        os.fsync(folder)
                except FileExistsError:
                    if self._root.joinpath(key).is_dir():
                        reason = "Other objects have keys below this one."
                        raise Invalid(reason, key=key) from None
                    raise Conflict("An object with that key exists.", key=key) from None
                except FileNotFoundError:
                    continue  # a delete tidied the empty folder away before the object was in it
                return ObjectInfo(key, len(data), _hash(data))
        raise Unavailable("The object could not be written.", key=key)

    def replace(self, key: str, data: bytes, *, etag: str | None = None) -> ObjectInfo:
        check_key(key)
        with _writing(key), self._temporary(data) as temporary, self._lock(key):
            if etag is not None and self._current_etag(key) != etag:
                raise Conflict("The object has another version.", key=key)
            for _ in range(_CREATE_TRIES):
                try:
                    with self._folder_of(key, make=True) as (folder, name):
                        os.replace(temporary, name, dst_dir_fd=folder)
                        os.fsync(folder)
                except FileNotFoundError:
                    continue
                return ObjectInfo(key, len(data), _hash(data))
        raise Unavailable("The object could not be written.", key=key)

    def read(self, key: str) -> bytes:
        with self._open(key) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """What the object has of the range; nothing when it begins past the end."""
        if start < 0 or length < 0:
            raise Invalid("A range does not begin or extend below zero.", key=key)
        with self._open(key) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            file.seek(start)
            return file.read(length)

    def head(self, key: str) -> ObjectInfo:
        with self._open(key) as descriptor:
            return ObjectInfo(key, os.fstat(descriptor).st_size, self._etag(descriptor))

    def delete(self, key: str) -> None:
        check_key(key)
        with suppress(NotFound), _reading(key), self._lock(key):
            with self._folder_of(key) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
            self._remove_empty_folders(key)

    def read_url(self, key: str, valid_for: timedelta) -> str:
        """A file address, which does not expire."""
        check_key(key)
        return self._root.joinpath(key).as_uri()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix)

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        with ExitStack() as stack:
            try:
                folder, start = stack.enter_context(self._folder_of(prefix))
            except OSError as error:
                if error.errno in _NO_SUCH_OBJECT:
                    return
                raise Unavailable("The objects cannot be listed.") from error
            yield from self._walk(folder, prefix[: len(prefix) - len(start)], start)

    def _walk(self, folder: int, above: str, start: str) -> Iterator[ObjectInfo]:
        # S3 orders whole keys by their bytes. A folder stands for keys that go on with a slash,
        # which comes after "-" and "." and before all letters.
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.is_symlink()
            ]
        for name, is_folder in sorted(found, key=lambda item: _order(*item)):
            key = above + name
            if not name.startswith(start) or key == OWN_FOLDER or not is_text(name):
                continue
            # What was deleted since the folder was read is left out.
            with suppress(NotFound), _reading(key):
                if is_folder:
                    with _opened(name, _FOLDER, folder) as inner:
                        yield from self._walk(inner, f"{key}/", "")
                else:
                    with _opened(name, _OBJECT, folder) as descriptor:
                        status = os.fstat(descriptor)
                        if stat.S_ISREG(status.st_mode):
                            yield ObjectInfo(key, status.st_size, self._etag(descriptor))

    @contextmanager
    def _open(self, key: str) -> Iterator[int]:
        check_key(key)
        with (
            _reading(key),
            self._folder_of(key) as (folder, name),
            _opened(name, _OBJECT, folder) as descriptor,
        ):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotFound(key=key)
            yield descriptor

    @contextmanager
    def _folder_of(self, key: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *folders, name = key.split("/")
        current = os.open(self._root, _FOLDER)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=current)
                        os.fsync(current)
                inner = os.open(folder, _FOLDER, dir_fd=current)
                os.close(current)
                current = inner
            yield current, name
        finally:
            os.close(current)

    @contextmanager
    def _temporary(self, data: bytes) -> Iterator[Path]:
        self._new.mkdir(parents=True, exist_ok=True)
        self._locks.mkdir(parents=True, exist_ok=True)
        path = self._new / secrets.token_hex(16)
        try:
            with path.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield path
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        number = hashlib.sha256(key.encode()).digest()[0] % _LOCKS
        with exclusive_lock(self._locks / f"{number:02}"):
            yield

    def _current_etag(self, key: str) -> str | None:
        try:
            with self._open(key) as descriptor:
                return _hash_file(descriptor)
        except NotFound:
            return None

    def _etag(self, descriptor: int) -> str:
        status = os.fstat(descriptor)
        version = (status.st_ino, status.st_size, status.st_mtime_ns)
        etag = self._etags.get(version)
        if etag is None:
            etag = _hash_file(descriptor)
            # A file's time is coarse: a fresh one may yet be replaced without a sign of it.
            if time.time() - status.st_mtime > _SETTLED_SECONDS:
                if len(self._etags) >= _REMEMBERED_MAX:
                    self._etags.clear()
                self._etags[version] = etag
        return etag

    def _remove_empty_folders(self, key: str) -> None:
        # On S3 there are no folders: `a` can be created once `a/b` is gone.
        above = key.rpartition("/")[0]
        while above:
            try:
                with self._folder_of(above) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return
            above = above.rpartition("/")[0]

    def _remove_abandoned(self) -> None:
        """Remove what killed writers left half written, a day ago or more."""
        for path in self._new.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > 86_400:
                    path.unlink()


@contextmanager
def _opened(name: str, flags: int, folder: int) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _reading(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SUCH_OBJECT:
            raise NotFound(key=key) from error
        raise Unavailable("The object cannot be read.", key=key) from error


@contextmanager
def _writing(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SUCH_OBJECT:
            reason = "The key lies above or below another object, or has a part that is too long."
            raise Invalid(reason, key=key) from error
        raise Unavailable("The object cannot be written.", key=key) from error


def _order(name: str, is_folder: bool) -> bytes:
    return os.fsencode(name) + (b"/" if is_folder else b"")


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash_file(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()
