"""`rescale demo` as a newcomer runs it, and as it is interrupted: it shows what it promises, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.airflow_server import wait_for
from support.needs import need
from support.slow import slow
from support.watching import Watch

_LOOPBACK_ADDRESSES = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}

_ENDLESS_STEP = """
import sys
if "--plan" in sys.orig_argv:
    import pathlib, time
    import rescale.execution.steps as steps
    def stop(*_):
        pathlib.Path({begun!r}).touch()
        time.sleep(1000)
    steps.reshuffle_keyed_state = stop
"""
"""A `sitecustomize.py` that lets the first step that moves state begin but not end."""


@dataclass(frozen=True)
class RunningDemo:
    process: subprocess.Popen[str]
    watch: Watch
    temporary_folder: Path

    def read_until(self, text: str) -> str:
        """Return the output up to the line with `text`."""
        assert self.process.stdout
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if text in line:
                return "".join(lines)
        raise AssertionError(f"ended without saying {text!r}:\n{''.join(lines)}")

    def remaining_output(self) -> str:
        """Return the rest of the output after the process has ended."""
        return self.process.communicate()[0]

    def assert_gone(self, seconds: float = 20) -> None:
        """Check that all is gone after a while, because a killed process takes some time to end."""
        deadline = time.monotonic() + seconds
        while (self.watch.processes() or list(self.temporary_folder.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert self.watch.processes() == []
        assert list(self.temporary_folder.iterdir()) == []


@pytest.fixture
def start_demo() -> Iterator[Callable[..., RunningDemo]]:
    """Yield a function that starts `rescale demo`; its temporary files have a short path, because sockets lie there."""
    with tempfile.TemporaryDirectory(prefix="demo-") as temporary_folder, Watch() as watch:

        def start(*arguments: str, **environment: str) -> RunningDemo:
            process = subprocess.Popen(
                [sys.executable, "-m", "rescale", "demo", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **watch.environment, "TMPDIR": temporary_folder, **environment},
            )
            return RunningDemo(process, watch, Path(temporary_folder))

        yield start
        for process in watch.processes():
            process.kill()


@pytest.mark.gate
@pytest.mark.slow
def test_demo_shows_the_whole_pipeline_and_flink_restores_the_result(start_demo: Callable[..., RunningDemo]) -> None:
    need("javac", "Flink is driven by Java that is compiled for it")
    demo = start_demo("--flink")
    output = demo.remaining_output()
    assert demo.process.returncode == 0, output
    for task in (
        "inspect",
        "plan",
        "approve",
        "reshuffle_keyed_state",
        "redistribute_operator_state",
        "validate",
        "publish",
        "announce",
    ):
        assert f"  {task}: " in output
    assert output.count("done in") == 8
    assert "key groups 0-31" in output, "4 subtasks before are not shown"
    assert "key groups 107-127" in output, "6 subtasks after are not shown"
    assert "verdict:       complete: 11 operators" in output
    assert "certificate:   s3://rescaled/clicks-6.rescale/certificate.json" in output
    assert "start the job: flink run -s s3://rescaled/clicks-6 -p 6" in output
    assert "both hold the same state: 16 users, 34 clicks" in output
    assert demo.watch.addresses, "no servers were seen"
    assert demo.watch.addresses.keys() <= _LOOPBACK_ADDRESSES, demo.watch.addresses
    demo.assert_gone()


@pytest.mark.parametrize(
    ("arguments", "awaited_text", "sent_signal", "code"),
    [
        ((), "Creating an Airflow", signal.SIGINT, 130),
        slow((), "Creating an Airflow", signal.SIGTERM, 143),
        slow((), "_state: ", signal.SIGINT, 130),
        slow(("--ui",), "Ctrl-C ends everything", signal.SIGINT, 130),
    ],
)
def test_ctrl_c_or_sigterm_given_twice_leaves_nothing(
    start_demo: Callable[..., RunningDemo],
    arguments: tuple[str, ...],
    awaited_text: str,
    sent_signal: signal.Signals,
    code: int,
    tmp_path: Path,
) -> None:
    begun_file, variables = tmp_path / "begun", {}
    if awaited_text == "_state: ":
        (tmp_path / "sitecustomize.py").write_text(_ENDLESS_STEP.format(begun=str(begun_file)))
        variables = {"PYTHONPATH": str(tmp_path)}
    demo = start_demo(*arguments, **variables)
    demo.read_until(awaited_text)
    if variables:
        wait_for(begun_file.exists, "the step to begin")
    demo.process.send_signal(sent_signal)
    time.sleep(0.2)
    demo.process.send_signal(sent_signal)
    output = demo.remaining_output()
    assert demo.process.returncode == code, output
    assert output.rstrip().endswith("Interrupted: everything that the demo started is removed.")
    assert "Stopping everything" in output or not arguments
    assert demo.watch.addresses.keys() <= _LOOPBACK_ADDRESSES, demo.watch.addresses
    demo.assert_gone()


@pytest.mark.slow
@pytest.mark.parametrize("awaited_text", ["Creating an Airflow", "_state: "])
def test_killed_demo_leaves_nothing_for_long(start_demo: Callable[..., RunningDemo], awaited_text: str) -> None:
    demo = start_demo()
    demo.read_until(awaited_text)
    demo.process.kill()
    demo.process.wait()
    demo.assert_gone(300)


def test_missing_java_is_reported_in_one_sentence(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "rescale", "demo", "--flink"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    assert process.returncode == 2
    assert "error: Flink needs a JDK 17 or newer" in process.stderr
    assert "Traceback" not in process.stderr
