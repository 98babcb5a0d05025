"""Surgery declared in the arguments of the steps' main programs counts where no certificate declares it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import diff_snapshots
import validate_coverage
from rescale.process import read_result
from rescale.report.differences import DiffDocument
from rescale.runstate.certificate import Certificate
from rescale.text.errors import IntegrityError
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory

SOURCE = directory("2-clicks")
ARGUMENTS = ["--rename=visits=visitors", "--drop-state=clicks-per-user:way"]


@pytest.fixture
def result(tmp_path: Path) -> str:
    """Return the result of a run that renamed an operator and dropped a state, without its certificate."""
    target, moved_target = str(tmp_path / "target"), tmp_path / "moved"
    plan = plan_rescale(SOURCE, target, renames=["visits=visitors"], state_drops=["clicks-per-user:way"])
    execute_without_spark(plan)
    return str(Path(target).rename(moved_target))


def test_validation_without_certificate_takes_declarations_from_arguments(
    result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_arguments = [
        "validate",
        "--master=local[1]",
        "--result",
        str(tmp_path / "said.json"),
        "--source",
        SOURCE,
        "--target",
        result,
    ]
    monkeypatch.setattr(sys, "argv", [*step_arguments, *ARGUMENTS])
    assert validate_coverage.main() == 0
    assert read_result(step_arguments[3]).read(Certificate).verdict == "complete"
    monkeypatch.setattr(sys, "argv", step_arguments)
    assert validate_coverage.main() == IntegrityError.exit_code


def test_diff_takes_declarations_from_arguments(result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step_arguments = [
        "diff",
        "--master=local[1]",
        "--result",
        str(tmp_path / "said.json"),
        "--a",
        SOURCE,
        "--b",
        result,
    ]
    for declarations, is_equal in ((ARGUMENTS, True), (ARGUMENTS[:1], False), (ARGUMENTS[1:], False)):
        monkeypatch.setattr(sys, "argv", [*step_arguments, *declarations])
        assert diff_snapshots.main() == 0
        assert read_result(step_arguments[3]).read(DiffDocument).equal is is_equal
