"""Locations are normalised: each place has one spelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rescale.storage.locations import contains, join, name, normalise, parent, split_s3
from rescale.text.errors import RequestError


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("file:/a/b", "/a/b"),
        ("file:/a b", "/a b"),
        ("file:///a/b%20c", "/a/b%20c"),
        ("file:////a", "/a"),
        ("//a//b", "/a/b"),
        ("/", "/"),
        ("file://localhost/a", "/a"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a//b/", "s3://bucket/a/b"),
        ("s3p://bucket/a/../../b", "s3://bucket/b"),
    ],
)
def test_locations_are_normalised(location: str, expected: str) -> None:
    assert normalise(location) == expected
    assert normalise(expected) == expected


def test_relative_path_starts_at_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert normalise("x/../y") == f"{tmp_path}/y"


@pytest.mark.parametrize(
    "location", ["", "hdfs://host/a", "s3:///key", "s3:bucket", "file:relative", "file://host/a", "gs://b/k"]
)
def test_location_that_is_neither_local_nor_in_s3_is_refused(location: str) -> None:
    with pytest.raises(RequestError) as caught:
        normalise(location)
    advice = caught.value.advice or ""
    assert ("copy the whole savepoint" in advice) is (bool(location) and not location.startswith("s3:"))
    assert ("name a bucket: s3://bucket/key" in advice) is location.startswith("s3:")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("", "the location is empty"),
        ("-", "standard input or output"),
        ("s3://", "not a location"),
        ("savepoint-2026-11-29T15:00", "not a location"),
    ],
)
def test_odd_location_is_refused_with_what_to_write_instead(location: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        normalise(location)
    if location not in ("", "s3://"):
        assert "./" in (caught.value.advice or "")
        assert normalise(f"./{location}").endswith(f"/{location}")
    assert caught.value.expected
    assert caught.value.advice
    assert "credentials" not in caught.value.advice


def test_access_key_in_a_location_is_refused_as_such() -> None:
    with pytest.raises(RequestError) as caught:
        normalise("s3://KEY:planted@bucket/savepoint")
    assert "credentials are not part of its name" in (caught.value.advice or "")


@pytest.mark.parametrize("location", ["http://jobmanager:8081/jobs/1", "https://bucket.s3.amazonaws.com/a"])
def test_web_address_is_refused_with_what_to_name_instead(location: str) -> None:
    with pytest.raises(RequestError) as caught:
        normalise(location)
    assert "s3://bucket/key" in (caught.value.advice or "")
    assert "> job.json" in (caught.value.advice or "")


@pytest.mark.parametrize("location", ["~", "~/savepoint"])
def test_path_with_an_unexpanded_tilde_is_refused(location: str) -> None:
    with pytest.raises(RequestError, match="only a shell replaces") as caught:
        normalise(location)
    assert f"./{location}" in (caught.value.advice or "")
    assert normalise(f"./{location}").endswith(f"/{location}")


@pytest.mark.parametrize("secret", ["planted", "plan/ted", "/planted"])
def test_access_key_in_a_location_is_refused_and_not_shown(secret: str) -> None:
    """The key would be stored in the plan and shown wherever the location is shown."""
    with pytest.raises(RequestError) as caught:
        normalise(f"s3a://KEY:{secret}@bucket/savepoint")
    assert not {"planted", "plan", "ted"} & {*re.findall(r"\w+", f"{caught.value} {caught.value.document()}")}


_ACCESS_POINT = "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine"
_OUTPOST = "arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-1/accesspoint/mine"
_MULTI_REGION = "arn:aws-cn:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap"


@pytest.mark.parametrize("bucket", [_ACCESS_POINT, _OUTPOST, _MULTI_REGION])
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_arn_of_an_access_point_is_accepted_as_a_bucket(bucket: str, scheme: str) -> None:
    uri = normalise(f"{scheme}://{bucket}/a/savepoint/")
    assert uri == f"s3://{bucket}/a/savepoint"
    assert split_s3(uri) == (bucket, "a/savepoint")
    assert normalise(uri.replace("accesspoint/", "accesspoint:").replace("outpost/op-1/", "outpost:op-1:")) == uri
    assert parent(parent(uri)) == join(parent(uri), "..") == f"s3://{bucket}"
    assert split_s3(normalise(f"s3://{bucket}/")) == (bucket, "")
    assert join(uri, "../../../b") == f"s3://{bucket}/b"


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:s3:::bucket/key",
        "arn:aws:s3:eu-west-1:123456789012:accesspoint",
        "arn:aws:s3:eu-west-1:123456789012:accesspoint/",
        "arn:aws:s3:eu-west-1:123456789012:bucket/mine/key",
        "arn:aws:s3:eu-west-1::accesspoint/mine/key",
    ],
)
def test_arn_that_names_no_access_point_is_refused(arn: str) -> None:
    with pytest.raises(RequestError, match="not the ARN of an access point") as caught:
        normalise(f"s3://{arn}")
    assert caught.value.expected == "s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/key"


@pytest.mark.parametrize("directory", ["/a/b", "s3://bucket/a/b"])
def test_join_appends_a_name_and_parent_removes_it(directory: str) -> None:
    assert join(directory, "c") == f"{directory}/c"
    assert join(directory, "../c") == f"{parent(directory)}/c"
    assert name(join(directory, "c")) == "c"


def test_contains_compares_whole_path_components() -> None:
    assert contains("/a/b", "/a/b/c")
    assert contains("/a/b", "/a/b")
    assert not contains("/a/b", "/a/bc")
    assert contains("s3://bucket", "s3://bucket/x")
    assert not contains("s3://bucket", "s3://buckets/x")
