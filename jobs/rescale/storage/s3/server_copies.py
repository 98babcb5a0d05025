"""Copies that the store makes on its side, of objects in the version that was seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from rescale.storage.contract import CopyRefused, Span
from rescale.storage.locations import split_s3
from rescale.storage.s3.pinned_objects import PinnedObjects, conditions, gone
from rescale.storage.s3.s3_errors import code_of, is_absent, refuses_copies, sentence, status_of, translated
from rescale.storage.s3.s3_requests import REQUESTS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")


class ServerCopies:
    """Errors are ours. A refusal is taken to be for good."""

    def __init__(self, client: S3Client, objects: PinnedObjects) -> None:
        self._client = client
        self._objects = objects
        self._refused: str | None = None

    def copy(self, uri: str, source: Span) -> None:
        bucket, key = split_s3(uri)

        def copied(wanted: dict[str, Any]) -> None:
            # Nothing but the bytes: else it takes the right to read tags, too, and headers come along.
            self._client.copy_object(
                Bucket=bucket, Key=key, MetadataDirective="REPLACE", TaggingDirective="REPLACE", **wanted
            )

        self._copied(uri, source, copied)

    def copy_part(self, uri: str, upload: str, number: int, source: Span) -> str:
        """The ETag of the part."""
        bucket, key = split_s3(uri)

        def copied(wanted: dict[str, Any]) -> str:
            answer = self._client.upload_part_copy(
                Bucket=bucket,
                Key=key,
                UploadId=upload,
                PartNumber=number,
                CopySourceRange=f"bytes={source.start}-{source.start + source.length - 1}",
                **wanted,
            )
            return answer["CopyPartResult"]["ETag"]

        return self._copied(uri, source, copied)

    def _copied(self, uri: str, source: Span, ask: Callable[[dict[str, Any]], T]) -> T:
        """What the store answers to a copy of the pinned version."""
        if self._refused is not None:
            raise CopyRefused(self._refused)
        bucket, key = split_s3(source.uri)
        wanted = {"CopySource": {"Bucket": bucket, "Key": key}}
        with translated(uri):
            for condition in conditions(source.pin):
                try:
                    answer = ask(wanted | {f"CopySource{name}": etag for name, etag in condition.items()})
                except ClientError as error:
                    if is_absent(error) and code_of(error) == "NoSuchKey":
                        raise gone(source.uri) from None
                    if refuses_copies(error):
                        self._refused = sentence(error)
                        raise CopyRefused(self._refused) from None
                    if status_of(error) not in (412, 416):
                        raise
                else:
                    REQUESTS.copied(source.length)
                    return answer
        raise self._objects.changed(source.uri, source.pin)
