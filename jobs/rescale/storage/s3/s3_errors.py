"""What S3 and boto3 report, as our errors: who must act, and whether another try may help.

Answers are told apart by their HTTP status first, because a HEAD has no body and stores differ in their codes. boto3
has retried throttling, 5xx and lost connections with back-off before any of this is seen.
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
    NoCredentialsError,
    PartialCredentialsError,
)

from rescale.errors import LockedError, RequestError, RescaleError, StoreError

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

_EXPIRED = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired")
_WRONG_CLOCK = ("RequestTimeTooSkewed", "RequestExpired")
_ELSEWHERE = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_NOBODY = "XAdminUserNotFound"
"""What versitygw calls an access key that it does not know, with the status of what is not there."""
_NO_CONDITIONS = ("InvalidArgument", "InvalidRequest", "NotImplemented", "BadRequest", "400")
_TRANSIENT = (HTTPClientError, ConnectionError, IncompleteReadError, FlexibleChecksumError, CredentialRetrievalError)
_CHECKSUM = re.compile(r"Content-MD5|x-amz-checksum-", re.IGNORECASE)
_LOCK = re.compile(r"object.?lock|\bWORM\b|retention ?policy|legal hold", re.IGNORECASE)
_USER_INFO = re.compile(r"(\w+://)?[^\s\"]*@")
_BAD_HEADER = "Invalid header value"
"""What `http.client` says, with the value behind it."""
_UNTRUSTED = "certificate verify failed"
"""What OpenSSL says."""
_CREDENTIALS = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or AWS_PROFILE)"


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """Errors of boto3 in the block as ours."""
    try:
        yield
    except ClientError as error:
        raise _of_answer(error, uri) from None
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise RequestError(f"no credentials for S3: {sentence(error)}", path=uri, advice=_CREDENTIALS) from None
    except UnicodeEncodeError:
        raise RequestError("no object can have this name", path=ascii(uri), advice="name another place") from None
    except (*_TRANSIENT, OSError) as error:
        if _BAD_HEADER in str(error):
            advice = f"{_CREDENTIALS}: is there a line break in one of them?"
            raise RequestError("a key or a token has signs that no request may have", path=uri, advice=advice) from None
        if _UNTRUSTED in str(error):
            advice = "let AWS_CA_BUNDLE name the file with the certificate of who has signed it, or mend the endpoint"
            what = f"the endpoint of S3 has a certificate that is not trusted: {sentence(error)}"
            raise RequestError(what, path=uri, advice=advice) from None
        advice = "check the endpoint of S3 and the network, then run the same command again"
        raise StoreError(f"S3 cannot be reached: {sentence(error)}", path=uri, advice=advice) from None
    except BotoCoreError as error:
        raise RequestError(
            f"the request to S3 cannot be made: {sentence(error)}",
            path=uri,
            advice="check the name of the bucket and the AWS variables",
        ) from None


def status_of(error: ClientError) -> int:
    """The HTTP status of the answer."""
    return error.response["ResponseMetadata"]["HTTPStatusCode"]


def code_of(error: ClientError) -> str:
    """S3's code, such as `NoSuchKey`; the status as text where the answer had no body."""
    return error.response["Error"].get("Code", str(status_of(error)))


def is_absent(error: ClientError) -> bool:
    """Whether the object, and no more than the object, is not there."""
    return status_of(error) == 404 and code_of(error) not in ("NoSuchBucket", _NOBODY)


def refuses_conditions(error: ClientError) -> bool:
    """Whether the answer to a conditional put says that the store does not know the condition."""
    if wants_checksum(error):
        return False
    return status_of(error) == 501 or (status_of(error) == 400 and code_of(error) in _NO_CONDITIONS)


def refuses_copies(error: ClientError) -> bool:
    """Whether the answer to a copy says that the store makes none here, be it that it may not or that it cannot.

    Who may not read or put at all will see so when he tries.
    """
    return status_of(error) in (403, 405, 501) or (status_of(error) == 400 and code_of(error) not in _EXPIRED)


def wants_checksum(error: ClientError) -> bool:
    """As S3 does of every object that will be locked."""
    return status_of(error) == 400 and _CHECKSUM.search(error.response["Error"].get("Message", "")) is not None


def is_locked(error: ClientError) -> bool:
    """Whether the answer says that an object must be neither deleted nor replaced yet, in the words of some stores."""
    if status_of(error) not in (400, 403) or wants_checksum(error):
        return False
    return _LOCK.search(f"{code_of(error)} {error.response['Error'].get('Message', '')}") is not None


def lock_of(head: HeadObjectOutputTypeDef) -> str | None:
    """How long an object is locked, as far as the answer to a HEAD says."""
    until, held = head.get("ObjectLockRetainUntilDate"), head.get("ObjectLockLegalHoldStatus") == "ON"
    words = [f"locked until {until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"] if until is not None else []
    words += ["under a legal hold, which somebody has to end"] if held else []
    return " and ".join(words) or None


def _of_answer(error: ClientError, uri: str) -> RescaleError:
    status, code = status_of(error), code_of(error)
    message = error.response["Error"].get("Message", "") or str(error)
    if code == "NoSuchBucket":
        return RequestError("there is no such bucket", path=uri, advice="create it, or name another")
    if code == "InvalidBucketName":
        return RequestError("no bucket can have this name", path=uri, advice="name another")
    if code in _ELSEWHERE:
        return RequestError(
            f"the bucket lies in another region: {message}", path=uri, advice="set AWS_REGION to the bucket's region"
        )
    if wants_checksum(error):
        advice = "set AWS_REQUEST_CHECKSUM_CALCULATION=when_supported, then run the same command again"
        return RequestError(f"the bucket takes no object without a checksum: {message}", path=uri, advice=advice)
    if is_locked(error):
        return LockedError(
            f"S3 neither deletes nor replaces an object that is locked: {message}",
            path=uri,
            found=code,
            advice="it stays, and does no harm: nothing is a checkpoint without its _metadata. When its lock has ended "
            "run the same command again; until then name another target",
        )
    if code in _WRONG_CLOCK:
        advice = "set the clock of this machine, then run the same command again"
        return RequestError(f"S3 denies access: {message}", path=uri, found=code, advice=advice)
    if code in _EXPIRED:
        advice = f"{_CREDENTIALS}: they have expired; with new ones run the same command again"
        return RequestError(f"S3 denies access: {message}", path=uri, found=code, advice=advice)
    if status in (401, 403) or code == _NOBODY:
        advice = f"{_CREDENTIALS}, and the bucket's policy"
        return RequestError(f"S3 denies access: {message}", path=uri, found=code, advice=advice)
    if code == "KeyTooLongError":
        return RequestError("no object can have a name of this length", path=uri, advice="name another place")
    return StoreError(f"S3 says: {message}", path=uri, found=code)


def sentence(error: BaseException) -> str:
    """What an error says, on one line; who names an endpoint with a password in it does not want to read that."""
    return _USER_INFO.sub(r"\1…@", " ".join(str(error).split()))
