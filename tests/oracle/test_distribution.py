"""A test whose jars of Flink cannot be fetched is skipped, with the reason."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oracle import distribution


@pytest.fixture
def fail_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[object]]:
    """Return a function that lets the first commands fail and returns the list of commands run; the cache is empty."""

    def fail(failure_count: int) -> list[object]:
        commands: list[object] = []

        def run(command: object, **_: Any) -> None:
            commands.append(command)
            if len(commands) <= failure_count:
                raise subprocess.CalledProcessError(1, "pip")

        monkeypatch.setattr(distribution.subprocess, "run", run)
        return commands

    monkeypatch.setenv("RESCALE_TEST_CACHE", str(tmp_path))
    monkeypatch.setattr(distribution, "_failed_downloads", set())
    return fail


@pytest.mark.parametrize(("no_skips", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_failed_download_skips_tests_and_is_tried_once(
    fail_first: Callable[[int], list[object]],
    monkeypatch: pytest.MonkeyPatch,
    no_skips: str,
    outcome: type[BaseException],
) -> None:
    monkeypatch.setenv("RESCALE_NO_SKIPS", no_skips)
    commands = fail_first(2)
    for _ in range(2):
        with pytest.raises(outcome, match="could not be fetched: let this machine reach"):
            distribution.flink_home("2.3.0")
    assert len(commands) == 1


@pytest.mark.parametrize(("failure_count", "reason_start"), [(2, ""), (3, "Flink 2.3.0 could not be fetched")])
def test_download_ahead_of_the_tests_is_tried_three_times(
    fail_first: Callable[[int], list[object]], monkeypatch: pytest.MonkeyPatch, failure_count: int, reason_start: str
) -> None:
    monkeypatch.setattr(
        distribution, "_downloads_and_builds", lambda _: [("Flink", lambda: distribution._fetch("Flink 2.3.0"))]
    )
    commands = fail_first(failure_count)
    ((name, reason),) = distribution.fetch(everything=False, tries=3)
    assert (name, len(commands)) == ("Flink", 3)
    assert reason.startswith(reason_start)
    assert bool(reason) == bool(reason_start)
