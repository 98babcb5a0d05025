"""A proof by files passes sound directories, says what it does not prove, and reads no row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.compare.validation.compare import FileCheck
from rescale.execution.compare.validation.record_compare import RecordCheck
from rescale.execution.steps import validate_coverage, validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import IncrementalHandle
from rescale.plan.proof import Proof
from rescale.runstate.publication import publish
from rescale.text.errors import RequestError
from support import snapshots
from support.edited import edit, relocated
from support.pipeline import certify, move, plan_rescale
from support.slow import slow, slow_but
from support.spoilt import NATIVE

WITH_ABSOLUTE_PATHS = tuple(
    f"{line}-{name}" for line in ("1.20", "2") for name in ("rocksdb-incremental", "rocksdb-changing", "file-merging")
)
"""Snapshots with absolute paths."""
CASES = list(zip((*snapshots.with_databases(), *WITH_ABSOLUTE_PATHS), cycle(("refer", "copy")), strict=False))
QUICK = [("1.20-rocksdb-heap-timers", "copy"), ("2-file-merging", "refer")]


@dataclass(frozen=True)
class RecordingTasks(InProcessTasks):
    """A loop of tasks that records its units of work."""

    units_seen: list[Any] = field(default_factory=list)

    def run(self, work: Any, units: Any, progress: Any, **options: Any) -> list[Any]:
        self.units_seen.extend(unit for _, unit in units)
        return super().run(work, units, progress, **options)


@pytest.mark.parametrize("parallelisms", [(2, 5), slow((1, 3, 8))], ids=str)
@pytest.mark.parametrize("case", slow_but(lambda case: case in QUICK, CASES), ids="-".join)
def test_sound_result_is_proven_by_files_and_by_records(
    case: tuple[str, str], parallelisms: tuple[int, ...], tmp_path: Path
) -> None:
    """Files that the plan takes whole are proven by files, and those that RocksDB has rewritten by records."""
    name, files = case
    source = relocated(name, tmp_path / "source")
    for parallelism in parallelisms:
        plan = plan_rescale(str(source), str(tmp_path / f"target-{parallelism}"), [str(parallelism)], files=files)
        move(plan, InProcessTasks())
        tasks = RecordingTasks()
        certificate = validate_coverage(plan, tasks, Proof.FILES)
        publish(plan)
        expected = [
            (len(operator.databases), len(operator.compacted)) if operator.databases else None
            for operator in plan.operators
        ]
        directories = [operator.directories for operator in certificate.operators]
        assert [proof and (proof.by_files, proof.by_records) for proof in directories] == expected
        assert certificate.proof == ("files" if any(expected) else "records")
        copied_count = sum(proof.files_copied for proof in directories if proof)
        assert sum(isinstance(unit, FileCheck) for unit in tasks.units_seen) == copied_count
        has_compacted = any(operator.compacted for operator in plan.operators)
        assert any(isinstance(unit, RecordCheck) for unit in tasks.units_seen) is has_compacted
        assert ("no row was read" in str(certificate.does_not_prove)) is any(expected)
        referred_count = sum(proof.files_referred_to for proof in directories if proof)
        assert ("were not read" in str(certificate.does_not_prove)) is (referred_count > 0)
        files_certificate = validate_published(plan.source, plan.target, InProcessTasks(), Proof.FILES)
        assert files_certificate.operators == certificate.operators
        records_certificate = validate_published(plan.source, plan.target, InProcessTasks(), Proof.RECORDS)
        assert (records_certificate.proof, records_certificate.does_not_prove) != ("files", certificate.does_not_prove)
        assert not [operator for operator in records_certificate.operators if operator.directories]


def test_tasks_get_nothing_to_compare_if_all_files_are_referred_to(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")

    def is_of_rocksdb(operator: OperatorState) -> bool:
        return any(
            isinstance(subtask.state.managed_keyed, IncrementalHandle) for subtask in operator.subtasks if subtask.state
        )

    edit(source, lambda metadata: replace(metadata, operators=tuple(filter(is_of_rocksdb, metadata.operators))))
    plan = plan_rescale(str(source), str(tmp_path / "target"), ["3"], files="refer")
    move(plan, InProcessTasks())
    tasks = RecordingTasks()
    assert validate_coverage(plan, tasks, Proof.FILES).proof == "files"
    assert tasks.units_seen == []


@pytest.mark.parametrize("name", ["2-canonical-rocksdb", "2-heap-native"])
def test_proof_by_files_is_refused_for_state_without_directories(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["3"])
    move(plan, InProcessTasks())
    with pytest.raises(RequestError, match="no state of this plan can be proven by files"):
        validate_coverage(plan, InProcessTasks(), Proof.FILES)
    validate_coverage(plan, InProcessTasks())
    publish(plan)
    with pytest.raises(RequestError, match="no state of this plan can be proven by files"):
        validate_published(plan.source, plan.target, InProcessTasks(), Proof.FILES)


def test_resumed_run_may_ask_for_a_deeper_proof(tmp_path: Path) -> None:
    """The choice of the proof is not part of the plan."""
    source = relocated(NATIVE, tmp_path / "source")
    plan = plan_rescale(str(source), str(tmp_path / "target"), ["3"], files="refer")
    assert certify(plan, Proof.FILES).proof == "files"
    assert validate_coverage(plan, InProcessTasks(), Proof.RECORDS).proof == "records"
    assert publish(plan).proof is Proof.RECORDS
