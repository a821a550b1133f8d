"""Objects under keys, on S3 or in a folder with the same key layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


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
