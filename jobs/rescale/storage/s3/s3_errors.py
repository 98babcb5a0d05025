"""Turns errors of S3 and boto3 into Rescale's errors, which say who must act and whether another try may help.

`error_codes` has the meaning of S3's codes. The HTTP status decides about answers without a known code: the answer to a
HEAD has no body, and some stores have codes of their own. Before an error arrives here, boto3 has retried throttling,
5xx and lost connections with back-off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004
    CredentialRetrievalError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    MissingDependencyException,
    NoCredentialsError,
    PartialCredentialsError,
)

from rescale.storage.locations import split_s3
from rescale.storage.s3.error_codes import (
    KMS_DENIED,
    MEANING_BY_CODE,
    REDIRECTED,
    STORE_FULL,
    WRONG_ENCRYPTION,
    ErrorMeaning,
)
from rescale.storage.s3.s3_advice import s3_advice
from rescale.storage.s3.side_errors import with_store_named
from rescale.storage.sides import side_of
from rescale.text.errors import LockedError, RequestError, RescaleError, StoreError

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

_NO_CONDITIONS_CODES = ("InvalidArgument", "InvalidRequest", "NotImplemented", "BadRequest", "400")
_TRANSIENT_ERRORS = (
    HTTPClientError,
    ConnectionError,
    IncompleteReadError,
    FlexibleChecksumError,
    CredentialRetrievalError,
)
_CHECKSUM_HEADER = re.compile(r"Content-MD5|x-amz-checksum-", re.IGNORECASE)
_LOCK_WORDS = re.compile(r"object.?lock|\bWORM\b|retention ?policy|legal hold", re.IGNORECASE)
_USER_INFO = re.compile(r"(\w+://)?[^\s\"]*@")
_BAD_HEADER_MESSAGE = "Invalid header value"
"""Beginning of the message of `http.client` about an invalid value of a header."""
_UNTRUSTED_CERTIFICATE_MESSAGE = "certificate verify failed"
"""Part of OpenSSL's message about a certificate that is not trusted."""

_OTHER_404_CODES = ("NoSuchBucket", "XAdminUserNotFound", "NoSuchAccessPoint", "NoSuchMultiRegionAccessPoint")
"""Codes with status 404 that are not about the object. `XAdminUserNotFound` is versitygw's code for an unknown access
key.
"""

_ENCRYPTION_WORDS = re.compile(r"encrypt|\bSSE\b|customer.provided", re.IGNORECASE)
_KMS_ACTION = re.compile(r"\bkms:", re.IGNORECASE)
_AMBIGUOUS_CODES = ("InvalidRequest", "InvalidArgument", "BadRequest", "AccessDenied")
"""Codes that stand for many faults, which only the message tells apart."""

_NOT_ABOUT_COPIES = (
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "RequestTimeout",
    "KMS.ThrottlingException",
)
"""Codes with status 400 that any request may get. So they do not show that the store refuses copies."""

_WRITE_OPERATIONS = ("PutObject", "CreateMultipartUpload", "UploadPart", "CopyObject", "UploadPartCopy")
_DENIED_STATUSES = (401, 403)
_NO_ROOM_STATUS = 507
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


@contextmanager
def translated_errors(uri: str) -> Iterator[None]:
    """Turn errors of boto3 in the block into Rescale's, which name the store if source and target are in two stores."""
    try:
        yield
    except (ClientError, BotoCoreError, UnicodeEncodeError, OSError) as error:
        raise with_store_named(_translated_error(error, uri), side_of(uri)) from None


def _translated_error(error: Exception, uri: str) -> RescaleError:
    if isinstance(error, ClientError):
        return _answer_error(error, uri)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return RequestError(f"no credentials for S3: {one_line_message(error)}", path=uri, advice=s3_advice("{KEYS}"))
    if isinstance(error, UnicodeEncodeError):
        return RequestError("no object can have this name", path=ascii(uri), advice="use another path")
    if isinstance(error, MissingDependencyException):
        return _missing_library_error(error, uri)
    if not isinstance(error, (*_TRANSIENT_ERRORS, OSError)):
        what = f"the request to S3 cannot be made: {one_line_message(error)}"
        return RequestError(what, path=uri, advice=s3_advice("{BUCKET}"))
    if _BAD_HEADER_MESSAGE in str(error):
        what = "a key or a token has characters that HTTP headers cannot have"
        return RequestError(what, path=uri, advice=s3_advice("{KEYS}: is there a line break in one of them?"))
    if _UNTRUSTED_CERTIFICATE_MESSAGE in str(error):
        advice = s3_advice("let {AWS_CA_BUNDLE} name a file with the certificate of the authority that signed it")
        what = f"the endpoint of S3 has a certificate that is not trusted: {one_line_message(error)}"
        return RequestError(what, path=uri, advice=advice)
    advice = s3_advice("check the endpoint of S3 and the network, then {AGAIN}")
    return StoreError(f"S3 cannot be reached: {one_line_message(error)}", path=uri, advice=advice)


def status_of(error: ClientError) -> int:
    """Return the HTTP status of the answer."""
    return error.response["ResponseMetadata"]["HTTPStatusCode"]


def code_of(error: ClientError) -> str:
    """Return S3's code, such as `NoSuchKey`; the status as text if the answer has no body."""
    return error.response["Error"].get("Code", str(status_of(error)))


def is_absent(error: ClientError) -> bool:
    """Return whether the object does not exist, but its bucket does."""
    return status_of(error) == 404 and code_of(error) not in _OTHER_404_CODES


def refuses_conditions(error: ClientError) -> bool:
    """Return whether a store refuses a conditional put because it does not support the condition."""
    if wants_checksum(error):
        return False
    return status_of(error) == 501 or (status_of(error) == 400 and code_of(error) in _NO_CONDITIONS_CODES)


def refuses_copies(error: ClientError) -> bool:
    """Return whether the store refuses the copy: it does not support copies, or the credentials do not allow this one.

    If the credentials allow nothing at all, the reads and puts that replace the copy report that.
    """
    if status_of(error) in (403, 405, 501):
        return True
    return status_of(error) == 400 and code_of(error) not in _NOT_ABOUT_COPIES


def wants_checksum(error: ClientError) -> bool:
    """Return whether the bucket requires a checksum, as S3's buckets with object lock do."""
    return status_of(error) == 400 and _CHECKSUM_HEADER.search(error.response["Error"].get("Message", "")) is not None


def is_locked(error: ClientError) -> bool:
    """Return whether a lock forbids deleting or replacing an object; the wording differs between stores."""
    if status_of(error) not in (400, 403) or wants_checksum(error):
        return False
    return _LOCK_WORDS.search(f"{code_of(error)} {error.response['Error'].get('Message', '')}") is not None


def lock_of(head: HeadObjectOutputTypeDef) -> str | None:
    """Return until when an object is locked, as text; None if the answer to a HEAD names no lock."""
    locked_until, has_hold = head.get("ObjectLockRetainUntilDate"), head.get("ObjectLockLegalHoldStatus") == "ON"
    details = [f"locked until {locked_until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"] if locked_until is not None else []
    details += ["under a legal hold that somebody has to end"] if has_hold else []
    return " and ".join(details) or None


def _answer_error(error: ClientError, uri: str) -> RescaleError:
    message = _message_of(error)
    if wants_checksum(error):
        advice = s3_advice("{CHECKSUMS}, then {AGAIN}")
        return RequestError(f"the bucket requires a checksum of every object: {message}", path=uri, advice=advice)
    if is_locked(error):
        return LockedError(
            f"S3 neither deletes nor replaces an object that is locked: {message}",
            path=uri,
            found=code_of(error),
            advice=s3_advice(
                "the object stays, and does no harm: without _metadata it is no checkpoint. When the lock has ended, "
                "{AGAIN}; until then, name another target"
            ),
        )
    meaning = _meaning_of(error)
    error_type = StoreError if meaning.is_retryable else RequestError
    return error_type(f"{meaning.cause}: {message}", path=uri, found=_found_text(error), advice=meaning.advice)


def _missing_library_error(error: MissingDependencyException, uri: str) -> RequestError:
    """Return the error for a request for which boto3 needs awscrt, such as to multi-region access points (SigV4A)."""
    request, alternative = "this request", ""
    if split_s3(uri)[0].endswith(".mrap"):
        request, alternative = "a request to a multi-region access point", ", or name an access point of one region"
    return RequestError(
        f"{request} needs the library awscrt, which is not installed here",
        path=uri,
        found=one_line_message(error),
        advice=f"install it wherever Rescale runs (pip install awscrt){alternative}",
    )


def _meaning_of(error: ClientError) -> ErrorMeaning:
    """Return the cause and the advice for an answer; an unknown code is worth another try."""
    status, code, message = status_of(error), code_of(error), _message_of(error)
    if status in _DENIED_STATUSES and _KMS_ACTION.search(message):
        return KMS_DENIED
    if code in _AMBIGUOUS_CODES and _ENCRYPTION_WORDS.search(message):
        return WRONG_ENCRYPTION
    if (meaning := MEANING_BY_CODE.get(code)) is not None:
        return meaning
    if status in _REDIRECT_STATUSES and code in ("", str(status)):
        return REDIRECTED
    if status == _NO_ROOM_STATUS:
        return STORE_FULL
    if status in _DENIED_STATUSES:
        return _denial(error)
    return ErrorMeaning("the request to S3 failed", s3_advice("{AGAIN}"), is_retryable=True)


def _denial(error: ClientError) -> ErrorMeaning:
    """Return the meaning of an answer that denies access without a reason: one of several settings may be missing."""
    advice = [
        "{KEYS}, and the bucket's policy",
        "a bucket whose requesters pay needs {PAYER}",
    ]
    if error.operation_name in _WRITE_OPERATIONS:
        advice.append("a policy that requires encryption headers needs {AWS_SERVER_SIDE_ENCRYPTION}")
    else:
        advice.append("an object encrypted with your own key (SSE-C) needs {AWS_SSE_CUSTOMER_KEY_BASE64}")
    return ErrorMeaning("S3 denies access", s3_advice("; ".join(advice)))


def _message_of(error: ClientError) -> str:
    return error.response["Error"].get("Message", "") or str(error)


def _found_text(error: ClientError) -> str:
    """Return the code, and the storage class of an archived object or the address to which a request is redirected."""
    storage_class = error.response["Error"].get("StorageClass")
    address = error.response["ResponseMetadata"].get("HTTPHeaders", {}).get("location")
    if address and status_of(error) in _REDIRECT_STATUSES:
        return f"status {status_of(error)}, to {address}"
    return f"{code_of(error)}, storage class {storage_class}" if storage_class else code_of(error)


def one_line_message(error: BaseException) -> str:
    """Return the message of an error on one line, without the password of an endpoint."""
    return _USER_INFO.sub(r"\1…@", " ".join(str(error).split()))
