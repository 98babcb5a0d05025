"""Encryption and billing headers are sent with exactly the requests for which S3 defines them."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from rescale.storage.contract import Span
from rescale.storage.s3.object_settings import ObjectSettings
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import RequestError
from support.s3 import S3Server
from support.scripted_s3 import Answer, ScriptedServer

_URI = "s3://bucket/key"
_CUSTOMER_KEY = base64.b64encode(bytes(range(32))).decode()
_SSE = "x-amz-server-side-encryption"
_SSE_C = f"{_SSE}-customer-key"
_SOURCE_SSE_C = "x-amz-copy-source-server-side-encryption-customer-key"
_UPLOAD = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"

_REQUESTS: dict[str, tuple[Callable[[S3Store], object], Answer]] = {
    "head": (lambda store: store.stat(_URI), Answer(200)),
    "get": (lambda store: store.read(_URI, 0, 1), Answer(206, b"x")),
    "put": (lambda store: store.put(_URI, b"x"), Answer(200)),
    "begin": (lambda store: store.begin_parts(_URI, ""), Answer(200, _UPLOAD)),
    "part": (lambda store: store.put_part(_URI, "u", 1, 0, b"x"), Answer(200)),
    "copy": (
        lambda store: store.copy(_URI, Span(f"{_URI}-source", 0, 1, pin)) if (pin := store.stat(_URI)) else None,
        Answer(200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"),
    ),
    "list": (lambda store: store.list(_URI), Answer(200, b"<ListBucketResult/>")),
}
_OBJECT_REQUESTS = ("head", "get", "part", "put", "begin", "copy")


@pytest.mark.parametrize(
    ("variables", "header", "value", "carried_by"),
    [
        ({"AWS_REQUEST_PAYER": "requester"}, "x-amz-request-payer", "requester", (*_OBJECT_REQUESTS, "list")),
        ({"AWS_SERVER_SIDE_ENCRYPTION": "AES256"}, _SSE, "AES256", ("put", "begin", "copy")),
        ({"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms"}, _SSE, "aws:kms", ("put", "begin", "copy")),
        (
            {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms", "AWS_SSE_KMS_KEY_ID": "alias/flink"},
            f"{_SSE}-aws-kms-key-id",
            "alias/flink",
            ("put", "begin", "copy"),
        ),
        ({"AWS_SSE_CUSTOMER_KEY_BASE64": _CUSTOMER_KEY}, _SSE_C, _CUSTOMER_KEY, _OBJECT_REQUESTS),
        ({"AWS_SSE_CUSTOMER_KEY_BASE64": _CUSTOMER_KEY}, _SOURCE_SSE_C, _CUSTOMER_KEY, ("copy",)),
    ],
)
@pytest.mark.parametrize("request_name", _REQUESTS)
def test_requests_carry_the_headers_of_the_settings(
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    header: str,
    value: str,
    carried_by: tuple[str, ...],
    request_name: str,
) -> None:
    for variable, setting in variables.items():
        monkeypatch.setenv(variable, setting)
    ask, answer = _REQUESTS[request_name]
    server.answers = [answer]
    ask(S3Store())
    assert server.headers[-1].get(header) == (value if request_name in carried_by else None)


def test_objects_are_written_with_the_kms_key(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", "0d1e2f")
    bucket, size = s3.new_bucket("encrypted"), 5 * 1024 * 1024
    s3.declare(f"s3://{bucket}")
    store = S3Store()
    store.put(f"s3://{bucket}/put", b"x")
    assert store.put_if_absent(f"s3://{bucket}/once", b"x")
    uploaded_uri = f"s3://{bucket}/uploaded"
    upload_id = store.begin_parts(uploaded_uri, "")
    store.complete_parts(uploaded_uri, upload_id, [store.put_part(uploaded_uri, upload_id, 1, 0, b"x" * size)], size)
    pin = store.stat(uploaded_uri)
    assert pin is not None
    store.copy(f"s3://{bucket}/copied", Span(uploaded_uri, 0, size, pin))
    for key in ("put", "once", "uploaded", "copied"):
        head = s3.client().head_object(Bucket=bucket, Key=key)
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "0d1e2f"), key


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_SERVER_SIDE_ENCRYPTION": "yes"},
        {"AWS_SSE_KMS_KEY_ID": "alias/flink"},
        {"AWS_SSE_KMS_KEY_ID": "alias/flink", "AWS_SERVER_SIDE_ENCRYPTION": "AES256"},
        {"AWS_REQUEST_PAYER": "me"},
        {"AWS_SSE_CUSTOMER_KEY_BASE64": "not base64"},
        {"AWS_SSE_CUSTOMER_KEY_BASE64": base64.b64encode(b"short").decode()},
        {"AWS_SSE_CUSTOMER_KEY_BASE64": _CUSTOMER_KEY, "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms"},
    ],
)
def test_impossible_object_settings_are_refused(variables: dict[str, str]) -> None:
    with pytest.raises(RequestError) as caught:
        ObjectSettings.read(variables)
    assert any(variable in caught.value.what for variable in variables | {"AWS_SERVER_SIDE_ENCRYPTION": ""})
    assert not any(len(value) > 9 and value in str(caught.value) for value in variables.values())


def test_customer_key_is_not_in_the_repr_of_the_settings() -> None:
    settings = ObjectSettings.read({"AWS_SSE_CUSTOMER_KEY_BASE64": _CUSTOMER_KEY})
    assert settings.customer_key == bytes(range(32))
    assert "customer_key" not in repr(settings)
