"""Objects under keys, on S3 or in a folder with the same key layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from trace_core.kernel.errors import Invalid

OWN_FOLDER = ".trace"
"""What a store on files keeps for itself; no key begins with it."""
_KEY_BYTES_MAX = 1024


@dataclass(frozen=True)
class ObjectInfo:
    key: str
    size: int
    etag: str


class ObjectStore(Protocol):
    """Immutable by habit: writers use `create`, which refuses a key that exists."""

    def create(self, key: str, data: bytes) -> ObjectInfo:
        """Write a new object; raises `Conflict` when the key exists."""
        ...

    def replace(self, key: str, data: bytes, *, etag: str | None = None) -> ObjectInfo:
        """Write in any case, or only over the version with that etag (else `Conflict`)."""
        ...

    def read(self, key: str) -> bytes:
        """Raises `NotFound`."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes: ...

    def head(self, key: str) -> ObjectInfo:
        """Raises `NotFound`."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object under the prefix, in key order."""
        ...

    def delete(self, key: str) -> None:
        """Deleting what is not there is no error."""
        ...

    def read_url(self, key: str, valid_for: timedelta) -> str:
        """An address from which the object can be read without further credentials."""
        ...


def check_key(key: str) -> None:
    check_prefix(key)
    if "" in key.split("/"):
        raise Invalid("An object's key has no empty part.", key=key)


def check_prefix(prefix: str) -> None:
    parts = prefix.split("/")
    if (
        not is_text(prefix)
        or len(prefix.encode()) > _KEY_BYTES_MAX
        or "\0" in prefix
        or "" in parts[:-1]
        or "." in parts
        or ".." in parts
        or parts[0] == OWN_FOLDER
    ):
        raise Invalid("That is no key of an object.", key=repr(prefix[:200]))


def is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
