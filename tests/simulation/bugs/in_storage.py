"""Bugs in requests to S3."""

# ruff: noqa: ARG001, ARG005 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from rescale.storage import scratch
from rescale.storage.contract import Pin
from rescale.storage.locations import split_s3
from rescale.storage.s3.pinned_objects import PinnedObjects
from rescale.storage.s3.s3_errors import translated_errors
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import RescaleError, StoreError
from simulation.bugs.planting import Bug, attribute_planter

_originals = {**vars(PinnedObjects), **vars(S3Store)}


def _put_blindly(self: S3Store, uri: str, data: bytes) -> bool:
    self.put(uri, data)
    return True


def _put_unless_seen(self: S3Store, uri: str, data: bytes) -> bool:
    """Check that the object is absent, and put it afterwards: another writer may put it in between."""
    if self.stat(uri) is None:
        self.put(uri, data)
        return True
    return bool(self.read_all(uri, len(data))[0] == data)


def _put_once(self: S3Store, uri: str, data: bytes) -> bool:
    return bool(self._put_conditionally(uri, data))


def _append(self: S3Store, uri: str, data: bytes) -> None:
    """Append to the object, as a wrong retry would."""
    existing_data = b"" if self.stat(uri) is None else self.read_all(uri, 1 << 30)[0]
    _originals["put"](self, uri, existing_data + data)


def _get_unpinned(self: PinnedObjects, uri: str, pin: Pin | None, *rest: Any, **named: Any) -> Any:
    return _originals["_get"](self, uri, None, *rest, **named)


def _read_half_body(
    self: PinnedObjects, uri: str, pin: Pin | None, start: int = 0, length: int | None = None, limit: int | None = None
) -> Any:
    """Treat a truncated body as complete."""
    answer = self._get(uri, pin, start, length)
    try:
        data = answer["Body"].read()
    except Exception:
        data = answer["Body"].data[: answer["ContentLength"] // 2]
    return data, Pin(answer["ContentLength"], etag=answer["ETag"])


def _absent_if_unsure(self: PinnedObjects, uri: str) -> Any:
    try:
        return _originals["head"](self, uri)
    except StoreError:
        return None


def _complete_whatever_the_answer(self: S3Store, uri: str, upload_id: str, receipts: Any, size: int) -> None:
    with suppress(RescaleError):
        _originals["complete_parts"](self, uri, upload_id, receipts, size)


def _complete_backwards(self: S3Store, uri: str, upload_id: str, receipts: Any, size: int) -> None:
    """Complete the upload with its parts in reverse order."""
    bucket, key = split_s3(uri)
    parts: Any = [{"PartNumber": n, "ETag": etag} for n, etag in reversed(list(enumerate(receipts, 1)))]
    self._client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts})


def _complete_without_the_last(self: S3Store, uri: str, upload_id: str, receipts: Any, size: int) -> None:
    _originals["complete_parts"](self, uri, upload_id, receipts[:-1] or receipts, size)


def _list_first_page(self: S3Store, directory: str, prefix: str = "") -> Any:
    return _originals["list"](self, directory, prefix)[:7]


def _delete_the_first(self: S3Store, uris: Any) -> None:
    _originals["delete"](self, list(uris)[:1])


def _delete_if_sure(self: S3Store, uri: str) -> None:
    """Treat the deletion of a missing file as an error."""
    if self.stat(uri) is None:
        raise StoreError("not there", path=uri)
    _originals["_delete"](self, uri)


def _remove_by_name(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _abort_one(self: S3Store, uri: str, is_ours: Callable[[str], bool] | None = None) -> None:
    """Abort one of several open uploads."""
    bucket, key = split_s3(uri)
    with translated_errors(uri):
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=key)
        for upload in [upload for page in pages for upload in page.get("Uploads", ())][:1]:
            self._client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def _head_with_final_errors(self: PinnedObjects, uri: str) -> Any:
    try:
        return _originals["head"](self, uri)
    except (StoreError, ClientError) as error:
        raise RescaleError(str(error)) from None


def _stat_without_etag(self: S3Store, uri: str) -> Pin | None:
    """Return the size of an object without its ETag."""
    head = self._objects.head(uri)
    return None if head is None else Pin(head["ContentLength"])


def _read_at_shifted_range(self: S3Store, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
    return (
        bytes(_originals["read"](self, uri, start + 1, length, pin))
        if start > 1
        else _originals["read"](self, uri, start, length, pin)
    )


BUGS = [
    Bug("put if absent: the condition is not sent", attribute_planter(S3Store, "put_if_absent", _put_blindly)),
    Bug("put if absent: looks first, then puts", attribute_planter(S3Store, "put_if_absent", _put_unless_seen)),
    Bug("put if absent: its own bytes count as foreign", attribute_planter(S3Store, "put_if_absent", _put_once)),
    Bug("a put over an object appends", attribute_planter(S3Store, "put", _append)),
    Bug("a read does not ask for the pinned version", attribute_planter(PinnedObjects, "_get", _get_unpinned)),
    Bug("a read begins one byte late", attribute_planter(S3Store, "read", _read_at_shifted_range)),
    Bug("a body that breaks off is taken as it is", attribute_planter(PinnedObjects, "read", _read_half_body)),
    Bug("an error of a HEAD is taken for absence", attribute_planter(PinnedObjects, "head", _absent_if_unsure)),
    Bug("an error of a HEAD is final", attribute_planter(PinnedObjects, "head", _head_with_final_errors)),
    Bug("a stat forgets the ETag", attribute_planter(S3Store, "stat", _stat_without_etag)),
    Bug("completion: errors are ignored", attribute_planter(S3Store, "complete_parts", _complete_whatever_the_answer)),
    Bug("completion: parts in another order", attribute_planter(S3Store, "complete_parts", _complete_backwards)),
    Bug(
        "completion: the last part is forgotten",
        attribute_planter(S3Store, "complete_parts", _complete_without_the_last),
    ),
    Bug("a listing ends with its first page", attribute_planter(S3Store, "list", _list_first_page)),
    Bug("delete: only the first name", attribute_planter(S3Store, "delete", _delete_the_first)),
    Bug("delete: a missing object is an error", attribute_planter(S3Store, "_delete", _delete_if_sure)),
    Bug("abort: nothing is aborted", attribute_planter(S3Store, "abort_parts", lambda self, uri, is_ours=None: None)),
    Bug("abort: one upload of several", attribute_planter(S3Store, "abort_parts", _abort_one)),
    Bug(
        "scratch: any directory with such a name is removed",
        attribute_planter(scratch, "remove_if_abandoned", _remove_by_name),
        native=True,
    ),
]
