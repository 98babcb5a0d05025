"""S3 in memory, as boto3's client offers it to `S3Store`: what the store makes of answers is the real one's own.

An object appears whole, an ETag is that of its bytes as they were put, a conditional put has one winner, an upload in
parts stays open until it is completed or aborted, and a listing comes in pages, small ones so that there are several.
"""

# ruff: noqa: N803 (the arguments have boto3's names)

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError, IncompleteReadError

from simulation.clock import Clock

BUCKET = "sim"
SMALLEST_PART = 200
"""Bytes; Amazon's S3 wants 5 MiB."""

_PAGE = 7


@dataclass(frozen=True)
class Stored:
    """An object; its bytes may have rotted since the ETag was made of them."""

    data: bytes
    etag: str


@dataclass
class Upload:
    """One that is open: parts by number, and who began it."""

    key: str
    by: str
    parts: dict[int, Stored] = field(default_factory=dict)


class Body:
    """Of an answer to GetObject; one that `breaks` off is noticed by botocore from the length in the answer."""

    def __init__(self, data: bytes, *, breaks: bool = False) -> None:
        self.data = data
        self.breaks = breaks

    def read(self) -> bytes:
        if self.breaks:
            raise IncompleteReadError(actual_bytes=len(self.data) // 2, expected_bytes=len(self.data))
        return self.data

    def close(self) -> None:
        pass


class Bucket:
    """The requests that `S3Store` makes, by boto3's names for them; errors are boto3's, too."""

    def __init__(self, clock: Clock) -> None:
        """Its own host's clock."""
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, Upload] = {}
        self._clock = clock
        self._modified: dict[str, datetime] = {}
        self.by = ""
        """Who makes the request, for those who look at open uploads."""
        self._begun = 0

    def put(self, key: str, data: bytes) -> None:
        self._keep(key, Stored(data, _etag(data)))

    def below(self, directory: str) -> dict[str, bytes]:
        """The objects in a directory, by what their keys say after it."""
        prefix = f"{directory}/"
        return {k.removeprefix(prefix): one.data for k, one in self.objects.items() if k.startswith(prefix)}

    def head_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        found = self._found("HeadObject", Key)
        return {"ContentLength": len(found.data), "ETag": found.etag, "LastModified": self._modified[Key]}

    def get_object(
        self,
        *,
        Key: str,
        Range: str | None = None,
        IfMatch: str | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        found = self._found("GetObject", Key)
        if IfMatch is not None and IfMatch.strip('"') != found.etag.strip('"'):
            raise refused("GetObject", 412, "PreconditionFailed")
        data = found.data
        if Range is not None:
            first, last = map(int, Range.removeprefix("bytes=").split("-"))
            if first >= len(data):
                raise refused("GetObject", 416, "InvalidRange")
            data = data[first : last + 1]
        return {"ContentLength": len(data), "ETag": found.etag, "Body": Body(data)}

    def put_object(
        self,
        *,
        Key: str,
        Body: bytes,
        IfNoneMatch: str | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        if IfNoneMatch is not None and Key in self.objects:
            raise refused("PutObject", 412, "PreconditionFailed")
        self.put(Key, bytes(Body))
        return {"ETag": self.objects[Key].etag}

    def delete_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        self.objects.pop(Key, None)
        return {}

    def list_objects_v2(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        found = [
            {"Key": key, "Size": len(one.data), "ETag": one.etag}
            for key, one in sorted(self.objects.items())
            if key.startswith(Prefix)
        ]
        return iter([{"Contents": found[i : i + _PAGE]} for i in range(0, len(found), _PAGE)] or [{}])

    def create_multipart_upload(self, *, Key: str, **_: Any) -> dict[str, Any]:
        self._begun += 1
        token = f"upload-{self._begun}"
        self.uploads[token] = Upload(Key, self.by)
        return {"UploadId": token}

    def upload_part(
        self,
        *,
        UploadId: str,
        PartNumber: int,
        Body: bytes,
        **_: Any,
    ) -> dict[str, Any]:
        part = Stored(bytes(Body), _etag(bytes(Body)))
        self._upload("UploadPart", UploadId).parts[PartNumber] = part
        return {"ETag": part.etag}

    def copy_object(self, *, Key: str, CopySource: Mapping[str, str], **how: Any) -> dict[str, Any]:
        self.put(Key, self._to_copy("CopyObject", CopySource, **how))
        return {"CopyObjectResult": {"ETag": self.objects[Key].etag}}

    def upload_part_copy(
        self,
        *,
        UploadId: str,
        PartNumber: int,
        CopySource: Mapping[str, str],
        CopySourceRange: str,
        **how: Any,
    ) -> dict[str, Any]:
        data = self._to_copy("UploadPartCopy", CopySource, **how)
        first, last = map(int, CopySourceRange.removeprefix("bytes=").split("-"))
        if last >= len(data):
            raise refused("UploadPartCopy", 416, "InvalidRange")
        answer = self.upload_part(UploadId=UploadId, PartNumber=PartNumber, Body=data[first : last + 1])
        return {"CopyPartResult": answer}

    def complete_multipart_upload(
        self,
        *,
        Key: str,
        UploadId: str,
        MultipartUpload: Mapping[str, Sequence[Mapping[str, Any]]],
        **_: Any,
    ) -> dict[str, Any]:
        there = self._upload("CompleteMultipartUpload", UploadId).parts
        parts = []
        for wanted in MultipartUpload["Parts"]:
            part = there.get(wanted["PartNumber"])
            if part is None or part.etag != wanted["ETag"]:
                raise refused("CompleteMultipartUpload", 400, "InvalidPart")
            parts.append(part)
        if not parts or any(len(part.data) < SMALLEST_PART for part in parts[:-1]):
            raise refused("CompleteMultipartUpload", 400, "EntityTooSmall")
        digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
        etag = f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'
        self._keep(Key, Stored(b"".join(part.data for part in parts), etag))
        del self.uploads[UploadId]
        return {"ETag": etag}

    def list_multipart_uploads(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        found = [{"Key": one.key, "UploadId": i} for i, one in self.uploads.items() if one.key.startswith(Prefix)]
        return iter([{"Uploads": found[i : i + _PAGE]} for i in range(0, len(found), _PAGE)] or [{}])

    def abort_multipart_upload(self, *, UploadId: str, **_: Any) -> dict[str, Any]:
        self._upload("AbortMultipartUpload", UploadId)
        del self.uploads[UploadId]
        return {}

    def _keep(self, key: str, stored: Stored) -> None:
        self.objects[key], self._modified[key] = stored, self._clock.now(UTC)

    def _found(self, operation: str, key: str) -> Stored:
        if key not in self.objects:
            raise refused(operation, 404, "NoSuchKey")
        return self.objects[key]

    def _to_copy(
        self, operation: str, source: Mapping[str, str], CopySourceIfMatch: str | None = None, **_: Any
    ) -> bytes:
        found = self._found(operation, source["Key"])
        if CopySourceIfMatch is not None and CopySourceIfMatch.strip('"') != found.etag.strip('"'):
            raise refused(operation, 412, "PreconditionFailed")
        return found.data

    def _upload(self, operation: str, token: str) -> Upload:
        if token not in self.uploads:
            raise refused(operation, 404, "NoSuchUpload")
        return self.uploads[token]


def refused(operation: str, status: int, code: str) -> ClientError:
    """An answer of S3's that is an error."""
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'
