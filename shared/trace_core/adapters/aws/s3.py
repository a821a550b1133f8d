"""Objects on S3, in one bucket under an optional prefix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from trace_core.adapters.aws.calls import calling, error_code
from trace_core.kernel.errors import Conflict, Invalid, NotFound
from trace_core.ports.object_store import ObjectInfo, check_key, check_prefix

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_SERVICE = "The object store"
_PART = 16 * 1024 * 1024
_NOT_THERE = {"NoSuchKey", "404", "NotFound"}
_MOVED_ON = {"PreconditionFailed", "412", "ConditionalRequestConflict"}
_URL_MAX = timedelta(days=7)


class S3ObjectStore:
    """`ObjectStore` on one bucket; conditional writes make `create` and `replace` exact."""

    def __init__(self, client: S3Client, bucket: str, *, prefix: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._write(key, data, {"IfNoneMatch": "*"}, "An object with that key exists.")

    def replace(self, key: str, data: bytes, *, etag: str | None = None) -> ObjectInfo:
        condition = {} if etag is None else {"IfMatch": etag}
        return self._write(key, data, condition, "The object has another version.")

    def _write(self, key: str, data: bytes, condition: dict[str, str], conflict: str) -> ObjectInfo:
        check_key(key)
        with calling(_SERVICE):
            try:
                if len(data) > _PART:
                    etag = self._upload(key, data, condition)
                else:
                    request: dict[str, Any] = {**self._place(key), "Body": data, **condition}
                    etag = self._client.put_object(**request)["ETag"]
            except ClientError as error:
                # A condition on what is not there is as much of a conflict.
                if condition and error_code(error) in _MOVED_ON | _NOT_THERE:
                    raise Conflict(conflict, key=key) from error
                raise
        return ObjectInfo(key, len(data), etag.strip('"'))

    def _upload(self, key: str, data: bytes, condition: dict[str, str]) -> str:
        """In parts, which become an object all at once or not at all."""
        place = self._place(key)
        upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
        try:
            parts = []
            for number, start in enumerate(range(0, len(data), _PART), start=1):
                part: dict[str, Any] = {**upload, "PartNumber": number}
                answer = self._client.upload_part(**part, Body=data[start : start + _PART])
                parts.append({"ETag": answer["ETag"], "PartNumber": number})
            request: dict[str, Any] = {**upload, "MultipartUpload": {"Parts": parts}, **condition}
            return self._client.complete_multipart_upload(**request)["ETag"]
        except BaseException:
            self._client.abort_multipart_upload(**upload)
            raise

    def read(self, key: str) -> bytes:
        with _reading(key):
            return self._client.get_object(**self._place(key))["Body"].read()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """What the object has of the range; nothing when it begins past the end."""
        if start < 0 or length < 0:
            raise Invalid("A range does not begin or extend below zero.", key=key)
        if length == 0:
            self.head(key)
            return b""
        with _reading(key):
            try:
                answer = self._client.get_object(
                    **self._place(key), Range=f"bytes={start}-{start + length - 1}"
                )
            except ClientError as error:
                if error_code(error) in ("InvalidRange", "416"):
                    return b""
                raise
            return answer["Body"].read()

    def head(self, key: str) -> ObjectInfo:
        with _reading(key):
            answer = self._client.head_object(**self._place(key))
        return ObjectInfo(key, answer["ContentLength"], answer["ETag"].strip('"'))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix)

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        with calling(_SERVICE):
            for page in pages:
                for each in page.get("Contents", []):
                    key = each["Key"].removeprefix(self._prefix)
                    yield ObjectInfo(key, each["Size"], each["ETag"].strip('"'))

    def delete(self, key: str) -> None:
        check_key(key)
        with calling(_SERVICE):
            self._client.delete_object(**self._place(key))

    def read_url(self, key: str, valid_for: timedelta) -> str:
        """A pre-signed address. It ends early when the credentials that signed it do."""
        check_key(key)
        if not timedelta(0) < valid_for <= _URL_MAX:
            raise Invalid("An address is valid for up to seven days.", field="valid_for")
        return self._client.generate_presigned_url(
            "get_object", Params=self._place(key), ExpiresIn=int(valid_for.total_seconds())
        )

    def _place(self, key: str) -> Any:
        check_key(key)
        return {"Bucket": self._bucket, "Key": self._prefix + key}


@contextmanager
def _reading(key: str) -> Iterator[None]:
    """Around a read: an object that is not there is `NotFound`, whatever the service calls it."""
    with calling(_SERVICE):
        try:
            yield
        except ClientError as error:
            if error_code(error) in _NOT_THERE:
                raise NotFound(key=key) from error
            raise
