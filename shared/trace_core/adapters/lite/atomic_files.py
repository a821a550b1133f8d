"""Files that many processes write: a lock between them, and writes that are whole or absent."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold the file's lock; the kernel returns it when the process dies.

    Each call opens the file anew, so it keeps threads of one process apart too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def create_file(path: Path, data: bytes, *, mode: int = 0o600) -> bool:
    """Write a file that is not there yet; False when another writer was first."""
    temporary = _write_temporary(path, data, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_folder(path.parent)
    return True


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put a new file in the place of the old one; a reader sees one or the other."""
    temporary = _write_temporary(path, data, mode)
    try:
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def _write_temporary(path: Path, data: bytes, mode: int) -> Path:
    # The name is no secret and no id of the platform, so it needs no injected randomness.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink()
        raise
    return temporary


def sync_folder(folder: Path) -> None:
    """A new name survives a power cut only once its folder is on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
