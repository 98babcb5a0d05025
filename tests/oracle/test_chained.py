"""Chained operators with different max parallelisms: Flink restores wrong state without an error, or fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oracle.cases import graph
from oracle.harness import Flink, FlinkError
from support.commands import in_a_process
from support.slow import slow

JOB = graph("chained", 2, keys=40).with_(max_parallelism=None)


def run(source: Path, target: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Return exit code and answer of `rescale run` without a terminal."""
    process = in_a_process("run", source, "--target", target, *options, "--output", "json")
    return process.returncode, json.loads(process.stdout)


@pytest.mark.parametrize(
    ("backend", "kind", "restored_parallelism"),
    [("hashmap", "canonical", 3), slow("rocksdb", "canonical", 3), ("rocksdb", "native", 2)],
)
def test_flink_restores_a_chain_with_different_max_parallelisms_with_wrong_state(
    flink: Flink, tmp_path: Path, backend: str, kind: str, restored_parallelism: int
) -> None:
    job = JOB.with_(backend=backend)
    source, target = flink.snapshot(job, tmp_path / "source", kind), tmp_path / "target"
    exit_code, _ = run(source, target, "--max-parallelism", "first=64", "--yes")
    assert exit_code == 0
    verdict = flink.restore(target, job, job.with_(parallelism=restored_parallelism), shown_count=1000)
    wrong_operators = {
        name for name in ("first", "second") if any(f"{name}/count" in line for line in verdict.differences)
    }
    assert len(wrong_operators) == 1, verdict


@pytest.mark.slow
@pytest.mark.parametrize("max_parallelism", ["64", "1000"])
def test_flink_may_refuse_a_chain_with_different_max_parallelisms_by_a_vague_error(
    flink: Flink, tmp_path: Path, max_parallelism: str
) -> None:
    source, target = flink.snapshot(JOB, tmp_path / "source"), tmp_path / "target"
    exit_code, _ = run(source, target, "--max-parallelism", f"first={max_parallelism}", "--yes")
    assert exit_code == 0
    with pytest.raises(FlinkError, match="Could not restore keyed state backend"):
        flink.restore(target, JOB, JOB)


def test_different_max_parallelisms_in_a_chain_need_consent(flink_2: Flink, tmp_path: Path) -> None:
    source, target = flink_2.snapshot(JOB, tmp_path / "source"), tmp_path / "target"
    exit_code, refusal = run(source, target, "--max-parallelism", "first=64")
    assert exit_code == 2
    assert "different max parallelisms (64 or 128)" in refusal["found"]
    assert not (target / "_metadata").exists()


@pytest.mark.slow
def test_flink_restores_a_chain_with_one_new_max_parallelism(flink: Flink, tmp_path: Path) -> None:
    source, target = flink.snapshot(JOB, tmp_path / "source"), tmp_path / "target"
    exit_code, _ = run(source, target, "--max-parallelism", "64")
    assert exit_code == 0
    verdict = flink.restore(target, JOB, JOB)
    assert verdict.ok, verdict
