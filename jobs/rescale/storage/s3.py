"""S3 and what speaks its protocol, through boto3 and the standard AWS variables.

Objects appear whole. Default checksums that older stores refuse are off, and objects are deleted one by one, because
a request that deletes many needs a checksum that not every store knows. A lost answer makes boto3 repeat a request:
so a put that found its own bytes there has succeeded, and so has the completion of an upload that is gone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from rescale.errors import LockedError, RescaleError, SnapshotError, StoreError, UnsupportedError
from rescale.storage.checksums import Checksum
from rescale.storage.contract import CopyRefused, Entry, PartLimits, Pin, Span
from rescale.storage.locations import contains, parent, split_s3
from rescale.storage.request_size import request_size
from rescale.storage.s3_checksums import stored_checksums
from rescale.storage.s3_client import ATTEMPTS, own_client
from rescale.storage.s3_errors import (
    code_of,
    is_absent,
    is_locked,
    lock_of,
    refuses_conditions,
    refuses_copies,
    sentence,
    status_of,
    translated,
)
from rescale.storage.s3_puts import ObjectPuts
from rescale.storage.s3_reads import ObjectReads
from rescale.storage.s3_requests import REQUESTS
from rescale.storage.side_by_side import side_by_side

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef, HeadObjectOutputTypeDef

T = TypeVar("T")

_CONFLICT_ATTEMPTS = 6
_CONFLICT_SECONDS = 0.05
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two requests for a body."""

_WITHOUT_A_WORD = ("400", "403")
"""What an answer to a HEAD says of expired keys or a wrong clock, for it has no body: so a GET asks again."""

_WORTH_A_PAGE = 16
"""Objects: to ask for each of so many costs more than a page of a listing."""


class S3Store:
    """`Store` over S3; `client` is one that is configured otherwise than by the AWS variables, and asked for all."""

    part_limits = PartLimits(smallest=5 * 1024 * 1024, most=10_000)

    def __init__(self, client: S3Client | None = None) -> None:
        self._client = client or own_client()
        self._get_object = self._client.get_object if client else ObjectReads(self._client).get_object
        self._puts = ObjectPuts(self._client)
        self._copies_refused: str | None = None

    def stat(self, uri: str) -> Pin | None:
        head = self._head(uri)
        return None if head is None else Pin(head["ContentLength"], etag=head["ETag"])

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        listed: dict[str, Pin] = {}
        wanted = set(uris)
        for directory, number in Counter(map(parent, uris)).items():
            if number >= _WORTH_A_PAGE:
                listed |= self._listed(directory, wanted)
        return side_by_side(lambda uri: listed.get(uri) or self.stat(uri), uris)

    def modified(self, uri: str) -> datetime | None:
        head = self._head(uri)
        return None if head is None else head["LastModified"]

    def checksums(self, uri: str, pin: Pin) -> list[Checksum]:
        head = self._head(uri, ChecksumMode="ENABLED")
        if head is None or not pin.is_of(Pin(head["ContentLength"], etag=head["ETag"])):
            return []
        return stored_checksums(head)

    def read_size(self, length: int, at_once: int | None = None) -> int:
        return request_size(length, at_once)

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        if not length:
            return b""
        data, _ = self._read(uri, pin, start, length)
        return data

    def read_all(self, uri: str, limit: int, pin: Pin | None = None) -> tuple[bytes, Pin]:
        return self._read(uri, pin, limit=limit)

    def put(self, uri: str, data: bytes) -> None:
        bucket, key = split_s3(uri)
        with self._told_of_locks(uri), translated(uri):
            try:
                self._puts.put_object(bucket, key, data)
            except ClientError as error:
                if not (is_locked(error) and self._holds(uri, data)):
                    raise

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        return self._put_conditionally(uri, data) or self._holds(uri, data)

    def honours_conditions(self, uri: str, data: bytes) -> bool:
        return not self._put_conditionally(uri, data)

    def list(self, directory: str) -> list[Entry]:
        bucket, prefix = _below(directory)
        entries = []
        with translated(directory):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for found in page.get("Contents", ()):
                    if not found["Key"].endswith("/"):  # else a directory, as consoles and Hadoop mark them
                        pin = Pin(found["Size"], etag=found["ETag"])
                        entries.append(Entry(f"s3://{bucket}/{found['Key']}", pin))
        return sorted(entries, key=lambda entry: entry.uri)

    def delete(self, uris: Iterable[str]) -> None:
        locked = [error for error in side_by_side(self._delete, uris) if error is not None]
        for first in locked[:1]:
            with self._told_of_locks(first.path or ""):
                first.found = f"{first.found} ({len(locked)} such objects)"
                raise first

    def begin_parts(self, uri: str, staging: str) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)
        with translated(uri):
            return self._client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]

    def put_part(self, uri: str, token: str, number: int, offset: int, data: bytes | bytearray) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)
        with translated(uri):
            return self._puts.upload_part(bucket, key, data, UploadId=token, PartNumber=number)

    def copy(self, uri: str, source: Span) -> None:
        bucket, key = split_s3(uri)

        def copied(wanted: dict[str, Any]) -> None:
            # Nothing but the bytes: else it takes the right to read tags, too, and headers come along.
            self._client.copy_object(
                Bucket=bucket, Key=key, MetadataDirective="REPLACE", TaggingDirective="REPLACE", **wanted
            )

        self._copied(uri, source, copied)

    def copy_part(self, uri: str, token: str, number: int, offset: int, source: Span) -> str:  # noqa: ARG002
        bucket, key = split_s3(uri)

        def copied(wanted: dict[str, Any]) -> str:
            answer = self._client.upload_part_copy(
                Bucket=bucket,
                Key=key,
                UploadId=token,
                PartNumber=number,
                CopySourceRange=f"bytes={source.start}-{source.start + source.length - 1}",
                **wanted,
            )
            return answer["CopyPartResult"]["ETag"]

        return self._copied(uri, source, copied)

    def complete_parts(self, uri: str, token: str, receipts: Sequence[str], size: int) -> None:
        bucket, key = split_s3(uri)
        parts: Any = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(receipts, 1)]
        try:
            with translated(uri):
                self._client.complete_multipart_upload(
                    Bucket=bucket, Key=key, UploadId=token, MultipartUpload={"Parts": parts}
                )
        except (StoreError, LockedError):
            there = self.stat(uri)  # a lost answer: the upload is gone because it became the object
            if there is None or there.size != size:
                raise

    def abort_parts(self, uri: str) -> None:
        bucket, key = split_s3(uri)
        with translated(uri):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=key)
            uploads = [upload for page in pages for upload in page.get("Uploads", ())]
            for upload in uploads:
                if not contains(uri, f"s3://{bucket}/{upload['Key']}"):
                    continue  # only begins with the same letters
                try:
                    self._client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
                except ClientError as error:
                    if not is_absent(error):  # else it ended meanwhile
                        raise

    def _listed(self, directory: str, wanted: Collection[str]) -> dict[str, Pin]:
        """Of the objects right in a directory those that are wanted, as far as looking for them this way is worth it.

        Who may read objects need not be allowed to list them, and among the files of other snapshots few are wanted:
        what is not found here is asked for one by one.
        """
        bucket, prefix = _below(directory)
        found: dict[str, Pin] = {}
        with suppress(RescaleError), translated(directory):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            for page in pages:
                there = ((f"s3://{bucket}/{one['Key']}", one) for one in page.get("Contents", ()))
                pins = {uri: Pin(one["Size"], etag=one["ETag"]) for uri, one in there if uri in wanted}
                found |= pins
                if len(pins) < _WORTH_A_PAGE:
                    break
        return found

    def _head(self, uri: str, **more: Any) -> HeadObjectOutputTypeDef | None:
        bucket, key = split_s3(uri)
        with translated(uri):
            try:
                return self._client.head_object(Bucket=bucket, Key=key, **more)
            except UnicodeEncodeError:
                return None  # a name from a damaged snapshot, which no object can have
            except ClientError as error:
                if is_absent(error):
                    return None
                if code_of(error) in _WITHOUT_A_WORD:
                    self._client.get_object(Bucket=bucket, Key=key, Range="bytes=0-0")["Body"].close()
                raise

    def _delete(self, uri: str) -> LockedError | None:
        """The error, where it must not be deleted yet."""
        bucket, key = split_s3(uri)
        try:
            with translated(uri):
                try:
                    self._client.delete_object(Bucket=bucket, Key=key)
                except ClientError as error:
                    if not is_absent(error):
                        raise
        except LockedError as error:
            return error
        return None

    @contextmanager
    def _told_of_locks(self, uri: str) -> Iterator[None]:
        """An object that is locked comes with what S3 says of that, as far as we may ask."""
        try:
            yield
        except LockedError as error:
            head = None
            with suppress(RescaleError):
                head = self._head(uri)
            if head is not None and (lock := lock_of(head)) is not None:
                error.found = f"{error.found}, {lock}"
            raise

    def _holds(self, uri: str, data: bytes) -> bool:
        try:
            return self.read_all(uri, len(data))[0] == data
        except SnapshotError:
            return False  # larger, or taken away again

    def _read(
        self, uri: str, pin: Pin | None, start: int = 0, length: int | None = None, limit: int | None = None
    ) -> tuple[bytes, Pin]:
        """What a GetObject answers with, and its version. boto3 repeats requests; a body that breaks off is asked for
        again here, with pauses that grow.
        """
        for attempt in range(ATTEMPTS):
            answer = self._get(uri, pin, start, length)
            size = answer["ContentLength"]
            if limit is not None and size > limit:
                answer["Body"].close()
                raise SnapshotError(
                    "an object is larger than it can be", path=uri, expected=f"at most {limit} bytes", found=size
                )
            try:
                with translated(uri):
                    data = answer["Body"].read()
            except StoreError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**attempt))
            else:
                if length is not None and len(data) < length:
                    raise _too_short(uri, start, length, len(data))
                if length is not None and len(data) > length:
                    raise _too_much(uri, start, length, len(data))
                return data, Pin(size, etag=answer["ETag"])
        raise AssertionError("the last attempt returns or raises")

    def _get(self, uri: str, pin: Pin | None, start: int = 0, length: int | None = None) -> GetObjectOutputTypeDef:
        """A GetObject of the pinned version."""
        bucket, key = split_s3(uri)
        wanted: dict[str, Any] = {"Bucket": bucket, "Key": key}
        if length is not None:
            wanted["Range"] = f"bytes={start}-{start + length - 1}"
        with translated(uri):
            for condition in _conditions(pin):
                try:
                    answer = self._get_object(**wanted, **condition)
                except UnicodeEncodeError:
                    raise _gone(uri) from None
                except ClientError as error:
                    if is_absent(error):
                        raise _gone(uri) from None
                    if status_of(error) == 416 and length is not None:
                        raise _too_short(uri, start, length, 0) from None
                    if status_of(error) != 412:
                        raise
                else:
                    if pin is None or pin.etag is None or answer["ETag"].strip('"') == pin.etag.strip('"'):
                        return answer
                    answer["Body"].close()  # a store that does not look at the condition
                    break
        raise self._changed(uri, pin)

    def _copied(self, uri: str, source: Span, ask: Callable[[dict[str, Any]], T]) -> T:
        """What the store answers to a copy of the pinned version. A refusal is taken to be for good."""
        if self._copies_refused is not None:
            raise CopyRefused(self._copies_refused)
        bucket, key = split_s3(source.uri)
        wanted = {"CopySource": {"Bucket": bucket, "Key": key}}
        with translated(uri):
            for condition in _conditions(source.pin):
                try:
                    answer = ask(wanted | {f"CopySource{name}": etag for name, etag in condition.items()})
                except ClientError as error:
                    if is_absent(error) and code_of(error) == "NoSuchKey":
                        raise _gone(source.uri) from None
                    if refuses_copies(error):
                        self._copies_refused = sentence(error)
                        raise CopyRefused(self._copies_refused) from None
                    if status_of(error) not in (412, 416):
                        raise
                else:
                    REQUESTS.copied(source.length)
                    return answer
        raise self._changed(source.uri, source.pin)

    def _changed(self, uri: str, pin: Pin | None) -> SnapshotError:
        return SnapshotError(
            "an object has changed since it was first looked at",
            path=uri,
            expected=pin,
            found=self.stat(uri),
            advice="see that nothing writes to the snapshot, and plan again",
        )

    def _put_conditionally(self, uri: str, data: bytes) -> bool:
        """Whether the store took it; False if something is there already."""
        bucket, key = split_s3(uri)
        for attempt in range(_CONFLICT_ATTEMPTS):
            with translated(uri):
                try:
                    self._puts.put_object(bucket, key, data, IfNoneMatch="*")
                    return True
                except ClientError as error:
                    if status_of(error) == 412 or is_locked(error):
                        return False
                    if refuses_conditions(error):
                        raise _no_conditions(uri, error) from None
                    if status_of(error) != 409:
                        raise
            time.sleep(_CONFLICT_SECONDS * 2**attempt)  # another writer is at it: a later answer tells who won
        raise StoreError("the store sees conflicting writes again and again", path=uri)


def _conditions(pin: Pin | None) -> list[dict[str, Any]]:
    """What to ask for, in turn: some stores know an ETag only without its quotes."""
    if pin is None or pin.etag is None:
        return [{}]
    return [{"IfMatch": pin.etag}, {"IfMatch": pin.etag.strip('"')}]


def _gone(uri: str) -> SnapshotError:
    return SnapshotError("an object is gone", path=uri, advice="see that nothing removes it, and start again")


def _too_short(uri: str, start: int, length: int, found: int) -> SnapshotError:
    return SnapshotError(
        "an object ends too early", path=uri, offset=start, expected=f"{length} bytes", found=f"{found} bytes"
    )


def _no_conditions(uri: str, error: ClientError) -> UnsupportedError:
    return UnsupportedError(
        f"the store does not know the condition of a put-if-absent: {sentence(error)}",
        path=uri,
        advice="use a store that honours If-None-Match, or see to it yourself that no other run has this target and "
        "say --accept-unconditional-publish",
    )


def _below(directory: str) -> tuple[str, str]:
    """The bucket, and what the keys of all objects below the directory begin with."""
    bucket, key = split_s3(directory)
    return bucket, f"{key}/" if key else ""


def _too_much(uri: str, start: int, length: int, found: int) -> StoreError:
    return StoreError(
        "the store sent more of an object than was asked for",
        path=uri,
        offset=start,
        expected=f"{length} bytes",
        found=f"{found} bytes",
        advice="see that the store, and whatever is between, knows the Range header",
    )
