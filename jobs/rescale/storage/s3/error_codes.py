"""S3's error codes: the cause, whether another try may help, and what to do.

The codes are those in the list "Error responses" of Amazon's S3 API reference that our requests can get, and codes of
other stores: Ceph, MinIO, versitygw, and stores that refuse path-style addresses. `s3_errors` uses the HTTP status only
for codes that are not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.storage.s3.s3_advice import s3_advice


@dataclass(frozen=True)
class ErrorMeaning:
    """The meaning of an error code of S3 for a user.

    `is_retryable` codes become a `StoreError`, all others a `RequestError`.
    """

    cause: str
    advice: str
    is_retryable: bool = False


_ARCHIVED = ErrorMeaning(
    "the object is archived and cannot be read before it is restored",
    s3_advice(
        "restore this object and all others of the snapshot that a lifecycle rule has archived (aws s3api "
        "restore-object, or S3 Batch Operations for many), wait until S3 has done so, then {AGAIN}"
    ),
)
_UNKNOWN_KEY = ErrorMeaning(
    "the store does not know the access key",
    s3_advice("{KEYS}, and that {AWS_ENDPOINT_URL} is the store that they belong to"),
)
_WRONG_SECRET = ErrorMeaning(
    "the signature of the request is wrong",
    s3_advice(
        "check that {AWS_SECRET_ACCESS_KEY} belongs to {AWS_ACCESS_KEY_ID}. If it does, a proxy on the way "
        "changes requests"
    ),
)
_EXPIRED = ErrorMeaning("the credentials have expired", s3_advice("{KEYS}: get new ones, then {AGAIN}"))
_INVALID_TOKEN = ErrorMeaning(
    "the session token is not valid",
    s3_advice(
        "set {AWS_SESSION_TOKEN} to the token that was issued with these keys, or unset it if they are permanent"
    ),
)
_UNSIGNED = ErrorMeaning("the store requires a signed request with valid credentials", s3_advice("{KEYS}"))
_WRONG_CLOCK = ErrorMeaning("the clock of this machine is wrong", s3_advice("set the clock, then {AGAIN}"))
_BLOCKED_ACCOUNT = ErrorMeaning(
    "the account may not use S3",
    "credentials and policies are not the cause: ask the owner of the account, or AWS Support, for the state of the "
    "account",
)
_BLOCKED_PAYER = ErrorMeaning(
    "the account of the requester may not be charged for this bucket",
    s3_advice(
        "credentials are not the cause: ask the owner of the account for its state; {PAYER} needs an account "
        "in good standing"
    ),
)
_OTHER_REGION = ErrorMeaning(
    "the bucket is in another region than the request was sent to", s3_advice("set {AWS_REGION} to the bucket's region")
)
REDIRECTED = ErrorMeaning(
    "the endpoint redirects requests to another address",
    s3_advice(
        "let {AWS_ENDPOINT_URL} name the S3 API of the store itself: not a login page, and with https:// if the store "
        "demands it"
    ),
)
"""The meaning of a redirect that S3 did not send: a redirect from S3 names the region of the bucket."""

_NO_BUCKET = ErrorMeaning("there is no such bucket", "create it, or name another bucket")
_INVALID_BUCKET_NAME = ErrorMeaning("no bucket can have this name", "name another bucket")
_NO_ACCESS_POINT = ErrorMeaning(
    "there is no such access point, or it cannot be used this way", "name the bucket, or an access point that exists"
)
_TOO_LONG_KEY = ErrorMeaning("no object can have a name of this length", "use a shorter path")
_INVALID_ADDRESS = ErrorMeaning("the store cannot interpret the address of the request", "use another path")
_INVALID_KMS_KEY = ErrorMeaning(
    "the KMS key of the bucket or the object cannot be used",
    s3_advice(
        "access keys are not the cause: enable the key in KMS, or let {AWS_SSE_KMS_KEY_ID} name a symmetric key that "
        "exists in the bucket's region"
    ),
)
WRONG_ENCRYPTION = ErrorMeaning(
    "the encryption headers of the request do not match the object or the bucket",
    s3_advice(
        "set {AWS_SERVER_SIDE_ENCRYPTION} and {AWS_SSE_KMS_KEY_ID} to what the bucket demands, or "
        "{AWS_SSE_CUSTOMER_KEY_BASE64} to the key that the objects were written with; unset them for a bucket "
        "that demands none"
    ),
)
_SIGNATURE_VERSION = ErrorMeaning(
    "the store does not accept this kind of signature or address",
    s3_advice(
        "let {AWS_ENDPOINT_URL} name the S3 API of the store, and unset settings of s3 and signature_version "
        "in the AWS configuration file"
    ),
)
_PATH_STYLE = ErrorMeaning(
    "the store refuses requests with the bucket in the path (path style)",
    s3_advice("keys and policies are not the cause: set {HOSTED}, so that the bucket becomes part of the host name"),
)
_NOT_SUPPORTED = ErrorMeaning(
    "the store does not support this request",
    s3_advice("let {AWS_ENDPOINT_URL} name the S3 API of the store; if it does, use a store that supports the request"),
)
_TOO_LARGE = ErrorMeaning(
    "the store does not accept an object, or a part of one, of this size",
    "raise the store's limit, or use a store without this limit",
)
_BUSY = ErrorMeaning(
    "the store is busy",
    s3_advice("wait a little, then {AGAIN}. If the store stays busy, run fewer tasks at once"),
    is_retryable=True,
)
_FAILED = ErrorMeaning("the store failed", s3_advice("{AGAIN}"), is_retryable=True)
_BROKEN_TRANSFER = ErrorMeaning(
    "the request was changed on the way to the store",
    s3_advice("check the network and proxies on the way, then {AGAIN}"),
    is_retryable=True,
)
_CONCURRENT_CHANGE = ErrorMeaning(
    "another request changed the object or its upload meanwhile", s3_advice("{AGAIN}"), is_retryable=True
)
STORE_FULL = ErrorMeaning(
    "the store has no room left",
    s3_advice("free space, or raise the quota of the bucket, then {AGAIN}"),
    is_retryable=True,
)

_CODES_BY_MEANING: dict[ErrorMeaning, tuple[str, ...]] = {
    _ARCHIVED: ("InvalidObjectState",),
    _UNKNOWN_KEY: ("InvalidAccessKeyId", "XAdminUserNotFound"),
    _WRONG_SECRET: ("SignatureDoesNotMatch",),
    _EXPIRED: ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
    _INVALID_TOKEN: ("InvalidToken", "InvalidSessionException", "TokenCodeInvalidError"),
    _UNSIGNED: (
        *("MissingAuthenticationToken", "MissingSecurityHeader", "MissingSecurityElement", "InvalidSecurity"),
        *("CredentialsNotSupported", "AuthorizationQueryParametersError"),
    ),
    _WRONG_CLOCK: ("RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"),
    _BLOCKED_ACCOUNT: (
        *("AccountProblem", "AllAccessDisabled", "NotSignedUp", "UnauthorizedAccess", "UnauthorizedAccessError"),
        *("NotDeviceOwnerError", "UserSuspended"),
    ),
    _BLOCKED_PAYER: ("InvalidPayer",),
    _OTHER_REGION: (
        *("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"),
        *("InvalidRegion", "IncorrectEndpoint", "InvalidLocationConstraint"),
    ),
    _NO_BUCKET: ("NoSuchBucket",),
    _INVALID_BUCKET_NAME: ("InvalidBucketName",),
    _NO_ACCESS_POINT: (
        *("NoSuchAccessPoint", "NoSuchMultiRegionAccessPoint", "InvalidAccessPoint", "InvalidAccessPointAliasError"),
        *("EndpointNotFound", "InvalidBucketState"),
    ),
    _TOO_LONG_KEY: ("KeyTooLongError",),
    _INVALID_ADDRESS: ("InvalidURI", "XMinioInvalidObjectName", "XMinioInvalidResourceName"),
    _INVALID_KMS_KEY: (
        *("KMS.DisabledException", "KMS.NotFoundException", "KMS.KMSInvalidStateException"),
        *("KMS.InvalidStateException", "KMS.InvalidKeyUsageException", "KMS.KeyUnavailableException"),
    ),
    WRONG_ENCRYPTION: ("InvalidEncryptionAlgorithmError", "ServerSideEncryptionConfigurationNotFoundError"),
    _SIGNATURE_VERSION: (
        *("InvalidSignature", "UnsupportedSignature", "InvalidHostHeader", "InvalidAddressingHeader"),
        "InvalidHttpMethod",
    ),
    _PATH_STYLE: (  # codes of Alibaba OSS, Tencent COS, Huawei OBS and Volcengine TOS
        *("SecondLevelDomainForbidden", "PathStyleDomainForbidden", "VirtualHostDomainRequired", "InvalidPathAccess"),
    ),
    _NOT_SUPPORTED: (
        *("NotImplemented", "MethodNotAllowed", "MissingContentLength", "UnsupportedArgument", "UnexpectedContent"),
        *("InvalidArgument", "InvalidRequest", "MalformedXML", "MissingRequestBodyError", "InvalidStorageClass"),
        *("RequestHeaderSectionTooLarge", "MetadataTooLarge", "InvalidDigest", "CrossLocationLoggingProhibited"),
    ),
    _TOO_LARGE: ("EntityTooLarge", "EntityTooSmall"),
    _BUSY: (
        *("SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "BandwidthLimitExceeded", "RequestThrottled"),
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException", "TooManyRequests"),
        *(
            "TooManyRequestsException",
            "PriorRequestNotComplete",
            "KMS.ThrottlingException",
            "XMinioServerNotInitialized",
        ),
    ),
    _FAILED: (
        *("InternalError", "InternalFailure", "KMS.KMSInternalException", "KMS.InternalException"),
        *("KMS.DependencyTimeoutException", "RequestTimeout", "ResponseInterrupted"),
    ),
    _BROKEN_TRANSFER: (
        *("BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "ConnectionClosedByRequester"),
        "XAmzContentChecksumMismatch",
    ),
    _CONCURRENT_CHANGE: (
        *("OperationAborted", "ConditionalRequestConflict", "NoSuchUpload", "InvalidPart", "InvalidPartOrder"),
        *("ClientTokenConflict", "RestoreAlreadyInProgress"),
    ),
    STORE_FULL: (
        *("QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage"),
        "InsufficientCapacity",
    ),
}

MEANING_BY_CODE = {code: meaning for meaning, codes in _CODES_BY_MEANING.items() for code in codes}
"""The meaning of each code."""


KMS_DENIED = ErrorMeaning(
    "the KMS key of the bucket or the object may not be used",
    "allow these credentials kms:Decrypt to read and kms:GenerateDataKey to write, in the policy of the key",
)
"""The meaning of `AccessDenied` if the message names an action of KMS."""
