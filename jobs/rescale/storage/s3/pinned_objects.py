"""Reads of objects in a pinned version, by its ETag; an object with another version is refused.

boto3 repeats requests that fail. This module repeats requests whose body breaks off, with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from rescale.storage.contract import Pin
from rescale.storage.locations import split_s3
from rescale.storage.s3 import s3_client
from rescale.storage.s3.s3_advice import s3_advice
from rescale.storage.s3.s3_client import ATTEMPTS
from rescale.storage.s3.s3_errors import code_of, is_absent, status_of, translated_errors
from rescale.storage.s3.side_errors import with_store_named
from rescale.storage.sides import side_of
from rescale.text.errors import RequestError, RescaleError, SnapshotError, StoreError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef, HeadObjectOutputTypeDef

_Answer = TypeVar("_Answer", bound="HeadObjectOutputTypeDef | GetObjectOutputTypeDef")

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
"""Shortest and longest pause between two requests for the same body, in seconds."""

_CODES_WITHOUT_CAUSE = ("400", "403")
"""Codes of answers to a HEAD that have many causes, such as expired keys or a wrong clock.

These answers have no body; only the answer to a GET names the cause.
"""

_RANGE_ADVICE = "check that the store, and proxies on the way, honour the Range header"


class PinnedObjects:
    """HEAD and GET of pinned objects; raises Rescale's errors. `get_object` replaces the client's method."""

    def __init__(self, client: S3Client, get_object: Callable[..., GetObjectOutputTypeDef]) -> None:
        self._client = client
        self._get_object = get_object

    def head(self, uri: str, **options: Any) -> HeadObjectOutputTypeDef | None:
        """Return the answer to a HEAD; None if there is no such object."""
        bucket, key = split_s3(uri)
        with translated_errors(uri):
            try:
                head = _checked_answer(uri, self._client.head_object(Bucket=bucket, Key=key, **options))
            except UnicodeEncodeError:
                return None  # damaged snapshots may contain names that no object can have
            except ClientError as error:
                if is_absent(error):
                    return None
                if code_of(error) in _CODES_WITHOUT_CAUSE:
                    self._client.get_object(Bucket=bucket, Key=key, Range="bytes=0-0")["Body"].close()
                raise
        if "ContentLength" not in head:
            raise with_store_named(_unknown_size_error(uri), side_of(uri))
        return head

    def pin(self, uri: str) -> Pin | None:
        """Return the pin of an object's current version; None if there is no such object."""
        head = self.head(uri)
        return None if head is None else Pin(head["ContentLength"], etag=head["ETag"])

    def read(
        self, uri: str, pin: Pin | None, start: int = 0, length: int | None = None, limit_bytes: int | None = None
    ) -> tuple[bytes, Pin]:
        """Return bytes of an object, and its version.

        The bytes are the `length` bytes from offset `start`, or the whole object of at most `limit_bytes` bytes. The
        size of a chunked body is unknown until it ends, so no more bytes are read than needed to refuse an object that
        is too large.
        """
        most_bytes = limit_bytes if length is None else length
        give_up_at = time.monotonic() + s3_client.RETRY_SECONDS
        for attempt in range(ATTEMPTS):
            answer = self._get(uri, pin, start, length)
            body, size = answer["Body"], answer.get("ContentLength", -1)
            if most_bytes is not None and size > most_bytes:
                body.close()
                raise _large_object_error(uri, start, length, most_bytes, size)
            sent_range = answer.get("ContentRange")
            if length is not None and sent_range and not sent_range.startswith(f"bytes {start}-"):
                body.close()
                raise _other_range_error(uri, start, length, sent_range)
            try:
                with translated_errors(uri):
                    data = body.read() if size >= 0 or most_bytes is None else body.read(most_bytes + 1)
            except StoreError:
                if attempt == ATTEMPTS - 1 or time.monotonic() >= give_up_at:
                    raise
                time.sleep(min(_LONGEST_PAUSE_SECONDS, _SHORTEST_PAUSE_SECONDS * 2**attempt))
            else:
                if length is not None and len(data) < length:
                    raise _short_object_error(uri, start, length, len(data))
                if most_bytes is not None and len(data) > most_bytes:
                    body.close()
                    raise _large_object_error(uri, start, length, most_bytes, len(data))
                return data, Pin(len(data) if size < 0 else size, etag=answer["ETag"])
        raise AssertionError("unreachable: after the last attempt")

    def changed_error(self, uri: str, pin: Pin | None) -> SnapshotError:
        """Return the error for an object whose current version is not the pinned one."""
        return SnapshotError(
            "an object has changed since it was first read",
            path=uri,
            expected=pin,
            found=self.pin(uri),
            advice="make sure that nothing writes to the snapshot, and plan again",
        )

    def _get(self, uri: str, pin: Pin | None, start: int = 0, length: int | None = None) -> GetObjectOutputTypeDef:
        bucket, key = split_s3(uri)
        parameters: dict[str, Any] = {"Bucket": bucket, "Key": key}
        if length is not None:
            parameters["Range"] = f"bytes={start}-{start + length - 1}"
        with translated_errors(uri):
            for condition in conditions(pin):
                try:
                    answer = self._get_object(**parameters, **condition)
                except UnicodeEncodeError:
                    raise gone_error(uri) from None
                except ClientError as error:
                    if is_absent(error):
                        raise gone_error(uri) from None
                    if status_of(error) == 416 and length is not None:
                        raise _short_object_error(uri, start, length, 0) from None
                    if status_of(error) != 412:
                        raise
                else:
                    _checked_answer(uri, answer)
                    if pin is None or pin.etag is None or answer["ETag"].strip('"') == pin.etag.strip('"'):
                        return answer
                    answer["Body"].close()  # the store ignored IfMatch
                    break
        raise self.changed_error(uri, pin)


def conditions(pin: Pin | None) -> list[dict[str, Any]]:
    """Return the conditions to try in turn: some stores accept an ETag only without its quotes."""
    if pin is None or pin.etag is None:
        return [{}]
    return [{"IfMatch": pin.etag}, {"IfMatch": pin.etag.strip('"')}]


def _checked_answer(uri: str, answer: _Answer) -> _Answer:
    """Return the answer. Raises `RequestError` if it has no ETag, as from a web server that answers all with 200."""
    if not answer.get("ETag"):
        advice = s3_advice("let {AWS_ENDPOINT_URL} name the S3 API of the store, not its console or a login page")
        what = "this endpoint is not S3: its answer names no version of the object"
        raise with_store_named(RequestError(what, path=uri, advice=advice), side_of(uri))
    return answer


def _unknown_size_error(uri: str) -> RequestError:
    return RequestError(
        "the size of an object is unknown: the answer to a HEAD request has no header Content-Length",
        path=uri,
        advice=s3_advice(
            "let {AWS_ENDPOINT_URL} name the store itself; or let the proxy on the way pass this header on"
        ),
    )


def gone_error(uri: str) -> SnapshotError:
    """Return the error for an object that no longer exists."""
    return SnapshotError("an object is gone", path=uri, advice="make sure that nothing removes it, and start again")


def _short_object_error(uri: str, start: int, length: int, present_size: int) -> SnapshotError:
    return SnapshotError(
        "an object ends too early", path=uri, offset=start, expected=f"{length} bytes", found=f"{present_size} bytes"
    )


def _large_object_error(uri: str, start: int, length: int | None, most_bytes: int, present_size: int) -> RescaleError:
    if length is None:
        return SnapshotError(
            "an object is too large", path=uri, expected=f"at most {most_bytes} bytes", found=present_size
        )
    return StoreError(
        "the store sent more bytes of an object than were requested",
        path=uri,
        offset=start,
        expected=f"{length} bytes",
        found=f"{present_size} bytes or more",
        advice=_RANGE_ADVICE,
    )


def _other_range_error(uri: str, start: int, length: int, sent_range: str) -> StoreError:
    return StoreError(
        "the store sent other bytes of an object than were requested",
        path=uri,
        offset=start,
        expected=f"bytes {start}-{start + length - 1}",
        found=sent_range,
        advice=_RANGE_ADVICE,
    )
