"""A target in a bucket that locks objects: for some time no object can be deleted or replaced, not even our own.

In S3, such a bucket keeps versions, requires checksums, and hides deleted objects with a delete marker. In other
stores it may have no versions: locked objects then stay, which the message says, and they do no harm.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from rescale.storage import store as stores
from rescale.storage.s3.s3_store import S3Store
from support import warm
from support.faults import Kind
from support.resuming import KILLED, Case, assert_right, is_published
from support.s3 import S3Server, strict_s3_server
from support.slow import slow
from support.snapshots import directory

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LOCK_RULE = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}}


@pytest.fixture
def client(s3: S3Server) -> S3Client:
    return s3.client()


@pytest.fixture
def bucket(client: S3Client) -> str:
    return locking_bucket(client)


def locking_bucket(client: S3Client) -> str:
    client.create_bucket(Bucket=(name := f"locked-{uuid.uuid4().hex[:12]}"), ObjectLockEnabledForBucket=True)
    client.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=LOCK_RULE)  # type: ignore[arg-type]
    return name


def case_in(bucket: str, folder: Path, source: str = "2-finished", *shape: str, part_size: int = 8 << 20) -> Case:
    return Case(f"s3://{bucket}", folder, part_size, shape, directory(source))


def keys(client: S3Client, bucket: str, target: str) -> list[str]:
    prefix = target.removeprefix(f"s3://{bucket}/")
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ())]


def resume_and_discard(case: Case, client: S3Client, bucket: str) -> str:
    """Kill two runs, resume the first and discard the second. Return the target of the second."""
    resumed_target, discarded_target = case.target(), case.target()
    for target in (resumed_target, discarded_target):
        assert case.run(target, case.faults(Kind.KILL, where="candidate")) == KILLED
    case.succeed(resumed_target)
    assert_right(resumed_target, case.source)
    discard_faults = case.faults()
    assert case.discard(discarded_target, discard_faults) == 0, warm.output(discard_faults)
    assert keys(client, bucket, discarded_target) == []
    return discarded_target


@pytest.mark.slow
def test_run_is_resumed_discarded_and_repeated_in_a_locking_bucket_of_s3(
    bucket: str, client: S3Client, tmp_path: Path
) -> None:
    client.put_object(Bucket=bucket, Key="x", Body=b"", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")
    (version,) = client.list_object_versions(Bucket=bucket)["Versions"]
    with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):  # the bucket does lock objects
        client.delete_object(Bucket=bucket, Key="x", VersionId=version["VersionId"])
    case = case_in(bucket, tmp_path, part_size=10_000)
    target, repeat_faults = resume_and_discard(case, client, bucket), case.faults()
    assert case.run(target, repeat_faults, parallelism="2") == 0, warm.output(repeat_faults)
    assert_right(target, case.source)


@pytest.fixture
def strict_client(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Client]:
    """Return a client of versitygw, with or without versions, whose settings this process uses."""
    folder = tmp_path / "objects"
    folder.mkdir()
    with strict_s3_server(folder, versions=tmp_path / "versions" if request.param else None) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = S3Store()
        monkeypatch.setattr(stores, "_s3", lambda: store)
        yield boto3.client("s3")


@pytest.mark.slow
@pytest.mark.parametrize("strict_client", [True], indirect=True)
def test_run_is_resumed_and_discarded_in_a_locking_bucket_of_versitygw(strict_client: S3Client, tmp_path: Path) -> None:
    """versitygw takes a delete marker for an existing object, so a discarded target is not claimed again here."""
    bucket = locking_bucket(strict_client)
    resume_and_discard(case_in(bucket, tmp_path), strict_client, bucket)


@pytest.mark.parametrize("strict_client", [False], indirect=True)
@pytest.mark.parametrize(
    ("source", "shape", "parallelism"),
    [("2-finished", (), "3"), slow("2-clicks", ("--max-parallelism", "40"), ""), slow("2-rocksdb-native", (), "3")],
)
def test_run_publishes_in_a_locking_bucket_without_versions(
    source: str, shape: tuple[str, ...], parallelism: str, strict_client: S3Client, tmp_path: Path
) -> None:
    case = case_in(locking_bucket(strict_client), tmp_path, source, *shape)
    target, faults, second_faults = case.target(), case.faults(), case.faults()
    assert case.run(target, faults, parallelism=parallelism) == 0, warm.output(faults)
    assert_right(target, case.source)
    assert case.run(target, second_faults, parallelism=parallelism) == 0, warm.output(second_faults)


@pytest.mark.parametrize("strict_client", [False], indirect=True)
def test_discard_in_a_locking_bucket_without_versions_says_until_when_objects_stay(
    strict_client: S3Client, tmp_path: Path
) -> None:
    case = case_in(bucket := locking_bucket(strict_client), tmp_path)
    target, faults = case.target(), case.faults()
    assert case.run(target, case.faults(Kind.KILL, where="candidate")) == KILLED
    locked_keys = keys(strict_client, bucket, target)
    locked_until = datetime.now(UTC) + timedelta(days=2)
    for key in locked_keys:
        strict_client.put_object_retention(
            Bucket=bucket, Key=key, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": locked_until}
        )
    assert case.discard(target, faults) == 2
    output = warm.output(faults)
    assert "S3 neither deletes nor replaces an object that is locked" in output
    assert f"locked until {locked_until:%Y-%m-%d %H:%M:%S} UTC" in output
    assert "the object stays, and does no harm" in output
    assert "Traceback" not in output
    assert set(locked_keys) <= set(keys(strict_client, bucket, target)), "locked objects stay"
    assert not is_published(target)
    case.succeed(other_target := case.target())
    assert_right(other_target, case.source)
