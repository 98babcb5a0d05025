"""A clock that is put by an hour while a run goes on, or between its steps: no result or verdict depends on it.

A store that looks at the time of requests refuses them then, and that is said for what it is.
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


def played(what: str, home: str, clock: Clock, work: Path) -> None:
    """In a process with that clock."""
    paths = os.pathsep.join([str(TESTS), *sys.path])
    environment = {**os.environ, **clock.environment(), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "support.clocked_runs", what, home, str(work), directory("2-finished")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def new_bucket(s3: S3Server) -> str:
    name = s3.new_bucket("clocks")
    return f"s3://{name}"


@pytest.mark.slow
def test_nothing_on_a_disk_depends_on_a_clock_that_is_put(clock: Clock, tmp_path: Path) -> None:
    played("play", str(tmp_path / "home"), clock, tmp_path)


@pytest.mark.slow
def test_nothing_in_a_store_depends_on_a_clock_that_is_put(clock: Clock, s3: S3Server, tmp_path: Path) -> None:
    played("play shortly", new_bucket(s3), clock, tmp_path)


@pytest.mark.slow
def test_a_store_that_looks_at_the_clock_says_that_it_is_wrong(
    clock: Clock, uses_strict_s3: S3Server, tmp_path: Path
) -> None:
    played("be refused", new_bucket(uses_strict_s3), clock, tmp_path)


@pytest.mark.parametrize("command", [["inspect"], ["inspect", "--output", "json"], ["validate"]])
def test_a_clock_that_python_cannot_represent_is_set_by_its_user(clock: Clock, command: list[str]) -> None:
    clock.put(hours=272 * 8766)  # 2298
    name, *options = command
    places = [directory("2-finished")] * (2 if name == "validate" else 1)
    command_line = [sys.executable, "-m", "rescale", name, *places, *options]
    done = subprocess.run(
        command_line, env={**os.environ, **clock.environment()}, capture_output=True, text=True, check=False
    )
    assert done.returncode == RequestError.exit_code, done.stderr
    assert "set the clock" in done.stdout + done.stderr
