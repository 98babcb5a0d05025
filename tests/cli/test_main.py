"""Errors and exit codes of the command line without Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.text.errors import RescaleError
from support.commands import Captured, answer
from support.readme import fields
from support.slow import pairs_in_turn
from support.snapshots import directory

SOURCE = directory("1.20-heap-native")


def test_refused_target_is_not_changed(capsys: Captured, tmp_path: Path) -> None:
    """No plan is written beside the target, either."""
    published, file = tmp_path / "published", tmp_path / "file"
    shutil.copytree(SOURCE, published)
    file.write_text("x")
    file_in_the_way = "a file stands where a directory is needed"
    cases = ((published, "the target is occupied"), (file, "the target is a file"), (file / "x", file_in_the_way))
    for target, what in cases:
        code, document = answer(capsys, "run", SOURCE, "--target", str(target))
        assert (code, document["what"]) == (2, what)
        assert main(["plan", SOURCE, "--target", str(target)]) == 0
        assert f"a run would refuse this plan: {what}" in capsys.readouterr().err
        assert answer(capsys, "plan", SOURCE, "--target", str(target))[1]["refused"]["what"] == what
        assert main(["run", SOURCE, "--target", str(target)]) == 2
        assert capsys.readouterr().err.startswith(f"error: {what}")  # no text of a plan precedes the error
    assert sorted(tmp_path.iterdir()) == [file, published]


def damaged_snapshot(tmp_path: Path) -> str:
    (tmp_path / "_metadata").write_bytes((Path(SOURCE) / "_metadata").read_bytes()[:100])
    return str(tmp_path)


def test_damaged_metadata_is_reported_with_path_and_offset(capsys: Captured, tmp_path: Path) -> None:
    code, document = answer(capsys, "inspect", damaged_snapshot(tmp_path))
    assert (code, document["exit_code"], document["error"]) == (3, 3, "SnapshotError")
    assert document["path"] == str(tmp_path / "_metadata")
    assert 0 < document["offset"] <= 100
    assert (
        {"error", "what", "exit_code", "advice_parts", *RescaleError.DETAIL_NAMES} == fields("error") >= document.keys()
    )
    assert main(["inspect", damaged_snapshot(tmp_path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert f"  path: {tmp_path}/_metadata" in captured.err


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["inspect", "/nothing/there"], 2, "RequestError"),
        (["inspect", "ftp://host/save"], 2, "RequestError"),
        (["inspect", "/save\udcff"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t\udcff"], 2, "RequestError"),
        (["inspect", SOURCE, "--uids", "/nothing/there"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--executors", "many"], 2, "RequestError"),
        (["plan", SOURCE, "--target", f"{SOURCE}/inside"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--parallelism", "129"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--parallelism", "nobody=2"], 2, "RequestError"),
        (["plan", SOURCE, "--target", "/t", "--parallelism", "many"], 2, "RequestError"),
        (["plan", directory("1.20-unaligned"), "--target", "/t"], 3, "UnsupportedError"),
    ],
)
def test_every_error_has_its_exit_code_and_a_json_document(
    capsys: Captured, arguments: list[str], code: int, error: str
) -> None:
    exit_code, document = answer(capsys, *arguments)
    assert (exit_code, document["exit_code"], document["error"]) == (code, code, error)
    assert document["what"]


@pytest.mark.parametrize("content", ["", "topic,partition,offset\n", "[]"])
@pytest.mark.parametrize("command", [["plan", SOURCE, "--target", "/t"], ["validate", SOURCE, "/t"]])
def test_empty_file_of_kafka_offsets_is_refused(
    capsys: Captured, tmp_path: Path, command: list[str], content: str
) -> None:
    """An empty file means that the program that should have filled it failed."""
    file = tmp_path / "offsets"
    file.write_text(content)
    code, error = answer(capsys, *command, "--kafka-offsets", str(file))
    assert (code, error["what"], error["path"]) == (2, "the file of Kafka offsets names no partition", str(file))


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["plan", "/a"],
        ["dance"],
        ["inspect", "/a", "--loud"],
        ["discard", "/a", "/b"],
        ["inspect", "/a", "--out", "json"],
        ["run", "/a", "--target", "/b", "--master", "locale[2]"],
    ],
)
def test_unknown_and_missing_arguments_are_a_request_error(capsys: Captured, arguments: list[str]) -> None:
    code, document = answer(capsys, *arguments)
    assert (code, document["error"]) == (2, "RequestError")
    assert "--help" in document["advice"]
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", SOURCE, "--target", "/t", "--rename", "visits=\udcff"],
        ["plan", SOURCE, "--target", "/t", "--parallelism", "gr\udcf6\udcdfe=3"],
        ["plan", SOURCE, "--target", "/t", "--drop-state", "visits:\udcff"],
        ["inspect", SOURCE, "--uids", "/\udcff"],
        ["inspect", "--\udcff"],
    ],
)
def test_argument_that_is_not_utf_8_is_refused(capsys: Captured, arguments: list[str]) -> None:
    code, document = answer(capsys, *arguments)
    assert (code, document["what"]) == (2, "an argument is not UTF-8")
    assert document["found"] == ascii(arguments[-1])


def test_output_option_holds_for_errors_of_the_parser(capsys: Captured) -> None:
    assert main(["inspect", "--output=json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "RequestError"
    assert main(["inspect", "/a", "--output", "xml"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("interrupted_function", "arguments", "is_resumable"),
    [
        ("inspect.open_readable", ["inspect", SOURCE], False),
        ("run.prepared_plan_of", ["run", SOURCE, "--target", "/t"], True),
        ("discard.discard", ["discard", "/t"], True),
    ],
)
def test_interrupted_command_says_whether_it_can_be_resumed(
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    interrupted_function: str,
    arguments: list[str],
    is_resumable: bool,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"rescale.cli.commands.{interrupted_function}", interrupt)
    assert main(arguments) == 130
    message = capsys.readouterr().err
    assert message.startswith("interrupted")
    assert ("the same command" in message) is is_resumable
    assert main([*arguments, "--output", "json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert (document["error"], document["exit_code"]) == ("KeyboardInterrupt", 130)


@pytest.mark.parametrize(
    ("module", "signal_number"),
    pairs_in_turn(
        ["rescale.cli.main", "argparse", "rescale.cli.commands.virtual_keys"],
        [signal.SIGINT, signal.SIGTERM],
        quick=1,
    ),
)
def test_command_that_is_interrupted_while_it_starts_shows_no_traceback(
    module: str, signal_number: signal.Signals, tmp_path: Path
) -> None:
    interrupting_code = "import os, signal, sys\nclass Interrupts:\n    def find_spec(self, name, *_):\n"
    interrupting_code += (
        f"        if name == '{module}':\n            os.kill(os.getpid(), signal.{signal_number.name})\n"
    )
    (tmp_path / "sitecustomize.py").write_text(f"{interrupting_code}sys.meta_path.insert(0, Interrupts())\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "rescale.cli.start", "inspect", "/s"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (128 + signal_number, "interrupted\n")
