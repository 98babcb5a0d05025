"""`rescale run` starts one process for all of its steps, and workers only if there is much to move."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.planning.little_work import LITTLE_BYTES
from rescale.runstate.step import STEPS_OF_A_RUN
from support.airflow_server import wait_for
from support.slow import gate, slow
from support.snapshots import directory
from support.watching import Watch

SMALL_SAVEPOINT = directory("2-clicks")

ENVIRONMENT_WITHOUT_JAVA = {**{name: value for name, value in os.environ.items() if name != "JAVA_HOME"}, "PATH": ""}


@pytest.fixture(scope="module")
def large_savepoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A savepoint that is large enough for workers to start."""
    source = tmp_path_factory.mktemp("large") / "savepoint"
    write_savepoint(source, LITTLE_BYTES + (LITTLE_BYTES >> 3), value_size=10_000)
    yield source
    shutil.rmtree(source)


def run_command(source: str | Path, target: Path, *shape: str) -> list[str]:
    arguments = ["run", str(source), "--target", str(target), "--master", "local[2]", "--output", "json"]
    return [sys.executable, "-m", "rescale.cli.main", *arguments, *shape]


def worker_pids(watch: Watch) -> set[int]:
    """Return the process ids of the running workers and of their server."""
    return {pid for pid, line in watch.running_lines().items() if "worker_server" in line}


def seconds_by_step(target: Path) -> dict[str, float]:
    documents = {step: json.loads(Path(f"{target}.rescale/result-{step}.json").read_text()) for step in STEPS_OF_A_RUN}
    assert {document["status"] for document in documents.values()} == {"done"}
    return {step: document["seconds"] for step, document in documents.items()}


@pytest.mark.parametrize("shape", [("--parallelism", "3"), ("--max-parallelism", "1000")])
def test_little_work_needs_no_java(shape: tuple[str, ...], tmp_path: Path) -> None:
    target = tmp_path / "target"
    process = subprocess.run(
        run_command(SMALL_SAVEPOINT, target, *shape),
        env=ENVIRONMENT_WITHOUT_JAVA,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert not json.loads(process.stdout)["already_published"]
    assert list(seconds_by_step(target)) == list(STEPS_OF_A_RUN)


@pytest.mark.slow
def test_local_copy_needs_no_spark_however_large(large_savepoint: Path, tmp_path: Path) -> None:
    """This holds even if a little of the state is read instead of copied."""
    target = tmp_path / "target"
    command_line = run_command(large_savepoint, target, "--parallelism", "3")
    process = subprocess.run(command_line, env=ENVIRONMENT_WITHOUT_JAVA, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["bytes_moved"] > LITTLE_BYTES


def test_failed_step_ends_the_run(tmp_path: Path) -> None:
    """Steps before it have ended well, and no later step begins."""
    target = tmp_path / "target"
    stop = "def stop(*_): raise SnapshotError('torn', path='/p')"
    hook = (
        "import sys\nif 'move_rounds' in sys.orig_argv:\n    from rescale.text.errors import SnapshotError\n"
        f"    import rescale.execution.steps as steps\n    {stop}\n    steps.redistribute_operator_state = stop\n"
    )
    (tmp_path / "sitecustomize.py").write_text(hook)
    environment = {**ENVIRONMENT_WITHOUT_JAVA, "PYTHONPATH": str(tmp_path)}
    process = subprocess.run(
        run_command(SMALL_SAVEPOINT, target), env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 3, process.stderr
    assert json.loads(process.stdout)["what"] == "torn"
    assert process.stderr.count("error: torn") == 1
    documents = {path.name: json.loads(path.read_text()) for path in Path(f"{target}.rescale").glob("result-*")}
    assert {name: document["status"] for name, document in documents.items()} == {
        "result-reshuffle_keyed_state.json": "done",
        "result-redistribute_operator_state.json": "failed",
    }
    assert "torn" in Path(f"{target}.rescale/report.html").read_text()


def test_sigterm_ends_the_run_as_ctrl_c_does(tmp_path: Path) -> None:
    """The run ends its step and says that it was interrupted."""
    target, begun_file = tmp_path / "target", tmp_path / "begun"
    hook = (
        "import sys\nif 'move_rounds' in sys.orig_argv:\n    import pathlib, time\n"
        "    import rescale.execution.steps as steps\n    def stop(*_):\n"
        f"        pathlib.Path('{begun_file}').touch()\n        time.sleep(1000)\n"
        "    steps.redistribute_operator_state = stop\n"
    )
    (tmp_path / "sitecustomize.py").write_text(hook)
    command_line = [
        word.replace("rescale.cli.main", "rescale.cli.start") for word in run_command(SMALL_SAVEPOINT, target)
    ]
    with Watch() as watch:
        environment = {**ENVIRONMENT_WITHOUT_JAVA, **watch.environment, "PYTHONPATH": str(tmp_path)}
        process = subprocess.Popen(
            command_line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_for(begun_file.exists, "the step to begin")
        process.terminate()
        stdout, stderr = process.communicate()
        assert process.returncode == json.loads(stdout)["exit_code"] == 143
        assert stderr.endswith("interrupted; the same command resumes\n")
        wait_for(lambda: not watch.processes(), "all to end", 120)


@pytest.mark.parametrize("signal_number", [gate(signal.SIGINT), slow(signal.SIGKILL)])
def test_all_steps_share_workers_which_end_with_an_interrupted_run(
    signal_number: int, large_savepoint: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    command_line = run_command(large_savepoint, target, "--max-parallelism", "1000")
    with Watch() as watch:
        environment = {**ENVIRONMENT_WITHOUT_JAVA, **watch.environment}
        first_run = subprocess.Popen(
            command_line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: worker_pids(watch), "workers to start")
        first_run.send_signal(signal_number)
        _, stderr = first_run.communicate()
        assert first_run.returncode == (130 if signal_number == signal.SIGINT else -signal_number)
        assert ("the same command resumes" in stderr) == (signal_number == signal.SIGINT)
        wait_for(lambda: not watch.processes(), "all to end", 120)
    seen_pids = set()
    with Watch() as watch, (tmp_path / "said").open("w") as log_file:
        second_run = subprocess.Popen(
            command_line, env={**ENVIRONMENT_WITHOUT_JAVA, **watch.environment}, stdout=log_file, stderr=log_file
        )
        while second_run.poll() is None:
            seen_pids |= worker_pids(watch)
            time.sleep(0.1)
    stderr = (tmp_path / "said").read_text()
    assert second_run.returncode == 0, stderr
    assert len(seen_pids) == 3, "two workers and their server"
    assert all(seconds > 0 for seconds in seconds_by_step(target).values())
