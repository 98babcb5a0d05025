#!/usr/bin/env python3
"""Decide whether failed tests may run again, and remember flaky tests, which pass when they are repeated.

A test that starts another program may fail because the machine was busy. Then its file runs again, alone and twice, and
the run counts as passed if both pass (`.ci/tests`). Tests of our own code alone, and tests in which our own processes
race, are never repeated: their failure is a defect.

    flaky.py choose XML MOST             print the files to repeat; exit 1 if more than MOST, or one is never repeated
    flaky.py record XML HISTORY COMMIT   print and remember flaky tests; exit 1 if one was flaky at another commit
    flaky.py count XML...                print how many tests passed, failed and were skipped

XML is pytest's JUnit report of the family xunit1, which names files. HISTORY holds the last runs as lines of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

STARTS_PROGRAMS = (
    "tests/airflow/flink/",
    "tests/charts/",
    "tests/cli/",
    "tests/demo/",
    "tests/execution/tasks/",
    "tests/execution/test_driver.py",
    "tests/execution/test_lost_drivers.py",
    "tests/execution/test_lost_executors.py",
    "tests/execution/tasks/spark/test_session.py",
    "tests/k8s/",
    "tests/oracle/",
    "tests/report/test_in_a_browser.py",
    "tests/rocksdb/engine/",
    "tests/whole_airflow/",
)
"""Files and folders of tests that start Flink, Spark, Airflow, a browser, a cluster, or RocksDB's processes."""

REMEMBERED_RUNS = 20


class Case(NamedTuple):
    """A test in a report; `error` is the first line of its failure, None if it did not fail."""

    file: str
    name: str
    error: str | None
    skipped: bool

    @property
    def node_id(self) -> str:
        return f"{self.file}::{self.name}"


def cases(report: Path) -> Iterator[Case]:
    """Yield the tests of a report. A test that fails, and then fails to clean up, comes twice."""
    for element in ElementTree.parse(report).iter("testcase"):
        failures = [child for tag in ("failure", "error") for child in element.findall(tag)]
        error = next(((child.get("message") or "").partition("\n")[0] for child in failures), None)
        yield Case(element.get("file", ""), element.get("name", ""), error, element.find("skipped") is not None)


def failed_cases(report: Path) -> dict[str, Case]:
    """Return the failed tests of a report by their ids."""
    return {case.node_id: case for case in cases(report) if case.error is not None}


def choose(report: Path, most: int) -> int:
    """Print the files to repeat; return the exit code."""
    files = sorted({case.file for case in failed_cases(report).values()})
    own_tests = [file for file in files if not file.startswith(STARTS_PROGRAMS)]
    if not files or own_tests or len(files) > most:
        reason = (
            f"{own_tests[0]} is never repeated"
            if own_tests
            else f"{len(files)} files failed, at most {most} are repeated"
        )
        print(f"no second try: {reason}", file=sys.stderr)
        return 1
    print("\n".join(files))
    return 0


def record(report: Path, history: Path, commit: str) -> int:
    """Print the flaky tests and remember them with the commit; return the exit code."""
    flaky = failed_cases(report)
    runs = [json.loads(line) for line in history.read_text().splitlines()] if history.exists() else []
    before = {node_id for run in runs if run["commit"] != commit for node_id in run["flaky"]}
    run = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit, "flaky": sorted(flaky)}
    history.parent.mkdir(parents=True, exist_ok=True)
    history.write_text("".join(f"{json.dumps(entry)}\n" for entry in [*runs, run][-REMEMBERED_RUNS:]))
    for node_id, case in flaky.items():
        print(f"FLAKY: {node_id}: {case.error}")
    flaky_again = sorted(flaky.keys() & before)
    for node_id in flaky_again:
        print(f"flaky at two commits, fix it: {node_id}", file=sys.stderr)
    return 1 if flaky_again else 0


def count(reports: Sequence[Path]) -> int:
    """Print how many tests of the reports passed, failed and were skipped."""
    tests = [case for report in reports for case in cases(report)]
    failed_ids = {case.node_id for case in tests if case.error is not None}
    skipped = sum(case.skipped for case in tests)
    total = len({case.node_id for case in tests})
    print(f"{total - len(failed_ids) - skipped} passed, {len(failed_ids)} failed, {skipped} skipped")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    match arguments:
        case ["choose", report, most]:
            return choose(Path(report), int(most))
        case ["record", report, history, commit]:
            return record(Path(report), Path(history), commit)
        case ["count", *reports]:
            return count([Path(report) for report in reports])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
