"""Files through Spark's own file systems: `file://` on one machine, `s3://` on EMR Serverless.

A URI here is a scheme and the key as it is, without percent signs for special characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from emr_jobs.task import OperatorFailed

_GLOB = re.compile(r"([\[\]{}*?\\])")
_SCHEMES = ("file://", "s3://", "s3a://")


class Files:
    def __init__(self, spark: SparkSession) -> None:
        # Spark's API has no files; what follows is Hadoop's, which is stable.
        self._jvm: Any = spark.sparkContext._jvm
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def list(self, folder: str) -> list[str]:
        """The files below a folder, as paths relative to it, in the order of their names."""
        path = self._path(folder)
        root = path.getFileSystem(self._conf)
        base = root.makeQualified(path).toUri().getPath().rstrip("/") + "/"
        found: list[str] = []
        pending = root.listFiles(path, True)
        while pending.hasNext():
            found.append(pending.next().getPath().toUri().getPath().removeprefix(base))
        return sorted(found)

    def read_json(self, uri: str) -> dict[str, Any]:
        path = self._path(uri)
        stream = path.getFileSystem(self._conf).open(path)
        try:
            data = self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        found = json.loads(bytes(data))
        if not isinstance(found, dict):
            raise ValueError(f"{uri} is no JSON object")
        return found

    def write_json(self, uri: str, fields: Mapping[str, Any]) -> None:
        """All of it or nothing: an object store shows an object only when it is whole."""
        path = self._path(uri)
        root = path.getFileSystem(self._conf)
        if not uri.startswith("file://"):
            self._put(root, path, fields)
            return
        # Hadoop renames a file only to where none is; an earlier result is of a run that is over.
        unfinished = self._path(f"{uri}.unfinished")
        self._put(root, unfinished, fields)
        root.delete(path, False)
        if not root.rename(unfinished, path):
            raise OSError(f"{uri} cannot be written")

    def write_bytes(self, uri: str, data: bytes) -> None:
        """In the place of what may be there."""
        path = self._path(uri)
        self._put_bytes(path.getFileSystem(self._conf), path, data)

    def _put(self, root: Any, path: Any, fields: Mapping[str, Any]) -> None:
        self._put_bytes(root, path, json.dumps(fields, ensure_ascii=False).encode())

    def _put_bytes(self, root: Any, path: Any, data: bytes) -> None:
        stream = root.create(path, True)
        try:
            stream.write(data)
        finally:
            stream.close()

    def spelled(self, uri: str) -> str:
        """As `_metadata.file_path` spells it."""
        found = self._path(uri).toUri()
        authority = found.getRawAuthority()
        return f"{found.getScheme()}:{f'//{authority}' if authority else ''}{found.getRawPath()}"

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


def literally(uri: str) -> str:
    """For readers that take a path for a pattern."""
    return _GLOB.sub(r"\\\1", uri)


def check_place(uri: str, what: str) -> None:
    """Refuse an address that may mean another place than it says."""
    scheme = next((each for each in _SCHEMES if uri.startswith(each)), None)
    if scheme is None:
        raise OperatorFailed(f"{what} lies at no file:// or s3:// address", code="PayloadInvalid")
    segments = uri.removeprefix(scheme).removeprefix("/").removesuffix("/").split("/")
    if any(each in ("", ".", "..") for each in segments) or "\\" in uri or "\0" in uri:
        raise OperatorFailed(f"the address of {what} leaves its folder", code="PayloadInvalid")


def check_folder(uri: str, what: str) -> None:
    check_place(uri, what)
    if not uri.endswith("/"):
        raise OperatorFailed(f"{what} is no folder: it ends without `/`", code="PayloadInvalid")
