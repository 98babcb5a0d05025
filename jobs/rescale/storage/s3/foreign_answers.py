"""Answers with status 200 that S3 does not give, such as a web page of a proxy, or no content.

botocore would take them for success: a listing without objects, a copy that was made. It retries answers with status
200 only if their content is an error of S3, or no XML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NEEDED_NAME_BY_OPERATION = {
    "CreateMultipartUpload": "UploadId",
    "UploadPartCopy": "ETag",
    "CopyObject": "ETag",
    "CompleteMultipartUpload": "ETag",
    "ListObjectsV2": "ListBucketResult",
    "ListMultipartUploads": "ListMultipartUploadsResult",
}
"""Name of an XML element that the answer of S3 has, by operation."""

_ETAG_OPERATIONS = ("PutObject", "UploadPart")
"""Operations whose answer has no content, but an ETag in its header."""

_SHOWN_CHARACTERS = 100
"""Number of characters of the content that an error shows."""


def retry_foreign_answers(client: S3Client) -> None:
    """Make `client` retry answers that are not from S3 as it retries a 503; the last one becomes an error."""

    def check(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
        operation, status = operation_model.name, response_dict["status_code"]
        if status >= 300 or operation not in (
            *_NEEDED_NAME_BY_OPERATION,
            *_ETAG_OPERATIONS,
        ):  # others may send a stream
            return
        content, needed_name = (
            response_dict["body"].decode("utf-8", "replace"),
            _NEEDED_NAME_BY_OPERATION.get(operation),
        )
        if needed_name is None:
            is_foreign = not response_dict["headers"].get("ETag")
        else:
            is_foreign = needed_name not in content and "<Error" not in content
        if is_foreign:
            shown_text = escape(" ".join(content[:_SHOWN_CHARACTERS].split()) or "no content")
            what = f"the answer to {operation} has status {status} without {needed_name or 'an ETag'}"
            response_dict["status_code"] = 503
            response_dict["body"] = f"<Error><Code>{shown_text}</Code><Message>{what}</Message></Error>".encode()

    client.meta.events.register_first("before-parse.s3", check)
