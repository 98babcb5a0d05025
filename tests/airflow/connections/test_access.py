"""Access to S3 by an Airflow connection: the boto3 of a step gets what Airflow's hook makes of the connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE, form_access, s3_store_of, storage_access
from rescale.storage.s3.s3_advice import ADDRESSING_VARIABLE
from rescale.storage.s3.s3_client import client_for
from rescale.storage.sides import StoreSide, side_of
from rescale.text.errors import RequestError, StoreError
from support.hosted_buckets import hosted_buckets
from support.s3 import S3Server

_ROLE = "arn:aws:iam::123456789012:role/rescale"

# Prints how the boto3 of a step got its keys, which they are, when they expire, and the buckets that S3 lists.
_PROBE = """
import boto3, json
session = boto3.session.Session()
credentials = session.get_credentials()
keys = credentials.get_frozen_credentials()
buckets = [bucket["Name"] for bucket in session.client("s3").list_buckets()["Buckets"]]
print(json.dumps({
    "method": credentials.method, "key": keys.access_key, "token": keys.token,
    "expires": credentials._expiry_time.year, "buckets": buckets,
}))
"""


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Make the connection `state` on a worker that has other keys of its own."""
    monkeypatch.setenv("AIRFLOW_CONN_STATE", json.dumps({"conn_type": "aws", **fields}))
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-worker-s-own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")


def seen_by_a_step() -> dict[str, Any]:
    """Return what a process that is started with this one's environment sees."""
    answer = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def extra_of_server(s3: S3Server, **more: Any) -> dict[str, Any]:
    return {"endpoint_url": s3.endpoint, "region_name": "eu-central-1", **more}


def test_keys_reach_a_step_without_being_in_the_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, login="somebody", password="planted", extra=extra_of_server(s3))
    before = dict(os.environ)
    with storage_access("state"):
        assert "planted" not in os.environ.values()
        assert os.environ["AWS_REGION"] == "eu-central-1"
        variables = seen_by_a_step()
    assert (variables["method"], variables["key"], variables["token"], variables["expires"]) == (
        "container-role",
        "somebody",
        "",
        2999,
    )
    assert os.environ == before


def test_connection_of_the_source_gives_access_to_the_source_alone(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, login="of-target", password="planted-1", extra=extra_of_server(s3))
    extra = extra_of_server(s3, region_name="eu-west-1")
    second_connection = {"conn_type": "aws", "login": "of-source", "password": "planted-2", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_PREMISES", json.dumps(second_connection))
    before = dict(os.environ)
    with form_access({"connection": "state", "source_connection": "premises"}):
        assert not {"planted-1", "planted-2"} & {*os.environ.values()}
        clients = {side: client_for(side) for side in StoreSide}
        keys = {side: client._request_signer._credentials for side, client in clients.items()}  # type: ignore[attr-defined]
        assert [keys[side].access_key for side in StoreSide] == ["of-source", "of-target"]
        assert [clients[side].meta.region_name for side in StoreSide] == ["eu-west-1", "eu-central-1"]
        assert keys[StoreSide.SOURCE]._refresh_using()["access_key"] == "of-source", "they can be renewed"
        assert seen_by_a_step()["key"] == "of-target"
        assert side_of("s3://bucket/anything") is StoreSide.TARGET
    with form_access({"connection": None, "source_connection": "premises"}, reads_source=True):
        assert side_of("s3://bucket/anything") is StoreSide.SOURCE
        assert client_for()._request_signer._credentials.access_key == "the-worker-s-own"  # type: ignore[attr-defined]
    assert os.environ == before


def test_connection_of_the_source_is_refused_where_steps_run_in_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER_POD_VARIABLE, "/template")
    with pytest.raises(RequestError, match="in pods") as caught, form_access({"source_connection": "premises"}):
        pass
    assert "s3.source.secret" in str(caught.value.advice)


def test_store_of_a_connection_leaves_the_environment_unchanged(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.create_bucket("served-to-many")
    s3.declare("s3://served-to-many")
    connect(monkeypatch, login="somebody", password="planted", extra=extra_of_server(s3))
    before, uri = dict(os.environ), "s3://served-to-many/file"
    store = s3_store_of("state")
    store.put(uri, b"content")
    assert store.read_all(uri, 100)[0] == b"content"
    assert os.environ == before
    with pytest.raises(RequestError, match="there is no connection 'nobody'"):
        s3_store_of("nobody")


def test_encryption_and_requester_pays_reach_a_step_and_the_store(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/flink"}
    settings = {"s3": {"extra_args": arguments, "requester_pays": True}}
    connect(monkeypatch, login="a", password="b", extra=extra_of_server(s3, service_config=settings))
    with storage_access("state"):
        assert os.environ["AWS_SERVER_SIDE_ENCRYPTION"] == "aws:kms"
        assert os.environ["AWS_SSE_KMS_KEY_ID"] == "alias/flink"
        assert os.environ["AWS_REQUEST_PAYER"] == "requester"
    s3.declare(f"s3://{(bucket := s3.new_bucket('kms'))}")
    s3_store_of("state").put(f"s3://{bucket}/file", b"content")
    assert s3.client().head_object(Bucket=bucket, Key="file")["SSEKMSKeyId"] == "alias/flink"


def test_unsupported_settings_of_uploads_are_refused(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"s3": {"extra_args": {"ACL": "public-read"}}}
    connect(monkeypatch, login="a", password="b", extra=extra_of_server(s3, service_config=settings))
    with pytest.raises(RequestError, match=r"extra_args\.ACL"), storage_access("state"):
        pass


def test_session_token_reaches_a_step(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = extra_of_server(s3, aws_access_key_id="a", aws_secret_access_key="b", aws_session_token="a-token")
    connect(monkeypatch, extra=extra)
    with storage_access("state"):
        assert seen_by_a_step()["token"] == "a-token"


def test_role_is_assumed_and_its_keys_expire(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sts = {"sts": {"endpoint_url": s3.endpoint}}
    connect(monkeypatch, login="a", password="b", extra=extra_of_server(s3, role_arn=_ROLE, service_config=sts))
    with storage_access("state"):
        variables = seen_by_a_step()
    assert variables["key"].startswith("ASIA")
    assert variables["token"]
    assert variables["expires"] < 2999


def test_role_is_assumed_by_a_web_identity(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token")
    extra = extra_of_server(
        s3,
        role_arn=_ROLE,
        assume_role_method="assume_role_with_web_identity",
        assume_role_with_web_identity_federation="file",
        assume_role_with_web_identity_token_file=str(token),
        service_config={"sts": {"endpoint_url": s3.endpoint}},
    )
    connect(monkeypatch, extra=extra)
    with storage_access("state"):
        assert seen_by_a_step()["key"].startswith("ASIA")


def test_keys_are_renewed_while_a_step_works(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sts = {"sts": {"endpoint_url": s3.endpoint}}
    # The shortest lifetime: botocore renews keys 15 minutes before they expire, so here at once.
    shortest_lifetime = {"DurationSeconds": 900}
    extra = extra_of_server(s3, role_arn=_ROLE, assume_role_kwargs=shortest_lifetime, service_config=sts)
    connect(monkeypatch, login="a", password="b", extra=extra)
    with storage_access("state"):
        assert seen_by_a_step()["key"] != seen_by_a_step()["key"]


def test_keys_are_served_only_with_the_token_of_the_step(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, login="a", password="b", extra=extra_of_server(s3))
    with storage_access("state"), pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"])


def test_certificates_and_proxies_reach_a_step(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = extra_of_server(
        s3, verify="/etc/ca.pem", config_kwargs={"proxies": {"https": "http://proxy:3128"}, "retries": {}}
    )
    connect(monkeypatch, login="a", password="b", extra=extra)
    with storage_access("state"):
        assert (os.environ["AWS_CA_BUNDLE"], os.environ["HTTPS_PROXY"]) == ("/etc/ca.pem", "http://proxy:3128")


def test_checksum_settings_reach_a_step(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a bucket that requires checksums advises these settings."""
    checksums = {"request_checksum_calculation": "when_supported", "response_checksum_validation": "when_required"}
    connect(monkeypatch, login="a", password="b", extra=extra_of_server(s3, config_kwargs=checksums))
    with storage_access("state"):
        assert os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_supported"
        assert os.environ["AWS_RESPONSE_CHECKSUM_VALIDATION"] == "when_required"


@pytest.mark.parametrize(("style", "variable"), [("virtual", "true"), ("path", "false"), ("auto", None)])
def test_addressing_style_reaches_a_step(
    style: str, variable: str | None, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = extra_of_server(s3, config_kwargs={"s3": {"addressing_style": style}})
    connect(monkeypatch, login="a", password="b", extra=extra)
    with storage_access("state"):
        assert os.environ.get(ADDRESSING_VARIABLE) == variable


def test_store_of_a_connection_uses_its_addressing_style(monkeypatch: pytest.MonkeyPatch) -> None:
    with hosted_buckets(monkeypatch) as server:
        bucket = server.new_bucket("hosted")
        server.client().put_object(Bucket=bucket, Key="key", Body=b"1234")
        extra = {"endpoint_url": server.hosted_endpoint, "config_kwargs": {"s3": {"addressing_style": "virtual"}}}
        connect(monkeypatch, login="a", password="b", extra=extra)
        assert s3_store_of("state").read(f"s3://{bucket}/key", 0, 4) == b"1234"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"extra": {"verify": False}}, "a setting of the connection 'state': verify"),
        ({"extra": {"config_kwargs": "retries"}}, "a setting of the connection 'state': config_kwargs"),
        (
            {"extra": {"config_kwargs": {"proxies": "http://p"}}},
            "'state': config_kwargs.proxies",
        ),
        ({"extra": {"config_kwargs": {"s3": "path"}}}, "a setting of the connection 'state': config_kwargs.s3"),
        (
            {"extra": {"config_kwargs": {"s3": {"addressing_style": "host"}}}},
            "'state': config_kwargs.s3.addressing_style",
        ),
        (
            {"extra": {"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}}},
            "'state': config_kwargs.s3.use_accelerate_endpoint",
        ),
        ({"extra": {"service_config": ["s3"]}}, "a setting of the connection 'state': service_config"),
        ({"extra": {"service_config": {"sts": "here"}}}, "'state': service_config.sts"),
        (
            {"extra": {"config_kwargs": {"signature_version": "unsigned"}}},
            "connection 'state': config_kwargs.signature_version",
        ),
        ({"conn_type": "http"}, "does not give access to S3"),
        (
            {"extra": {"role_arn": _ROLE, "assume_role_method": "by_magic"}},
            "the connection 'state' does not work",
        ),
    ],
)
def test_connection_that_cannot_work_is_refused_with_the_setting(
    fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, **{"login": "a", "password": "b", **fields})
    with pytest.raises(RequestError, match=message), storage_access("state"):
        pass


def test_unreachable_sts_server_raises_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable_sts = {"sts": {"endpoint_url": "http://127.0.0.1:9"}}
    extra = {"role_arn": _ROLE, "region_name": "eu-central-1", "service_config": unreachable_sts}
    connect(monkeypatch, login="a", password="b", extra=extra)
    with pytest.raises(StoreError, match="the connection 'state' gives no access"), storage_access("state"):
        pass


def test_missing_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_STATE", raising=False)
    with pytest.raises(RequestError, match="there is no connection 'state'"), storage_access("state"):
        pass


def test_connection_is_refused_if_steps_run_in_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER_POD_VARIABLE, "/etc/driver.yaml")
    with (
        pytest.raises(RequestError, match="steps run in pods, which cannot use the connection 's3'") as caught,
        storage_access("s3"),
    ):
        pass
    assert "leave the field empty" in str(caught.value)
    with storage_access(None):
        pass
