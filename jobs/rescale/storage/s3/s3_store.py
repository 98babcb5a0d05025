"""S3 as a `Store`, through boto3 and the standard AWS variables.

Objects appear whole. Default checksums are off, because older stores refuse them. Objects are deleted one by one,
because DeleteObjects needs a checksum that not every store knows. boto3 repeats a request whose answer was lost. So a
conditional put that finds its own bytes counts as successful, and so does the completion of an upload that has already
become the object.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from rescale.storage.checksums import ETAG, Checksum
from rescale.storage.contract import Entry, PartLimits, Pin, Span, holds_bytes
from rescale.storage.locations import contains, parent, split_s3
from rescale.storage.s3.listings import (
    LEAST_OBJECTS_TO_LIST,
    is_directory_bucket,
    list_folders,
    list_objects,
    list_pins,
    listable_prefix,
)
from rescale.storage.s3.object_puts import ObjectPuts
from rescale.storage.s3.object_reads import ObjectReads
from rescale.storage.s3.pinned_objects import PinnedObjects
from rescale.storage.s3.request_size import request_size
from rescale.storage.s3.s3_checksums import stored_checksums
from rescale.storage.s3.s3_client import client_for
from rescale.storage.s3.s3_errors import (
    is_absent,
    is_locked,
    lock_of,
    one_line_message,
    refuses_conditions,
    status_of,
    translated_errors,
)
from rescale.storage.s3.server_copies import ServerCopies
from rescale.storage.side_by_side import side_by_side
from rescale.storage.sides import StoreSide
from rescale.text.advice import Advice, mention
from rescale.text.errors import LockedError, RescaleError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CONFLICT_ATTEMPTS = 6
_SHORTEST_PAUSE_SECONDS = 0.05


class S3Store:
    """`Store` for S3 objects of a side. `client` replaces the client that the AWS variables of the side configure."""

    part_limits = PartLimits(smallest_part_bytes=5 * 1024 * 1024, most_parts=10_000)

    def __init__(self, client: S3Client | None = None, side: StoreSide = StoreSide.TARGET) -> None:
        self._client = client or client_for(side)
        get_object = self._client.get_object if client else ObjectReads(self._client).get_object
        self._objects = PinnedObjects(self._client, get_object)
        self._puts = ObjectPuts(self._client)
        self._copies = ServerCopies(self._client, self._objects)

    def stat(self, uri: str) -> Pin | None:
        return self._objects.pin(uri)

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        listed_pin_by_uri: dict[str, Pin] = {}
        wanted_uris = set(uris)
        for directory, object_count in Counter(map(parent, uris)).items():
            if object_count >= LEAST_OBJECTS_TO_LIST:
                listed_pin_by_uri |= list_pins(self._client, directory, wanted_uris)
        return side_by_side(lambda uri: listed_pin_by_uri.get(uri) or self.stat(uri), uris)

    def modification_time(self, uri: str) -> datetime | None:
        head = self._objects.head(uri)
        return None if head is None else head["LastModified"]

    def checksums(self, uri: str, pin: Pin) -> list[Checksum]:
        head = self._objects.head(uri, ChecksumMode="ENABLED")
        if head is None or not pin.matches(Pin(head["ContentLength"], etag=head["ETag"])):
            return []
        checksums = stored_checksums(head)
        # A directory bucket has ETags that only look like MD5.
        return [c for c in checksums if c.algorithm != ETAG] if is_directory_bucket(split_s3(uri)[0]) else checksums

    def chunk_size(self, length: int, bytes_at_once: int | None = None) -> int:
        return request_size(length, bytes_at_once)

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        if not length:
            return b""
        data, _ = self._objects.read(uri, pin, start, length)
        return data

    def read_all(self, uri: str, limit_bytes: int) -> tuple[bytes, Pin]:
        return self._objects.read(uri, None, limit_bytes=limit_bytes)

    def put(self, uri: str, data: bytes | bytearray) -> None:
        bucket, key = split_s3(uri)
        with self._with_lock_details(uri), translated_errors(uri):
            try:
                self._puts.put_object(bucket, key, data)
            except ClientError as error:
                if not (is_locked(error) and holds_bytes(self, uri, data)):
                    raise

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        return self._put_conditionally(uri, data) or holds_bytes(self, uri, data)

    def honours_conditions(self, uri: str, data: bytes) -> bool:
        return not self._put_conditionally(uri, data)

    def list(self, directory: str, prefix: str = "") -> list[Entry]:
        return list_objects(self._client, directory, prefix)

    def folder_names(self, directory: str) -> Sequence[str]:
        return list_folders(self._client, directory)

    def delete(self, uris: Iterable[str]) -> None:
        errors_of_locked = [error for error in side_by_side(self._delete, uris) if error is not None]
        for first_error in errors_of_locked[:1]:
            with self._with_lock_details(first_error.path or ""):
                first_error.found = f"{first_error.found} ({len(errors_of_locked)} such objects)"
                raise first_error

    def begin_parts(self, uri: str, staging: str) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)
        with translated_errors(uri):
            return self._client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]

    def put_part(self, uri: str, upload_id: str, number: int, offset: int, data: bytes | bytearray) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)
        with translated_errors(uri):
            return self._puts.upload_part(bucket, key, data, UploadId=upload_id, PartNumber=number)

    def copy(self, uri: str, source: Span) -> None:
        self._copies.copy(uri, source)

    def keep(self, uri: str, source: Span) -> None:
        self._copies.copy(uri, source)

    def copy_part(self, uri: str, upload_id: str, number: int, offset: int, source: Span) -> str:  # noqa: ARG002
        return self._copies.copy_part(uri, upload_id, number, source)

    def complete_parts(self, uri: str, upload_id: str, receipts: Sequence[str], size: int) -> None:
        bucket, key = split_s3(uri)
        parts: Any = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(receipts, 1)]
        try:
            with translated_errors(uri):
                self._client.complete_multipart_upload(
                    Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
                )
        except (StoreError, LockedError):
            # If an answer was lost, the upload may no longer exist because it has become the object.
            current_pin = self.stat(uri)
            if current_pin is None or current_pin.size != size:
                raise

    def abort_parts(self, uri: str, is_ours: Callable[[str], bool] | None = None) -> None:
        bucket, key = split_s3(uri)
        with translated_errors(uri):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=bucket, Prefix=listable_prefix(bucket, key)
            )
            uploads = [upload for page in pages for upload in page.get("Uploads", ())]
            for upload in uploads:
                upload_uri = f"s3://{bucket}/{upload['Key']}"
                if not contains(uri, upload_uri) or (is_ours is not None and not is_ours(upload_uri)):
                    continue  # the upload is not below `uri`, or belongs to another run
                try:
                    self._client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
                except ClientError as error:
                    if not is_absent(error):  # an absent upload has ended since it was listed
                        raise

    def _delete(self, uri: str) -> LockedError | None:
        """Delete an object; return the error if it is locked."""
        bucket, key = split_s3(uri)
        try:
            with translated_errors(uri):
                try:
                    self._client.delete_object(Bucket=bucket, Key=key)
                except ClientError as error:
                    if not is_absent(error):
                        raise
        except LockedError as error:
            return error
        return None

    @contextmanager
    def _with_lock_details(self, uri: str) -> Iterator[None]:
        """Add the end of the object's lock to a `LockedError` of the block, if the credentials allow a HEAD."""
        try:
            yield
        except LockedError as error:
            head = None
            with suppress(RescaleError):
                head = self._objects.head(uri)
            if head is not None and (lock := lock_of(head)) is not None:
                error.found = f"{error.found}, {lock}"
            raise

    def _put_conditionally(self, uri: str, data: bytes) -> bool:
        """Put an object if there is none. Return whether the store put it; False if there is an object already."""
        bucket, key = split_s3(uri)
        for attempt in range(_CONFLICT_ATTEMPTS):
            with translated_errors(uri):
                try:
                    self._puts.put_object(bucket, key, data, IfNoneMatch="*")
                    return True
                except ClientError as error:
                    if status_of(error) == 412 or is_locked(error):
                        return False
                    if refuses_conditions(error):
                        raise _no_conditions_error(uri, error) from None
                    if status_of(error) != 409:
                        raise
            # 409: another put is in progress. The next answer says whether that put has succeeded.
            time.sleep(_SHORTEST_PAUSE_SECONDS * 2**attempt)
        raise StoreError("the store reports conflicting writes again and again", path=uri)


def _no_conditions_error(uri: str, error: ClientError) -> UnsupportedError:
    return UnsupportedError(
        f"the store does not support put-if-absent (If-None-Match): {one_line_message(error)}",
        path=uri,
        advice=Advice(
            "use a store that honours If-None-Match; or make sure yourself that no other run has this target, and "
            "give ",
            mention("accept-unconditional-publish"),
        ),
    )
