"""Copies of pinned objects that the store makes itself (CopyObject, UploadPartCopy)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from rescale.storage.contract import CopyRefused, Span
from rescale.storage.locations import split_s3
from rescale.storage.s3.pinned_objects import PinnedObjects, conditions, gone_error
from rescale.storage.s3.s3_errors import (
    code_of,
    is_absent,
    one_line_message,
    refuses_copies,
    status_of,
    translated_errors,
)
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.sides import is_one_store

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")


class ServerCopies:
    """Copies by the store; raises Rescale's errors. After a refusal, no further copies are requested."""

    def __init__(self, client: S3Client, objects: PinnedObjects) -> None:
        self._client = client
        self._objects = objects
        self._refusal: str | None = None

    def copy(self, uri: str, source: Span) -> None:
        bucket, key = split_s3(uri)

        def request(parameters: dict[str, Any]) -> None:
            # Copy only the bytes: tags need one more permission, and headers of the source do not belong to the result.
            self._client.copy_object(
                Bucket=bucket, Key=key, MetadataDirective="REPLACE", TaggingDirective="REPLACE", **parameters
            )

        self._request_copy(uri, source, request)

    def copy_part(self, uri: str, upload_id: str, number: int, source: Span) -> str:
        """Copy a span into part `number` of an upload, and return the part's ETag."""
        bucket, key = split_s3(uri)

        def request(parameters: dict[str, Any]) -> str:
            answer = self._client.upload_part_copy(
                Bucket=bucket,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                CopySourceRange=f"bytes={source.start}-{source.start + source.length - 1}",
                **parameters,
            )
            return answer["CopyPartResult"]["ETag"]

        return self._request_copy(uri, source, request)

    def _request_copy(self, uri: str, source: Span, send_copy: Callable[[dict[str, Any]], T]) -> T:
        """Return the answer to `send_copy`, a request to copy the pinned version."""
        if not is_one_store(uri, source.uri):
            raise CopyRefused("the source is in another store")
        if self._refusal is not None:
            raise CopyRefused(self._refusal)
        bucket, key = split_s3(source.uri)
        parameters = {"CopySource": {"Bucket": bucket, "Key": key}}
        with translated_errors(uri):
            for condition in conditions(source.pin):
                try:
                    answer = send_copy(parameters | {f"CopySource{name}": etag for name, etag in condition.items()})
                except ClientError as error:
                    if is_absent(error) and code_of(error) == "NoSuchKey":
                        raise gone_error(source.uri) from None
                    if refuses_copies(error):
                        self._refusal = one_line_message(error)
                        raise CopyRefused(self._refusal) from None
                    if status_of(error) not in (412, 416):
                        raise
                else:
                    REQUESTS.count_copied_bytes(source.length)
                    return answer
        raise self._objects.changed_error(source.uri, source.pin)
