"""A bucket is named in the path or in the host, as the user has set it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.storage.s3.s3_advice import ADDRESSING_VARIABLE
from rescale.storage.s3.s3_client import client_for
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import RequestError
from support.hosted_buckets import hosted_buckets
from support.s3 import S3Server
from support.snapshots import directory

_PATH_STYLE_URL, _HOST_STYLE_URL = "http://store.example:9000/bucket/key", "http://bucket.store.example:9000/key"


class _Seen(Exception):  # noqa: N818
    pass


def requested_url() -> str:
    """Return the URL of an object that a client with the settings of the environment asks for."""
    urls: list[str] = []

    def note_url(request: object, **_: object) -> None:
        urls.append(request.url)  # type: ignore[attr-defined]
        raise _Seen

    client = client_for()
    client.meta.events.register_last("before-sign.s3.HeadObject", note_url)
    with pytest.raises(_Seen):
        client.head_object(Bucket="bucket", Key="key")
    return urls[0]


@pytest.mark.parametrize(
    ("configured_style", "variable_value", "expected"),
    [
        (None, None, _PATH_STYLE_URL),
        ("auto", None, _PATH_STYLE_URL),
        ("virtual", None, _HOST_STYLE_URL),
        ("path", None, _PATH_STYLE_URL),
        (None, "true", _HOST_STYLE_URL),
        ("virtual", "false", _PATH_STYLE_URL),
        ("path", "TRUE", _HOST_STYLE_URL),
    ],
)
@pytest.mark.parametrize("endpoint_setting", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "configuration file"])
def test_addressing_style_set_by_the_user_is_used(
    configured_style: str | None,
    variable_value: str | None,
    expected: str,
    endpoint_setting: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    lines = ["[default]"] + ([f"s3 =\n  addressing_style = {configured_style}"] if configured_style else [])
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    if endpoint_setting.startswith("AWS"):
        monkeypatch.setenv(endpoint_setting, "http://store.example:9000")
    else:
        lines.append("endpoint_url = http://store.example:9000")
    (tmp_path / "config").write_text("\n".join(lines))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    if variable_value:
        monkeypatch.setenv(ADDRESSING_VARIABLE, variable_value)
    assert requested_url() == expected


def test_bucket_is_named_in_the_host_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert requested_url() == "https://bucket.s3.amazonaws.com/key"


def test_addressing_variable_that_is_neither_true_nor_false_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESSING_VARIABLE, "virtual")
    with pytest.raises(RequestError, match=ADDRESSING_VARIABLE) as caught:
        client_for()
    assert (caught.value.expected, caught.value.found) == ("true or false", "virtual")


@pytest.fixture
def hosted_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with hosted_buckets(monkeypatch) as server:
        yield server


def test_refusal_of_path_style_advises_the_addressing_variable(hosted_server: S3Server) -> None:
    bucket = hosted_server.new_bucket("hosted")
    with pytest.raises(RequestError, match=r"bucket in the path \(path style\)") as caught:
        S3Store().list(f"s3://{bucket}/a")
    assert caught.value.found == "SecondLevelDomainForbidden"
    assert f"set {ADDRESSING_VARIABLE}=true" in (caught.value.advice or "")


def test_run_publishes_in_a_store_that_refuses_path_style(
    hosted_server: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Objects are put, read (also by `ObjectReads`), copied and listed; the result is published and validated."""
    bucket = hosted_server.new_bucket("hosted")
    for path in Path(directory("2-clicks")).iterdir():
        hosted_server.client().put_object(Bucket=bucket, Key=f"source/{path.name}", Body=path.read_bytes())
    monkeypatch.setenv(ADDRESSING_VARIABLE, "true")
    source, target = f"s3://{bucket}/source", f"s3://{bucket}/target"
    for place in (target, f"{target}.rescale"):  # the doctor writes without a plan
        hosted_server.declare(place)
    doctor_code = main(["doctor", "--source", source, "--target", target])
    assert doctor_code == 0, capsys.readouterr()
    assert main(["run", source, "--target", target, "--parallelism", "3"]) == 0, capsys.readouterr()
    assert main(["validate", source, target]) == 0
    assert hosted_server.take_refused() == []


def test_run_publishes_through_access_points(hosted_server: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    """With an endpoint, boto3 asks for access point NAME of ACCOUNT at the host NAME-ACCOUNT."""
    for name in ("from", "to"):
        hosted_server.create_bucket(f"{name}-123456789012")
    for path in Path(directory("2-clicks")).iterdir():
        hosted_server.client().put_object(
            Bucket="from-123456789012", Key=f"a/source/{path.name}", Body=path.read_bytes()
        )
    for place in ("target", "target.rescale"):  # the policy knows no access points
        hosted_server.declare(f"s3://to-123456789012/{place}")
    access_point = "s3://arn:aws:s3:us-east-1:123456789012:accesspoint"
    run_arguments = [
        "run",
        f"{access_point}/from/a/source",
        "--target",
        f"{access_point}:to/target",
        "--parallelism",
        "3",
    ]
    assert main(run_arguments) == 0, capsys.readouterr()
    assert f"{access_point}/to/target" in capsys.readouterr().out
    assert hosted_server.client().head_object(Bucket="to-123456789012", Key="target/_metadata")


def test_multi_region_access_point_without_awscrt_is_refused() -> None:
    with pytest.raises(RequestError, match="multi-region access point needs the library awscrt") as caught:
        S3Store().stat("s3://arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap/key")
    assert "pip install awscrt" in (caught.value.advice or "")
