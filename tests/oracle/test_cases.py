"""Real Flink takes a snapshot, Rescale rescales it, and real Flink restores and compares the result."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from oracle.cases import CASES, Case
from oracle.harness import Flink
from oracle.max_parallelism_cases import MAX_PARALLELISM_CASES
from rescale.text.errors import UnsupportedError
from support.pipeline import rescale_snapshot
from support.slow import lines_in_turn


def digest_by_file(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda case: case.quick, [*CASES, *MAX_PARALLELISM_CASES]),
    indirect=["flink"],
    ids=lambda value: getattr(value, "name", value),
)
def test_flink_restores_the_result_with_all_state(flink: Flink, tmp_path: Path, case: Case) -> None:
    source = flink.snapshot(case.job, tmp_path / "source", case.kind)
    digests_before = digest_by_file(source)
    target = tmp_path / "target"
    if case.refused:
        with pytest.raises(UnsupportedError, match=case.refused):
            rescale_snapshot(str(source), str(target), **case.shape)
        assert not target.exists()
        verdict = flink.restore(source, case.job, case.restored_job)  # as the refusal advises
        assert verdict.ok, verdict
        return
    rescale_snapshot(str(source), str(target), **case.shape)
    if case.second_after:
        first, target = target, tmp_path / "second target"
        rescale_snapshot(str(first), str(target), **case.second_shape)
    assert digest_by_file(source) == digests_before
    verdict = flink.restore(
        target,
        case.job,
        case.restored_job,
        per_subtask=case.is_redistributed_once,
        next_kind=case.kind,
        claim_mode="CLAIM" if case.claim else "NO_CLAIM",
    )
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0
    assert target.exists() != case.claim
