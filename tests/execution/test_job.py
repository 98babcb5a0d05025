"""A job's process ends with a result document, and reports an error once."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import validate_coverage
from rescale.execution.job import load_plan_with_targets, run_job
from rescale.execution.tasks.spark.session import spark_context
from rescale.text.errors import IntegrityError, RequestError
from support.airflow_server import wait_for
from support.watching import has_ended

Captured = pytest.CaptureFixture[str]


def job_arguments(result: Path | str, *, attached: bool) -> argparse.Namespace:
    return argparse.Namespace(result=str(result), attached=attached, drawn=False)


def fail() -> dict[str, Any]:
    raise IntegrityError("a record is missing", state="counts")


@pytest.fixture(autouse=True)
def _nobody_at_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.execution.job.end_with_standard_input", lambda: None)


@pytest.mark.parametrize("attached", [True, False])
def test_result_document_holds_status_seconds_metrics_and_values(
    attached: bool, tmp_path: Path, capsys: Captured
) -> None:
    result = tmp_path / "result.json"
    assert run_job(job_arguments(result, attached=attached), lambda: {"bytes": 1}) == 0
    document = json.loads(result.read_text())
    assert 0 <= document.pop("seconds") < 60
    assert document.pop("metrics")["worst_memory_bytes"]["driver"] > 1_000_000
    assert document == {"status": "done", "bytes": 1}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("attached", [True, False])
def test_error_is_printed_by_the_process_unless_another_process_started_it(
    attached: bool, tmp_path: Path, capsys: Captured
) -> None:
    result = tmp_path / "result.json"
    assert run_job(job_arguments(result, attached=attached), fail) == 4
    assert json.loads(result.read_text())["what"] == "a record is missing"
    assert capsys.readouterr().err == ("" if attached else "error: a record is missing\n  state: counts\n")


@pytest.mark.parametrize("attached", [True, False])
@pytest.mark.parametrize("result", ["/dev/null/result.json", "http://host/result.json"])
def test_all_errors_are_printed_if_the_result_document_cannot_be_written(
    result: str, attached: bool, capsys: Captured
) -> None:
    assert run_job(job_arguments(result, attached=attached), dict) == 2
    assert "the result document could not be written" in capsys.readouterr().err
    if result.startswith("/"):
        assert run_job(job_arguments(result, attached=attached), fail) == 4
        assert capsys.readouterr().err.count("error: ") == 2


@pytest.mark.parametrize(("java_home", "missing_program"), [("/nowhere", "/nowhere/bin/java"), (None, "java")])
def test_missing_java_is_a_request_error_that_names_the_need(
    java_home: str | None, missing_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if java_home is not None:
        monkeypatch.setenv("JAVA_HOME", java_home)
    with pytest.raises(RequestError, match="Spark needs a JDK 17") as caught, spark_context("a test", "local"):
        pass
    assert caught.value.found == f"no {missing_program}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "/p", "--plan", "/q"], "argument --plan: given more than once"),
        (["--plan", "/p", "--proof", "files", "--proof=records"], "argument --proof: given more than once"),
        (["--plan", "/p", "--res", "/s"], "unrecognized arguments: --res"),
        (["--plan", "/p", "--source", "/s"], "give either --plan, or --source and --target"),
        (["--target", "/t"], "give either --plan, or --source and --target"),
        ([], "give either --plan, or --source and --target"),
    ],
)
def test_contradictory_arguments_are_refused(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("sys.argv", ["validate_coverage", "--result", "/r", *arguments])
    with pytest.raises(SystemExit) as caught:
        validate_coverage.main()
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_plan_of_a_discarded_target_is_reported_as_gone(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="its target was discarded meanwhile"):
        load_plan_with_targets(str(tmp_path / f"target.rescale/plan-{'0' * 64}.json"), str(tmp_path / "result.json"))


def test_job_ends_with_its_children_when_its_standard_input_is_closed() -> None:
    """This includes processes that would not end with it, such as a JVM that is starting."""
    program = (
        "import subprocess, time\nfrom rescale.execution.job import end_with_standard_input\n"
        "print(subprocess.Popen(['sleep', '1000']).pid, flush=True)\n"
        "end_with_standard_input()\ntime.sleep(1000)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        process.stdin.close()
        assert process.wait() == -signal.SIGTERM
    wait_for(lambda: has_ended(child), "the child to end", 300)
