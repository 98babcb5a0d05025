"""PutObject and UploadPart, with a checksum if the bucket requires one, as S3's buckets with object lock do.

The checksum is Content-MD5, which every store knows. It is computed only for buckets that have refused a
request without a checksum.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from rescale.storage.s3.s3_errors import wants_checksum

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")


class ObjectPuts:
    """Sends PutObject and UploadPart with a client. Raises boto3's errors."""

    def __init__(self, client: S3Client) -> None:
        self._client = client
        self._checksum_buckets: set[str] = set()

    def put_object(self, bucket: str, key: str, data: bytes | bytearray, **options: Any) -> None:
        self._put(lambda **checksum: self._client.put_object(Key=key, **checksum, **options), bucket, data)

    def upload_part(self, bucket: str, key: str, data: bytes | bytearray, **options: Any) -> str:
        """Upload a part and return its ETag."""
        answer = self._put(lambda **checksum: self._client.upload_part(Key=key, **checksum, **options), bucket, data)
        return answer["ETag"]

    def _put(self, put: Callable[..., T], bucket: str, data: bytes | bytearray) -> T:
        parameters: dict[str, Any] = {"Bucket": bucket, "Body": data}
        if bucket not in self._checksum_buckets:
            try:
                return put(**parameters)
            except ClientError as error:
                if not wants_checksum(error):
                    raise
                self._checksum_buckets.add(bucket)
        md5 = hashlib.md5(data, usedforsecurity=False).digest()
        return put(**parameters, ContentMD5=base64.b64encode(md5).decode())
