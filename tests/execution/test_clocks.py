"""Clocks that jump by an hour during a run or between its steps change no result or verdict.

A store that checks the time of requests refuses them, and the error says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rescale.text.errors import RequestError
from support.clocks import Clock, new_clock
from support.s3 import S3Server
from support.snapshots import directory

TESTS = Path(__file__).parent.parent


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return new_clock(tmp_path)


def run_check(check_name: str, storage_uri: str, clock: Clock, folder: Path) -> None:
    """Run a scenario in a process with this clock."""
    paths = os.pathsep.join([str(TESTS), *sys.path])
    environment = {**os.environ, **clock.environment(), "PYTHONPATH": paths}
    command = [
        sys.executable,
        "-m",
        "execution.clocked_runs",
        check_name,
        storage_uri,
        str(folder),
        directory("2-finished"),
    ]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def new_bucket(s3: S3Server) -> str:
    name = s3.new_bucket("clocks")
    return f"s3://{name}"


@pytest.mark.slow
def test_jumping_clock_changes_nothing_on_local_disk(clock: Clock, tmp_path: Path) -> None:
    run_check("play", str(tmp_path / "home"), clock, tmp_path)


@pytest.mark.slow
def test_jumping_clock_changes_nothing_in_s3(clock: Clock, s3: S3Server, tmp_path: Path) -> None:
    run_check("play shortly", new_bucket(s3), clock, tmp_path)


@pytest.mark.slow
def test_request_refused_for_its_time_is_reported_as_a_wrong_clock(
    clock: Clock, uses_strict_s3: S3Server, tmp_path: Path
) -> None:
    run_check("be refused", new_bucket(uses_strict_s3), clock, tmp_path)


@pytest.mark.parametrize("command", [["inspect"], ["inspect", "--output", "json"], ["validate"]])
def test_clock_beyond_the_range_of_python_is_a_request_error(clock: Clock, command: list[str]) -> None:
    clock.put(hours=272 * 8766)  # 2298
    name, *options = command
    directories = [directory("2-finished")] * (2 if name == "validate" else 1)
    command_line = [sys.executable, "-m", "rescale", name, *directories, *options]
    process = subprocess.run(
        command_line, env={**os.environ, **clock.environment()}, capture_output=True, text=True, check=False
    )
    assert process.returncode == RequestError.exit_code, process.stderr
    assert "set the clock" in process.stdout + process.stderr
