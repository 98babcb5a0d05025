"""A bucket in memory with the interface of boto3's client, so that the real `S3Store` works on it.

An object appears whole, its ETag is that of the bytes that were put, a conditional put has one winner, an upload in
parts stays open until it is completed or aborted, and a listing comes in several small pages.

The bucket may keep versions. A put or a delete then hides the earlier versions, and removes none. A delete adds a
delete marker; conditions of requests treat an object behind a delete marker as absent. Only a delete that names a
version removes that version.
"""

# ruff: noqa: N803 (the arguments have boto3's names)

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from simulation.checksums import crc64
from simulation.clock import Clock
from simulation.stored import Body, StoredObject, Upload, etag_of

BUCKET = "sim"
SMALLEST_PART_BYTES = 200
"""Least bytes of a part, except the last; Amazon's S3 requires 5 MiB."""

_PAGE_LENGTH = 7


class Bucket:
    """The requests that `S3Store` makes, under boto3's names and with boto3's errors."""

    def __init__(self, clock: Clock, *, keeps_versions: bool = False, has_checksums: bool = False) -> None:
        """Create an empty bucket, whose modification times are those of `clock`.

        With `has_checksums`, the bucket has a checksum of each object, and returns it on request.
        """
        self.objects: dict[str, StoredObject] = {}
        """Newest versions of the objects that are not deleted."""
        self.versions: dict[str, dict[str, StoredObject | None]] = {}
        """All versions by key and id, oldest first; None is a delete marker. Empty in a bucket without versions."""
        self.deleted_versions: list[str] = []
        """Versions that were deleted for good."""
        self.uploads: dict[str, Upload] = {}
        self._clock = clock
        self._modified_at: dict[str, datetime] = {}
        self.requester = ""
        """Name of the process that makes the current request."""
        self._upload_count = 0
        self._keeps_versions = keeps_versions
        self.has_checksums = has_checksums
        self._version_count = 0

    @property
    def is_certified(self) -> bool:
        """Return whether there is a certificate."""
        return any(key.endswith(".rescale/certificate.json") for key in self.objects)

    def put(self, key: str, data: bytes) -> None:
        self._store(key, StoredObject(data, etag_of(data)))

    def data_below(self, directory: str) -> dict[str, bytes]:
        """Return the bytes of the objects in a directory, by their names in it."""
        prefix = f"{directory}/"
        return {k.removeprefix(prefix): stored.data for k, stored in self.objects.items() if k.startswith(prefix)}

    def remove(self, key: str) -> None:
        """Delete the object as a request without a version does."""
        self.objects.pop(key, None)
        if self._keeps_versions:
            self.versions.setdefault(key, {})[self._new_version_id()] = None

    def rot(self, key: str, stored: StoredObject) -> None:
        """Replace the bytes of the newest version, but not its id and its ETag."""
        self.objects[key] = stored
        if self._keeps_versions:
            self.versions[key][self._newest_id(key)] = stored

    def versions_below(self, prefix: str) -> dict[str, StoredObject | None]:
        """Return every version below the prefix, by its key and its id, joined by a space."""
        matching = ((key, versions) for key, versions in self.versions.items() if key.startswith(prefix))
        return {f"{key} {version_id}": stored for key, versions in matching for version_id, stored in versions.items()}

    def head_object(
        self, *, Key: str, ChecksumMode: str | None = None, VersionId: str | None = None, **_: Any
    ) -> dict[str, Any]:
        stored = self._stored_object("HeadObject", Key, VersionId)
        answer = {"ContentLength": len(stored.data), "ETag": stored.etag, "LastModified": self._modified_at[Key]}
        if self.has_checksums and ChecksumMode == "ENABLED":
            crc = base64.b64encode(crc64(stored.as_put).to_bytes(8, "big")).decode()
            answer |= {"ChecksumCRC64NVME": crc, "ChecksumType": "FULL_OBJECT"}
        return answer | self._version_field(Key, VersionId) if self._keeps_versions else answer

    def get_object(
        self,
        *,
        Key: str,
        Range: str | None = None,
        IfMatch: str | None = None,
        VersionId: str | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        stored = self._stored_object("GetObject", Key, VersionId)
        if IfMatch is not None and IfMatch.strip('"') != stored.etag.strip('"'):
            raise refusal("GetObject", 412, "PreconditionFailed")
        data = stored.data
        if Range is not None:
            first, last = map(int, Range.removeprefix("bytes=").split("-"))
            if first >= len(data):
                raise refusal("GetObject", 416, "InvalidRange")
            data = data[first : last + 1]
        answer = {"ContentLength": len(data), "ETag": stored.etag, "Body": Body(data)}
        return answer | self._version_field(Key, VersionId) if self._keeps_versions else answer

    def put_object(
        self,
        *,
        Key: str,
        Body: bytes,
        IfNoneMatch: str | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        if IfNoneMatch is not None and Key in self.objects:
            raise refusal("PutObject", 412, "PreconditionFailed")
        self.put(Key, bytes(Body))
        return {"ETag": self.objects[Key].etag} | self._version_field(Key)

    def delete_object(self, *, Key: str, VersionId: str | None = None, **_: Any) -> dict[str, Any]:
        if VersionId is not None:
            return self._delete_version(Key, VersionId)
        self.remove(Key)
        return {"DeleteMarker": True} | self._version_field(Key) if self._keeps_versions else {}

    def list_objects_v2(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        entries = [
            {"Key": key, "Size": len(stored.data), "ETag": stored.etag}
            for key, stored in sorted(self.objects.items())
            if key.startswith(Prefix)
        ]
        return iter([{"Contents": entries[i : i + _PAGE_LENGTH]} for i in range(0, len(entries), _PAGE_LENGTH)] or [{}])

    def list_object_versions(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        """Yield one page, with the newest version of each key first."""
        entries_by_kind: dict[str, list[dict[str, Any]]] = {"Versions": [], "DeleteMarkers": []}
        for key, versions in sorted(self.versions.items()):
            if key.startswith(Prefix):
                for version_id, stored in reversed(versions.items()):
                    entry = {"Key": key, "VersionId": version_id, "IsLatest": version_id == self._newest_id(key)}
                    entries_by_kind["Versions" if stored is not None else "DeleteMarkers"].append(entry)
        return iter([{kind: entries for kind, entries in entries_by_kind.items() if entries}])

    def create_multipart_upload(self, *, Key: str, **_: Any) -> dict[str, Any]:
        self._upload_count += 1
        upload_id = f"upload-{self._upload_count}"
        self.uploads[upload_id] = Upload(Key, self.requester)
        return {"UploadId": upload_id}

    def upload_part(
        self,
        *,
        UploadId: str,
        PartNumber: int,
        Body: bytes,
        **_: Any,
    ) -> dict[str, Any]:
        part = StoredObject(bytes(Body), etag_of(bytes(Body)))
        self._upload("UploadPart", UploadId).parts[PartNumber] = part
        return {"ETag": part.etag}

    def copy_object(self, *, Key: str, CopySource: Mapping[str, str], **how: Any) -> dict[str, Any]:
        self.put(Key, self._data_to_copy("CopyObject", CopySource, **how))
        return {"CopyObjectResult": {"ETag": self.objects[Key].etag}} | self._version_field(Key)

    def upload_part_copy(
        self,
        *,
        UploadId: str,
        PartNumber: int,
        CopySource: Mapping[str, str],
        CopySourceRange: str,
        **how: Any,
    ) -> dict[str, Any]:
        data = self._data_to_copy("UploadPartCopy", CopySource, **how)
        first, last = map(int, CopySourceRange.removeprefix("bytes=").split("-"))
        if last >= len(data):
            raise refusal("UploadPartCopy", 416, "InvalidRange")
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
        uploaded_parts = self._upload("CompleteMultipartUpload", UploadId).parts
        parts = []
        for requested_part in MultipartUpload["Parts"]:
            part = uploaded_parts.get(requested_part["PartNumber"])
            if part is None or part.etag != requested_part["ETag"]:
                raise refusal("CompleteMultipartUpload", 400, "InvalidPart")
            parts.append(part)
        if not parts or any(len(part.data) < SMALLEST_PART_BYTES for part in parts[:-1]):
            raise refusal("CompleteMultipartUpload", 400, "EntityTooSmall")
        digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
        etag = f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'
        self._store(Key, StoredObject(b"".join(part.data for part in parts), etag))
        del self.uploads[UploadId]
        return {"ETag": etag} | self._version_field(Key)

    def list_multipart_uploads(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        entries = [
            {"Key": upload.key, "UploadId": upload_id}
            for upload_id, upload in self.uploads.items()
            if upload.key.startswith(Prefix)
        ]
        return iter([{"Uploads": entries[i : i + _PAGE_LENGTH]} for i in range(0, len(entries), _PAGE_LENGTH)] or [{}])

    def abort_multipart_upload(self, *, UploadId: str, **_: Any) -> dict[str, Any]:
        self._upload("AbortMultipartUpload", UploadId)
        del self.uploads[UploadId]
        return {}

    def _store(self, key: str, stored: StoredObject) -> None:
        self.objects[key], self._modified_at[key] = stored, self._clock.now(UTC)
        if self._keeps_versions:
            self.versions.setdefault(key, {})[self._new_version_id()] = stored

    def _stored_object(self, operation: str, key: str, version_id: str | None = None) -> StoredObject:
        if version_id is not None:
            if version_id not in self.versions.get(key, ()):
                raise refusal(operation, 404, "NoSuchVersion")
            stored = self.versions[key][version_id]
            if stored is None:
                raise refusal(operation, 405, "MethodNotAllowed")
            return stored
        if key not in self.objects:
            raise refusal(operation, 404, "NoSuchKey")
        return self.objects[key]

    def _version_field(self, key: str, version_id: str | None = None) -> dict[str, Any]:
        """Return the field of an answer that names the version, if the bucket keeps versions."""
        return {"VersionId": version_id or self._newest_id(key)} if self._keeps_versions else {}

    def _newest_id(self, key: str) -> str:
        return next(reversed(self.versions[key]))

    def _new_version_id(self) -> str:
        self._version_count += 1
        return f"version-{self._version_count}"

    def _delete_version(self, key: str, version_id: str) -> dict[str, Any]:
        """Delete a version for good; the version before it becomes the newest one again."""
        versions = self.versions.get(key, {})
        if versions.pop(version_id, None) is not None:
            self.deleted_versions.append(f"{key} {version_id}")
        newest = versions[self._newest_id(key)] if versions else None
        if newest is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = newest
        return {"VersionId": version_id}

    def _data_to_copy(
        self, operation: str, source: Mapping[str, str], CopySourceIfMatch: str | None = None, **_: Any
    ) -> bytes:
        stored = self._stored_object(operation, source["Key"], source.get("VersionId"))
        if CopySourceIfMatch is not None and CopySourceIfMatch.strip('"') != stored.etag.strip('"'):
            raise refusal(operation, 412, "PreconditionFailed")
        return stored.data

    def _upload(self, operation: str, upload_id: str) -> Upload:
        if upload_id not in self.uploads:
            raise refusal(operation, 404, "NoSuchUpload")
        return self.uploads[upload_id]


def refusal(operation: str, status: int, code: str) -> ClientError:
    """Return the error that botocore raises if S3 answers an operation with this status and error code."""
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)
