"""S3 and what speaks its protocol, through boto3 and the standard AWS variables.

Objects appear whole. Default checksums that older stores refuse are off; throttling and lost connections are
retried with back-off by boto3 itself, what outlives that is a `StoreError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from rescale.errors import RequestError, SnapshotError, StoreError, UnsupportedError
from rescale.storage.contract import Entry, Pin
from rescale.storage.locations import split_s3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_ATTEMPTS = 8
_CONNECTIONS = 32
_CONFLICT_ATTEMPTS = 5
_DELETE_AT_ONCE = 1000
_NOT_FOUND = ("404", "NoSuchKey", "NotFound")
_FAILED_CONDITION = ("412", "PreconditionFailed")
_CONFLICT = ("409", "ConditionalRequestConflict", "OperationAborted")
_NO_CONDITIONS = ("501", "NotImplemented", "InvalidArgument", "400")
_DENIED = ("401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")


class S3Store:
    """`Store` over S3."""

    def __init__(self) -> None:
        config = Config(
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=_CONNECTIONS,
            connect_timeout=10,
            read_timeout=60,
            request_checksum_calculation=_unless_set("AWS_REQUEST_CHECKSUM_CALCULATION"),
            response_checksum_validation=_unless_set("AWS_RESPONSE_CHECKSUM_VALIDATION"),
            s3={"addressing_style": "path"} if _custom_endpoint() else None,
        )
        self._client: S3Client = boto3.session.Session().client("s3", config=config)

    def stat(self, uri: str) -> Pin | None:
        head = self._head(uri)
        return None if head is None else Pin(head["ContentLength"], etag=head["ETag"])

    def modified(self, uri: str) -> datetime | None:
        head = self._head(uri)
        return None if head is None else head["LastModified"]

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        if not length:
            return b""
        answer = self._get(uri, pin, Range=f"bytes={start}-{start + length - 1}")
        return self._body(uri, answer, start, length)

    def read_all(self, uri: str, limit: int, pin: Pin | None = None) -> tuple[bytes, Pin]:
        answer = self._get(uri, pin)
        size = answer["ContentLength"]
        if size > limit:
            raise SnapshotError(
                "an object is larger than it can be", path=uri, expected=f"at most {limit} bytes", found=size
            )
        return self._body(uri, answer, 0, size), Pin(size, etag=answer["ETag"])

    def put(self, uri: str, data: bytes) -> None:
        bucket, key = split_s3(uri)
        with _translated(uri):
            self._client.put_object(Bucket=bucket, Key=key, Body=data)

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        if self._put_conditionally(uri, data):
            return True
        there = self.stat(uri)
        return there is not None and there.size == len(data) and self.read_all(uri, len(data))[0] == data

    def honours_conditions(self, uri: str, data: bytes) -> bool:
        return not self._put_conditionally(uri, data)

    def list(self, directory: str) -> list[Entry]:
        bucket, key = split_s3(directory)
        prefix = f"{key}/" if key else ""
        entries = []
        with _translated(directory):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                entries += [Entry(f"s3://{bucket}/{found['Key']}", found["Size"]) for found in page.get("Contents", ())]
        return sorted(entries, key=lambda entry: entry.uri)

    def delete(self, uris: Iterable[str]) -> None:
        by_bucket: dict[str, list[str]] = {}
        for uri in uris:
            bucket, key = split_s3(uri)
            by_bucket.setdefault(bucket, []).append(key)
        for bucket, keys in by_bucket.items():
            for i in range(0, len(keys), _DELETE_AT_ONCE):
                batch = keys[i : i + _DELETE_AT_ONCE]
                where = f"s3://{bucket}/{batch[0]}"
                with _translated(where):
                    answer = self._client.delete_objects(
                        Bucket=bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                    )
                for error in answer.get("Errors", ()):
                    raise StoreError(f"an object could not be deleted: {error.get('Message')}", path=where)

    def begin_parts(self, uri: str, staging: str) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)
        with _translated(uri):
            return self._client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]

    def put_part(self, uri: str, token: str, number: int, offset: int, data: bytes) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)
        with _translated(uri):
            answer = self._client.upload_part(Bucket=bucket, Key=key, UploadId=token, PartNumber=number, Body=data)
        return answer["ETag"]

    def complete_parts(self, uri: str, token: str, receipts: Sequence[str], size: int) -> None:
        bucket, key = split_s3(uri)
        parts: Any = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(receipts, 1)]
        try:
            with _translated(uri):
                self._client.complete_multipart_upload(
                    Bucket=bucket, Key=key, UploadId=token, MultipartUpload={"Parts": parts}
                )
        except StoreError:
            there = self.stat(uri)  # a lost answer: the upload is gone because it became the object
            if there is None or there.size != size:
                raise

    def abort_parts(self, directory: str) -> None:
        bucket, key = split_s3(directory)
        with _translated(directory):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=f"{key}/")
            for upload in [upload for page in pages for upload in page.get("Uploads", ())]:
                self._client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])

    def _head(self, uri: str) -> Any:
        bucket, key = split_s3(uri)
        try:
            with _translated(uri):
                return self._client.head_object(Bucket=bucket, Key=key)
        except _Absent:
            return None

    def _get(self, uri: str, pin: Pin | None, **wanted: str) -> Any:
        """A GetObject of the pinned version. Some stores know an ETag only without its quotes."""
        bucket, key = split_s3(uri)
        etags = [pin.etag, pin.etag.strip('"')] if pin and pin.etag else [None]
        for etag in etags:
            condition = {"IfMatch": etag} if etag else {}
            try:
                with _translated(uri):
                    return self._client.get_object(Bucket=bucket, Key=key, **wanted, **condition)
            except _ConditionFailed:
                continue
            except _Absent:
                raise SnapshotError(
                    "an object is gone", path=uri, advice="see that nothing removes it, and start again"
                ) from None
        raise SnapshotError(
            "an object has changed since it was first looked at",
            path=uri,
            expected=pin,
            found=self.stat(uri),
            advice="see that nothing writes to the snapshot, and plan again",
        )

    def _body(self, uri: str, answer: Any, start: int, length: int) -> bytes:
        with _translated(uri):
            data: bytes = answer["Body"].read()
        if len(data) != length:
            raise SnapshotError(
                "an object ends too early",
                path=uri,
                offset=start,
                expected=f"{length} bytes",
                found=f"{len(data)} bytes",
            )
        return data

    def _put_conditionally(self, uri: str, data: bytes) -> bool:
        """Whether the store took it; False if something is there already."""
        bucket, key = split_s3(uri)
        for _ in range(_CONFLICT_ATTEMPTS):
            try:
                with _translated(uri):
                    self._client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
                return True
            except _ConditionFailed:
                return False
            except _Conflict:
                continue  # another writer was at it in this moment: the next answer tells who won
            except _NoConditions as error:
                raise UnsupportedError(
                    f"the store does not know the condition of a put-if-absent: {error.what}",
                    path=uri,
                    advice="use a store that honours If-None-Match, or see to it yourself that no other run has this "
                    "target and say --accept-unconditional-publish",
                ) from None
        raise StoreError("the store sees conflicting writes again and again", path=uri)


class _Absent(Exception):  # noqa: N818
    """No such object."""


class _ConditionFailed(Exception):  # noqa: N818
    """The condition of a request did not hold."""


class _Conflict(Exception):  # noqa: N818
    """Another conditional request was under way."""


class _NoConditions(StoreError):
    """The store refuses the request as such, which is how some refuse conditions."""


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """boto3's errors as ours."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise RequestError(
            f"no credentials for S3: {error}", path=uri, advice="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from None
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        message = str(error.response.get("Error", {}).get("Message", "")) or str(error)
        status = str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        if code in _FAILED_CONDITION:
            raise _ConditionFailed from None
        if code == "NoSuchBucket":
            raise RequestError("there is no such bucket", path=uri, advice="create it, or name another") from None
        if code in _NOT_FOUND:
            raise _Absent from None
        if code in _DENIED or status in ("401", "403"):
            raise RequestError(
                f"S3 denies access: {message}",
                path=uri,
                advice="check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the bucket's policy",
            ) from None
        if code in _CONFLICT or status == "409":
            raise _Conflict from None
        kind = _NoConditions if code in _NO_CONDITIONS or status in ("400", "501") else StoreError
        raise kind(f"S3 says: {message}", path=uri, found=code or status) from None
    except (BotoCoreError, OSError) as error:
        raise StoreError(f"S3 cannot be reached: {error}", path=uri) from None


def _custom_endpoint() -> bool:
    return bool(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))


def _unless_set(variable: str) -> Any:
    """boto3's own reading of the variable where the user set it; else only where a request needs it."""
    return os.environ.get(variable, "when_required").lower()
