"""Each error answer of S3 and each failure of boto3 becomes an error whose class says who can solve it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from io import BytesIO

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from rescale.storage.contract import Pin
from rescale.storage.s3.s3_client import client_for
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import LockedError, RequestError, RescaleError, SnapshotError, StoreError, UnsupportedError
from support.s3 import S3Server, closed_port

_URI = "s3://bucket/key"
_OPERATIONS: dict[str, Callable[[S3Store], object]] = {
    "head_object": lambda store: store.stat(_URI),
    "get_object": lambda store: store.read(_URI, 5, 3),
    "put_object": lambda store: store.put(_URI, b"x"),
    "list_objects_v2": lambda store: store.list(_URI),
    "delete_object": lambda store: store.delete([_URI]),
    "create_multipart_upload": lambda store: store.begin_parts(_URI, ""),
    "upload_part": lambda store: store.put_part(_URI, "token", 1, 0, b"x"),
    "list_multipart_uploads": lambda store: store.abort_parts(_URI),
}


@pytest.fixture(scope="module")
def store() -> S3Store:
    """Return a store for all tests of this file; each test sets the answers that it gets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
        return S3Store(client_for())


@pytest.mark.parametrize("operation", _OPERATIONS)
@pytest.mark.parametrize(
    ("code", "status", "error_class", "advice"),
    [
        ("AccessDenied", 403, RequestError, "AWS_ACCESS_KEY_ID"),
        ("403", 403, RequestError, "AWS_REQUEST_PAYER"),
        ("XAdminUserNotFound", 404, RequestError, "AWS_ACCESS_KEY_ID"),
        ("InvalidAccessKeyId", 403, RequestError, "AWS_ENDPOINT_URL"),
        ("SignatureDoesNotMatch", 403, RequestError, "AWS_SECRET_ACCESS_KEY"),
        ("InvalidToken", 400, RequestError, "AWS_SESSION_TOKEN"),
        ("ExpiredToken", 400, RequestError, "get new ones"),
        ("RequestTimeTooSkewed", 403, RequestError, "set the clock"),
        ("InvalidObjectState", 403, RequestError, "restore-object"),
        ("InvalidPayer", 403, RequestError, "credentials are not the cause"),
        ("AllAccessDisabled", 403, RequestError, "state of the account"),
        ("AccountProblem", 403, RequestError, "state of the account"),
        ("NotSignedUp", 403, RequestError, "state of the account"),
        ("InvalidRegion", 403, RequestError, "AWS_REGION"),
        ("NoSuchBucket", 404, RequestError, "create it"),
        ("SecondLevelDomainForbidden", 403, RequestError, "keys and policies are not the cause"),
        ("PathStyleDomainForbidden", 403, RequestError, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true"),
        ("VirtualHostDomainRequired", 400, RequestError, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true"),
        ("InvalidPathAccess", 403, RequestError, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true"),
        ("NoSuchAccessPoint", 404, RequestError, "an access point"),
        ("InvalidBucketName", 400, RequestError, "name another"),
        ("PermanentRedirect", 301, RequestError, "AWS_REGION"),
        ("AuthorizationHeaderMalformed", 400, RequestError, "AWS_REGION"),
        ("KMS.DisabledException", 400, RequestError, "AWS_SSE_KMS_KEY_ID"),
        ("InvalidEncryptionAlgorithmError", 400, RequestError, "AWS_SERVER_SIDE_ENCRYPTION"),
        ("MethodNotAllowed", 405, RequestError, "AWS_ENDPOINT_URL"),
        ("NotImplemented", 501, RequestError, "AWS_ENDPOINT_URL"),
        ("EntityTooLarge", 400, RequestError, "limit"),
        ("KeyTooLongError", 400, RequestError, "shorter path"),
        ("QuotaExceeded", 403, StoreError, "quota"),
        ("507", 507, StoreError, "free space"),
        ("SlowDown", 503, StoreError, "wait"),
        ("ThrottlingException", 403, StoreError, "wait"),
        ("KMS.ThrottlingException", 400, StoreError, "wait"),
        ("InternalError", 500, StoreError, "again"),
        ("RequestTimeout", 400, StoreError, "again"),
        ("BadDigest", 400, StoreError, "network"),
        ("OperationAborted", 409, StoreError, "again"),
        ("BadRequest", 400, StoreError, "again"),
    ],
)
def test_error_answers_of_s3_become_errors_with_advice(
    store: S3Store, operation: str, code: str, status: int, error_class: type[RescaleError], advice: str
) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error(operation, code, "what S3 said", status)
        if (operation, code) == ("head_object", "403"):  # an answer without a body, so a GET asks for the reason
            stub.add_client_error("get_object", "AccessDenied", "what S3 said", status)
        error = _error_of(lambda: _OPERATIONS[operation](store))
    assert type(error) is error_class
    assert advice in (error.advice or "")
    assert error.found in (code, "AccessDenied")
    assert "s3://bucket" in (error.path or "")
    assert type(RescaleError.of_document(error.document())) is error_class, (
        "the class survives the way to another process"
    )


@pytest.mark.parametrize(
    ("operation", "code", "status", "message", "advice"),
    [
        (
            "get_object",
            "InvalidRequest",
            400,
            "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to "
            "retrieve the object.",
            "AWS_SSE_CUSTOMER_KEY_BASE64",
        ),
        (
            "get_object",
            "InvalidRequest",
            400,
            "The encryption parameters are not applicable to this object.",
            "AWS_SSE_CUSTOMER_KEY_BASE64",
        ),
        (
            "put_object",
            "InvalidArgument",
            400,
            "Requests specifying Server Side Encryption with AWS KMS managed keys must be made over a secure link",
            "AWS_SERVER_SIDE_ENCRYPTION",
        ),
        (
            "get_object",
            "AccessDenied",
            403,
            "User: arn:aws:iam::1:user/a is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:::key/b "
            "because no identity-based policy allows the kms:Decrypt action",
            "kms:Decrypt",
        ),
        (
            "put_object",
            "AccessDenied",
            403,
            "User: arn:aws:iam::1:user/a is not authorized to perform: s3:PutObject with an explicit deny in a "
            "resource-based policy",
            "AWS_SERVER_SIDE_ENCRYPTION",
        ),
    ],
)
def test_advice_for_a_general_error_code_follows_its_message(
    store: S3Store, operation: str, code: str, status: int, message: str, advice: str
) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error(operation, code, message, status)
        error = _error_of(lambda: _OPERATIONS[operation](store))
    assert type(error) is RequestError
    assert advice in (error.advice or "")


def test_archived_object_is_refused_with_advice_to_restore_it(s3: S3Server) -> None:
    bucket = s3.new_bucket("cold")
    s3.client().put_object(Bucket=bucket, Key="sp/state", Body=b"state", StorageClass="GLACIER")
    store = S3Store()
    uri = f"s3://{bucket}/sp/state"
    assert store.stat(uri) is not None, "S3 still answers a HEAD request"
    error = _error_of(lambda: store.read(uri, 0, 3))
    assert type(error) is RequestError
    assert (error.path, error.found) == (uri, "InvalidObjectState, storage class GLACIER")
    assert "restore-object" in (error.advice or "")
    assert "AWS_ACCESS_KEY_ID" not in (error.advice or "")


@pytest.mark.parametrize(
    ("code", "status", "error_class"),
    [("NoSuchKey", 404, SnapshotError), ("404", 404, SnapshotError), ("InvalidRange", 416, SnapshotError)],
)
def test_missing_or_short_object_is_a_snapshot_error(
    store: S3Store, code: str, status: int, error_class: type[RescaleError]
) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error("get_object", code, "", status)
        assert type(_error_of(lambda: store.read(_URI, 5, 3))) is error_class


def test_stat_and_delete_accept_an_absent_object(store: S3Store) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error("head_object", "404", "Not Found", 404)
        assert store.stat(_URI) is None
        stub.add_client_error("delete_object", "NoSuchKey", "", 404)
        store.delete([_URI])


def test_missing_upload_is_a_store_error(store: S3Store) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error("upload_part", "NoSuchUpload", "", 404)
        assert type(_error_of(lambda: store.put_part(_URI, "token", 1, 0, b""))) is StoreError
        stub.add_client_error("complete_multipart_upload", "NoSuchUpload", "", 404)
        stub.add_client_error("head_object", "404", "Not Found", 404)
        assert type(_error_of(lambda: store.complete_parts(_URI, "token", ["a"], 1))) is StoreError


@pytest.mark.parametrize(("size", "is_complete"), [(7, True), (8, False)])
def test_missing_upload_is_complete_if_its_object_has_the_right_size(
    store: S3Store, size: int, is_complete: bool
) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error("complete_multipart_upload", "NoSuchUpload", "", 404)
        stub.add_response("head_object", {"ContentLength": size, "ETag": '"a"'})
        if is_complete:
            store.complete_parts(_URI, "token", ["a"], 7)
        else:
            assert type(_error_of(lambda: store.complete_parts(_URI, "token", ["a"], 7))) is StoreError


def test_abort_accepts_an_upload_that_ended_meanwhile(store: S3Store) -> None:
    with Stubber(store._client) as stub:
        uploads = [{"Key": f"key/{i}", "UploadId": f"{i}"} for i in range(2)]
        stub.add_response("list_multipart_uploads", {"Uploads": uploads})
        stub.add_client_error("abort_multipart_upload", "NoSuchUpload", "", 404)
        stub.add_response("abort_multipart_upload", {})
        store.abort_parts(_URI)
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(("code", "status"), [("NotImplemented", 501), ("InvalidArgument", 400), ("400", 400)])
def test_refused_conditional_put_is_an_unsupported_error(store: S3Store, code: str, status: int) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error("put_object", code, "what is If-None-Match?", status)
        error = _error_of(lambda: store.put_if_absent(_URI, b"x"))
    assert type(error) is UnsupportedError
    assert "--accept-unconditional-publish" in str(error)


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("AccessDenied", 403, "Access Denied because object protected by object lock."),
        ("InvalidRequest", 400, "Object is WORM protected and cannot be overwritten"),
        ("AccessDenied", 403, "forbidden by object lock"),
        ("RetentionPolicyNotMet", 403, "Object is subject to the bucket's retention policy until 2027-01-01"),
    ],
)
def test_refusal_to_delete_a_locked_object_says_until_when(
    store: S3Store, code: str, status: int, message: str
) -> None:
    locked_until = datetime(2027, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))
    head = {
        "ContentLength": 2,
        "ETag": '"a"',
        "ObjectLockRetainUntilDate": locked_until,
        "ObjectLockLegalHoldStatus": "ON",
    }
    with Stubber(store._client) as stub:
        stub.add_client_error("delete_object", code, message, status)
        stub.add_response("head_object", head)
        error = _error_of(lambda: store.delete([_URI]))
        assert type(error) is LockedError
        assert error.path == _URI
        assert message in str(error)
        assert "locked until 2027-01-01 11:00:00 UTC and under a legal hold" in str(error)
        assert type(RescaleError.of_document(error.document())) is LockedError
        stub.add_client_error("put_object", code, message, status)
        stub.add_client_error("get_object", "NoSuchKey", "", 404)
        stub.add_client_error("head_object", "403", "Forbidden", 403)  # no permission to read the lock
        stub.add_client_error("get_object", "AccessDenied", "", 403)
        assert "locked until" not in str(_error_of(lambda: store.put(_URI, b"x")))
        stub.assert_no_pending_responses()


def test_put_of_the_same_bytes_to_a_locked_object_succeeds(store: S3Store) -> None:
    with Stubber(store._client) as stub:
        for put in (store.put, store.put_if_absent):
            stub.add_client_error("put_object", "AccessDenied", "protected by object lock", 403)
            body = StreamingBody(BytesIO(b"x"), 1)
            stub.add_response("get_object", {"ContentLength": 1, "ETag": '"a"', "Body": body})
            assert put(_URI, b"x") is not False
        stub.assert_no_pending_responses()


def test_puts_carry_a_checksum_after_the_bucket_required_one(store: S3Store) -> None:
    message = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Part requests with Object Lock parameters"
    with Stubber(store._client) as stub:
        bare_request = {"Bucket": "locked", "Key": "key", "Body": b"x"}
        checked_request = {**bare_request, "ContentMD5": "ndTkYSaMgDT1yFZOFVxnpg=="}
        stub.add_client_error("put_object", "InvalidRequest", message, 400, expected_params=bare_request)
        for _ in range(2):
            stub.add_response("put_object", {}, checked_request)
            store.put("s3://locked/key", b"x")
        part_request = {**checked_request, "UploadId": "token", "PartNumber": 1}
        stub.add_response("upload_part", {"ETag": '"a"'}, part_request)
        assert store.put_part("s3://locked/key", "token", 1, 0, b"x") == '"a"'
        stub.add_client_error("put_object", "InvalidRequest", message, 400, expected_params=checked_request)
        error = _error_of(lambda: store.put("s3://locked/key", b"x"))
        assert "AWS_REQUEST_CHECKSUM_CALCULATION=when_supported" in (error.advice or "")
        stub.assert_no_pending_responses()


@pytest.mark.parametrize("code", ["RequestTimeout", "ExpiredToken"])
def test_bad_request_for_another_reason_is_not_a_refused_condition(store: S3Store, code: str) -> None:
    with Stubber(store._client) as stub:
        stub.add_client_error("put_object", code, "", 400)
        assert type(_error_of(lambda: store.put_if_absent(_URI, b"x"))) is not UnsupportedError


@pytest.mark.parametrize(
    ("uri", "message"), [("s3://b d/key", "bucket"), ("s3://bucket", "cannot be made"), ("s3://bucket/\udc80", "name")]
)
def test_impossible_s3_places_are_refused(store: S3Store, uri: str, message: str) -> None:
    error = _error_of(lambda: store.put(uri, b""))
    assert type(error) is RequestError
    assert message in str(error)


def test_object_name_that_is_no_utf_8_counts_as_absent(store: S3Store) -> None:
    assert store.stat("s3://bucket/\udc80") is None
    assert type(_error_of(lambda: store.read("s3://bucket/\udc80", 0, 1, Pin(1, '"a"')))) is SnapshotError


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port on which no server listens."""
    with closed_port() as port:
        yield port


def test_unreachable_server_is_a_store_error(dead_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.storage.s3.s3_client.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{dead_port}")
    error = _error_of(lambda: S3Store().stat(_URI))
    assert type(error) is StoreError
    assert "cannot be reached" in error.what
    assert "the endpoint of S3" in (error.advice or "")


def test_password_in_the_endpoint_is_not_shown(dead_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.storage.s3.s3_client.ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    for endpoint in (f"http://user:pa@ss@127.0.0.1:{dead_port}", "user:pa@ss", "http://user:pa@ss@[nonsense"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        error = _error_of(lambda: S3Store().stat(_URI))
        text = f"{error} {error.document()}"
        assert "pa@" not in text
        assert "ss@" not in text
        assert "user" not in text


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_line_break_after_a_key_is_reported_without_the_key(
    dead_port: int, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{dead_port}")
    monkeypatch.setenv(variable, "planted\n")
    monkeypatch.setattr("rescale.storage.s3.s3_client.ATTEMPTS", 1)
    for call in (
        lambda store: store.stat(_URI),
        lambda store: store.read(_URI, 5, 3),
        lambda store: store.put(_URI, b"x"),
    ):
        error = _error_of(lambda call=call: call(S3Store(client_for())))
        assert type(error) is RequestError
        assert variable in (error.advice or "")
        assert "planted" not in f"{error} {error.document()}"


def test_missing_credentials_are_a_request_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, "/does/not/exist")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    error = _error_of(lambda: S3Store().stat(_URI))
    assert type(error) is RequestError
    assert "AWS_ACCESS_KEY_ID" in (error.advice or "")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AWS_ENDPOINT_URL", "nonsense"), ("AWS_REQUEST_CHECKSUM_CALCULATION", "nonsense")],
)
def test_settings_that_boto3_refuses_are_request_errors(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    error = _error_of(S3Store)
    assert type(error) is RequestError
    assert "AWS_ENDPOINT_URL" in (error.advice or "")


def test_unknown_profile_is_refused_with_the_files_of_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/no/config")
    error = _error_of(S3Store)
    assert type(error) is RequestError
    assert error.what == "there is no AWS profile 'nobody'"
    assert (error.path or "").startswith("/no/config and ")
    assert "add [profile nobody] to the first file" in str(error.advice)


def _error_of(call: Callable[[], object]) -> RescaleError:
    with pytest.raises(RescaleError) as caught:
        call()
    return caught.value
