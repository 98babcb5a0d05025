"""A savepoint in S3 is rescaled in S3, and Flink restores the result from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.distribution import LINES
from oracle.harness import Flink, Job
from oracle.test_copies import INCREMENTAL
from support.edited import edit, repointed
from support.pipeline import execute, plan_rescale, rescale_snapshot
from support.s3 import S3Server, put_files, unprotected_store
from support.slow import gate, slow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def flink_with_s3(request: pytest.FixtureRequest, s3: S3Server) -> Iterator[Flink]:
    with Flink(request.param, s3.flink_options) as flink:
        yield flink


@pytest.mark.parametrize(
    ("flink_with_s3", "kind", "max_parallelism"),
    [
        slow(LINES["1.20"], "native", 128),
        slow(LINES["1.20"], "canonical", 1000),
        slow(LINES["2"], "native", 128),
        gate(LINES["2"], "canonical", 1000),
    ],
    indirect=["flink_with_s3"],
)
def test_flink_restores_a_result_from_s3(
    flink_with_s3: Flink, s3: S3Server, tmp_path: Path, kind: str, max_parallelism: int
) -> None:
    job = Job("everything", parallelism=4, parameters={"seed": 3}, max_parallelism=128)
    savepoint = flink_with_s3.snapshot(job, tmp_path, kind)
    bucket = s3.new_bucket("flink")
    source, target = f"s3://{bucket}/savepoint", f"s3://{bucket}/rescaled"
    put_files(savepoint, source)
    rescale_snapshot(source, target, parallelism=["3"], max_parallelism=[str(max_parallelism)])
    restored_job = job.with_(parallelism=3, max_parallelism=max_parallelism)
    verdict = flink_with_s3.restore(target, job, restored_job, per_subtask=True)
    assert verdict.ok, verdict


@pytest.mark.parametrize("flink_with_s3", [LINES["2"]], indirect=True)
def test_flink_restores_a_copy_of_rocksdb_directories_from_s3(
    flink_with_s3: Flink, s3: S3Server, tmp_path: Path
) -> None:
    """An incremental checkpoint has absolute handles; the original is gone before the restore."""
    job = Job("everything", parallelism=3, parameters={"seed": 5}, max_parallelism=128, backend="rocksdb")
    job = job.with_(configuration=INCREMENTAL)
    checkpoint = flink_with_s3.snapshot(job, tmp_path, "checkpoint")
    bucket = s3.new_bucket("flink")
    flink_uri, target = f"s3://{bucket}/flink", f"s3://{bucket}/copy"
    edit(
        checkpoint,
        lambda metadata: repointed(
            metadata, lambda path: path.removeprefix("file:").replace(str(tmp_path), f"s3a://{bucket}/flink")
        ),
    )
    put_files(tmp_path, flink_uri)
    rescale_snapshot(str(checkpoint).replace(str(tmp_path), flink_uri), target)
    store = unprotected_store(flink_uri)
    store.delete([entry.uri for entry in store.list(flink_uri)])
    verdict = flink_with_s3.restore(target, job, job.with_(parallelism=2), next_kind="checkpoint")
    assert verdict.ok, verdict


@pytest.mark.parametrize("flink_with_s3", [LINES["2"]], indirect=True)
@pytest.mark.parametrize("files", ["copy", "refer"])
def test_flink_opens_rocksdb_directories_in_another_shape_from_s3(
    flink_with_s3: Flink, s3: S3Server, tmp_path: Path, files: str
) -> None:
    """The result may refer to files elsewhere in S3."""
    job = Job("everything", parallelism=4, parameters={"seed": 8}, max_parallelism=128, backend="rocksdb")
    savepoint = flink_with_s3.snapshot(job, tmp_path, "native")
    bucket = s3.new_bucket("flink")
    source, target = f"s3://{bucket}/savepoint", f"s3://{bucket}/rescaled"
    put_files(savepoint, source)
    plan = plan_rescale(source, target, ["3"], files=files)
    execute(plan)
    assert plan.refers is (files == "refer")
    restored_job = job.with_(parallelism=3, configuration=INCREMENTAL)
    verdict = flink_with_s3.restore(target, job, restored_job, next_kind="checkpoint")
    assert verdict.ok, verdict
