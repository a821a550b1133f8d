"""Arrays as parameters, dumped fast: the hot path sends a dozen arrays of 100 values in each call.

The driver's own dumpers look at every element; these know that an array holds ids or integers.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.types.array import ListBinaryDumper, ListDumper

_UUID_OID = 2950
_HEADER = struct.Struct("!iiiii")
_UUID_LENGTH = b"\x00\x00\x00\x10"


class _BinaryArray(ListBinaryDumper):
    """UUID arrays in the binary format; anything else as the driver does it."""

    def dump(self, obj: list[Any]) -> Any:
        if obj and all(type(each) is UUID for each in obj):
            head = _HEADER.pack(1, 0, _UUID_OID, len(obj), 1)
            return head + b"".join([_UUID_LENGTH + each.bytes for each in obj])
        return super().dump(obj)


class _TextArray(ListDumper):
    """Integer arrays as text; anything else as the driver does it."""

    def dump(self, obj: list[Any]) -> Any:
        if obj and all(type(each) is int for each in obj):
            return ("{" + ",".join(map(str, obj)) + "}").encode()
        return super().dump(obj)


def register(connection: Connection[Any]) -> None:
    connection.adapters.register_dumper(list, _BinaryArray)
    connection.adapters.register_dumper(list, _TextArray)
