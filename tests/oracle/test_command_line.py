"""Flink restores and compares the result of `rescale run` in real processes, and `rescale validate` accepts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oracle.harness import Flink, Job
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support.commands import in_a_process
from support.s3 import S3Server
from support.slow import gate, slow

EVERYTHING = Job("everything", parallelism=4, parameters={"seed": 8}, max_parallelism=128)
RAW = EVERYTHING.with_(parameters={"seed": 8, "raw_keyed": 1, "raw_operator": 1})
LAZY = EVERYTHING.with_(parameters={"seed": 8, "lazy": 1}, backend="rocksdb", compression=True)


def rescale(*arguments: str) -> dict[str, Any]:
    """Return the answer of a command, which must succeed."""
    process = in_a_process(*arguments, "--output", "json")
    assert process.returncode == 0, process.stderr
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


@pytest.mark.parametrize(
    ("flink", "job", "kind", "new_parallelism"),
    [
        slow("flink_1_20", EVERYTHING, "canonical", 3, id="canonical"),
        gate("flink_2", RAW, "native", 6, id="heap with raw state"),
        slow("flink_2", LAZY, "canonical", 7, id="other headers, compressed"),
    ],
    indirect=["flink"],
)
def test_run_on_local_files_is_restored_by_flink(
    flink: Flink, tmp_path: Path, job: Job, kind: str, new_parallelism: int
) -> None:
    source = str(flink.snapshot(job, tmp_path / "source", kind))
    target = str(tmp_path / "target")
    shape = ["--target", target, "--parallelism", str(new_parallelism)]
    plan_document = rescale("plan", source, *shape)
    outcome = rescale("run", source, *shape)
    assert outcome["plan"] == plan_document["plan"]
    assert rescale("run", source, *shape)["already_published"]
    verdict = flink.restore(target, job, job.with_(parallelism=new_parallelism), per_subtask=True)
    assert verdict.ok, verdict
    certificate = rescale("validate", source, target)
    stored_certificate = json.loads(Path(outcome["certificate"]).read_text())
    assert certificate["operators"] == stored_certificate["operators"]
    assert certificate["candidate_sha256"] == outcome["metadata_sha256"] == stored_certificate["candidate_sha256"]


@pytest.mark.slow
def test_run_to_another_max_parallelism_is_restored_by_flink(flink_1_20: Flink, tmp_path: Path) -> None:
    source = str(flink_1_20.snapshot(LAZY, tmp_path / "source"))
    target = str(tmp_path / "target")
    shape = ["--target", target, "--parallelism", "6", "--max-parallelism", "1000"]
    outcome = rescale("run", source, *shape)
    # The job is started as the outcome says: with the option, and no max parallelism in the code.
    job = LAZY.with_(parallelism=6, max_parallelism=None, configuration={"pipeline.max-parallelism": "1000"})
    verdict = flink_1_20.restore(target, LAZY, job, per_subtask=True)
    assert verdict.ok, verdict
    certificate = rescale("validate", source, target)
    stored_certificate = json.loads(Path(outcome["certificate"]).read_text())
    assert certificate["operators"] == stored_certificate["operators"]


@pytest.mark.gate
@pytest.mark.slow
def test_run_from_local_files_to_s3_is_restored_by_flink(flink_1_20: Flink, s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.new_bucket("cli")
    source = str(flink_1_20.snapshot(EVERYTHING, tmp_path / "source"))
    target = f"s3://{bucket}/rescaled"
    rescale("run", source, "--target", target, "--parallelism", "5")
    fetched_folder = tmp_path / "fetched"
    fetched_folder.mkdir()
    for entry in open_store(target).list(target):
        (fetched_folder / entry.uri.rpartition("/")[2]).write_bytes(open_store(target).read(entry.uri, 0, entry.size))
    assert open_store(target).stat(join(target, "_metadata")) is not None
    verdict = flink_1_20.restore(fetched_folder, EVERYTHING, EVERYTHING.with_(parallelism=5), per_subtask=True)
    assert verdict.ok, verdict
