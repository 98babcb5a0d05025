"""Tests of `.ci/flaky.py`: which failed tests are repeated, and what is remembered of flaky tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.readme import ROOT

ORACLE, ENGINE, PLAN = "tests/oracle/test_s3.py", "tests/rocksdb/engine/test_scan.py", "tests/plan/test_plan.py"


def report(path: Path, **files: str) -> Path:
    """Write a JUnit report with a test for each file, which fails unless its error is empty; return the path."""
    cases = "".join(
        f'<testcase file="{file}" name="test_x">' + (f'<failure message="{error}"/>' if error else "") + "</testcase>"
        for file, error in files.items()
    )
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def flaky(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "flaky.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_files_that_start_programs_are_repeated(tmp_path: Path) -> None:
    process = flaky("choose", report(tmp_path / "xml", **{ORACLE: "late", ENGINE: "gone", PLAN: ""}), 3)
    assert (process.returncode, process.stdout.split()) == (0, [ORACLE, ENGINE])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({ORACLE: "late", PLAN: "1 != 2"}, f"{PLAN} is never repeated"),
        ({ORACLE: "late", ENGINE: "gone"}, "2 files failed, at most 1 are repeated"),
        ({PLAN: ""}, "0 files failed"),
    ],
)
def test_failures_of_other_files_are_never_repeated(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    process = flaky("choose", report(tmp_path / "xml", **files), 1)
    assert (process.returncode, process.stdout) == (1, "")
    assert reason in process.stderr


def test_test_that_is_flaky_at_two_commits_fails(tmp_path: Path) -> None:
    history, late, fine = tmp_path / "cache" / "flaky", tmp_path / "late", tmp_path / "fine"
    report(late, **{ORACLE: "late"})
    report(fine, **{ORACLE: ""})
    first = flaky("record", late, history, "a")
    assert (first.returncode, first.stdout) == (0, f"FLAKY: {ORACLE}::test_x: late\n")
    assert flaky("record", late, history, "a").returncode == 0
    second = flaky("record", late, history, "b")
    assert second.returncode == 1
    assert f"flaky at two commits, fix it: {ORACLE}::test_x" in second.stderr
    for _ in range(20):
        assert flaky("record", fine, history, "b").stdout == ""
    assert flaky("record", late, history, "c").returncode == 0


def test_tests_are_counted(tmp_path: Path) -> None:
    assert flaky("count", report(tmp_path / "xml", **{ORACLE: "late", PLAN: ""})).stdout == (
        "1 passed, 1 failed, 0 skipped\n"
    )
