"""The result of `_metadata` of version 2, which Flink 1.10 was the last to write, has version 2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oracle.harness import Flink, Job
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from support.pipeline import rescale_snapshot


def test_result_of_metadata_version_2_has_version_2_and_is_restored(flink: Flink, tmp_path: Path) -> None:
    job = Job("everything", parallelism=3, parameters={"seed": 2}, max_parallelism=128)
    source, target = flink.snapshot(job, tmp_path / "source"), tmp_path / "target"
    metadata_file = source / "_metadata"
    metadata = read_metadata(metadata_file.read_bytes(), str(metadata_file))
    nameless_operators = tuple(replace(operator, name="", uid="") for operator in metadata.operators)
    metadata_file.write_bytes(
        write_metadata(replace(metadata, version=2, operators=nameless_operators, properties=b""))
    )
    rescale_snapshot(str(source), str(target), parallelism=["4"])
    assert read_metadata((target / "_metadata").read_bytes(), "").version == 2
    verdict = flink.restore(target, job, job.with_(parallelism=4), per_subtask=True)
    assert verdict.ok, verdict
