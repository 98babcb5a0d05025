"""Tests of `.ci/flaky.py`: which failed tests are repeated, and what is remembered of flaky tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.readme import ROOT

ORACLE_TESTS, ENGINE_TESTS, PLAN_TESTS = (
    "tests/oracle/test_s3.py",
    "tests/rocksdb/engine/test_scan.py",
    "tests/plan/test_plan.py",
)


def write_report(path: Path, **error_by_file: str) -> Path:
    """Write a JUnit report with a test for each file, which fails unless its error is empty; return the path."""
    cases = "".join(
        f'<testcase file="{file}" name="test_x">' + (f'<failure message="{error}"/>' if error else "") + "</testcase>"
        for file, error in error_by_file.items()
    )
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def run_flaky(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "flaky.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_files_that_start_programs_are_repeated(tmp_path: Path) -> None:
    process = run_flaky(
        "choose", write_report(tmp_path / "xml", **{ORACLE_TESTS: "late", ENGINE_TESTS: "gone", PLAN_TESTS: ""}), 3
    )
    assert (process.returncode, process.stdout.split()) == (0, [ORACLE_TESTS, ENGINE_TESTS])


@pytest.mark.parametrize(
    ("error_by_file", "reason"),
    [
        ({ORACLE_TESTS: "late", PLAN_TESTS: "1 != 2"}, f"{PLAN_TESTS} is never repeated"),
        ({ORACLE_TESTS: "late", ENGINE_TESTS: "gone"}, "2 files failed, at most 1 are repeated"),
        ({PLAN_TESTS: ""}, "0 files failed"),
    ],
)
def test_nothing_is_repeated_after_other_or_too_many_or_no_failures(
    tmp_path: Path, error_by_file: dict[str, str], reason: str
) -> None:
    process = run_flaky("choose", write_report(tmp_path / "xml", **error_by_file), 1)
    assert (process.returncode, process.stdout) == (1, "")
    assert reason in process.stderr


def test_recording_a_test_that_is_flaky_at_two_commits_fails(tmp_path: Path) -> None:
    history, failed_report, passed_report = tmp_path / "cache" / "flaky", tmp_path / "late", tmp_path / "fine"
    write_report(failed_report, **{ORACLE_TESTS: "late"})
    write_report(passed_report, **{ORACLE_TESTS: ""})
    first = run_flaky("record", failed_report, history, "a")
    assert (first.returncode, first.stdout) == (0, f"FLAKY: {ORACLE_TESTS}::test_x: late\n")
    assert run_flaky("record", failed_report, history, "a").returncode == 0
    second = run_flaky("record", failed_report, history, "b")
    assert second.returncode == 1
    assert f"flaky at two commits, fix it: {ORACLE_TESTS}::test_x" in second.stderr
    for _ in range(20):
        assert run_flaky("record", passed_report, history, "b").stdout == ""
    assert run_flaky("record", failed_report, history, "c").returncode == 0


def test_tests_are_counted(tmp_path: Path) -> None:
    assert run_flaky("count", write_report(tmp_path / "xml", **{ORACLE_TESTS: "late", PLAN_TESTS: ""})).stdout == (
        "1 passed, 1 failed, 0 skipped\n"
    )
