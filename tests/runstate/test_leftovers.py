"""Incomplete uploads are removed before a result is published, and by `discard`."""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.documents import store_plan
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from rescale.storage.files import owned
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support import snapshots
from support.pipeline import claimed_plan, execute_without_spark, plan_rescale
from support.s3 import S3Server, unprotected_store

SOURCE = snapshots.directory("2-finished")
STATE_FILE = f"{'0' * 32}-keyed-0-12345678"


def claim_and_discard(plan: Plan) -> None:
    claim(plan)
    discard(plan.target)


EACH_END_OF_RUN = pytest.mark.parametrize("end_run", [execute_without_spark, claim_and_discard])
EndRun = Callable[[Plan], None]


@EACH_END_OF_RUN
def test_own_incomplete_uploads_are_aborted_and_those_of_others_kept(end_run: EndRun, s3: S3Server) -> None:
    bucket = s3.new_bucket("leftovers")
    plan = plan_rescale(SOURCE, f"s3://{bucket}/target", ["3"])
    store = open_store(plan.target)
    store_plan(plan)
    for _ in range(2):  # a client sends the request again if the first answer is lost
        store.begin_parts(join(plan.target, STATE_FILE), "")
    store.begin_parts(join(places_of(plan).staging, f"{STATE_FILE}-{'0' * 16}-0"), "")
    foreign_keys = [
        f"target-2/{STATE_FILE}",
        "target.rescale/backup.tar",
        "target.rescale/staging/notes",
        "target/backup.tar",
    ]
    for key in foreign_keys:
        unprotected_store(plan.target).begin_parts(f"s3://{bucket}/{key}", "")
    end_run(plan)
    uploads = boto3.client("s3", endpoint_url=s3.endpoint).list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [upload["Key"] for upload in uploads] == foreign_keys


@EACH_END_OF_RUN
def test_own_temporary_files_of_ended_processes_are_removed_and_those_of_others_kept(
    end_run: EndRun, tmp_path: Path
) -> None:
    plan = plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])
    store_plan(plan)
    staging = Path(places_of(plan).staging)
    staging.mkdir()
    staged_file = staging / f"{STATE_FILE}.{uuid.uuid4().hex}"
    staged_file.write_bytes(b"x")
    dead_files = [
        staging.parent / f".{name}.{uuid.uuid4().hex}.tmp" for name in ("target", "target.rescale", "staging")
    ]
    similar_names = [f"{name}.{uuid.uuid4().hex}" for name in ("target", "target.rescale", "target2")]
    foreign_files = [tmp_path / f".{name}.tmp" for name in (*similar_names, "target.mine", "other")]
    for path in (*dead_files, *foreign_files):
        path.write_bytes(b"x")
    end_run(plan)
    assert not any(path.exists() for path in (*dead_files, staged_file))
    assert all(path.exists() for path in foreign_files), "these are somebody else's"


def test_temporary_file_is_kept_while_its_writer_holds_the_lock(tmp_path: Path) -> None:
    target = tmp_path / "target"
    owned.make_folder(tmp_path / "target.rescale")
    path = tmp_path / "target.rescale" / f".target.{uuid.uuid4().hex}.tmp"
    with path.open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        open_store(str(target)).abort_parts(str(target))
        assert path.exists()
    open_store(str(target)).abort_parts(str(target))
    assert not path.exists()


@EACH_END_OF_RUN
def test_temporary_file_inside_the_target_is_removed(end_run: EndRun, tmp_path: Path) -> None:
    """Temporary files are there if the parent of the target is not writable. The writer of this one has ended."""
    plan = plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])
    dead_file = tmp_path / "target" / f".target.{uuid.uuid4().hex}.tmp"
    dead_file.parent.mkdir()
    dead_file.write_bytes(b"x")
    end_run(plan)
    assert not dead_file.exists()


def test_discard_reports_only_files_that_are_still_there_as_left(tmp_path: Path) -> None:
    plan = claimed_plan(SOURCE, str(tmp_path / "target"), ["3"])
    names = (f".target.{uuid.uuid4().hex}.tmp", "somebodys")
    Path(plan.target).mkdir()
    dead_file, other_file = (Path(plan.target, name) for name in names)
    for path in (dead_file, other_file):
        path.write_bytes(b"x")
    assert discard(plan.target).left == (str(other_file),)
