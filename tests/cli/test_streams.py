"""Standard streams that are closed, full, gone, or have a small character set."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rescale.cli.main import main
from support.commands import Captured, in_a_process
from support.slow import pairs_in_turn, slow
from support.snapshots import directory

SOURCE = directory("1.20-heap-native")


def test_characters_outside_of_the_output_encoding_are_escaped() -> None:
    process = in_a_process("plan", SOURCE, "--target", "/t", "--parallelism", "5", PYTHONIOENCODING="ascii")
    assert process.returncode == 0, process.stderr
    assert "\\u2192" in process.stdout


@pytest.mark.parametrize(
    "arguments", [["inspect", SOURCE, "--output", "json"], slow(["inspect", "/nowhere", "--output=json"])]
)
def test_reader_that_goes_away_ends_the_command_silently(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    rescale_command = [sys.executable, "-m", "rescale.cli.main", *arguments]
    for stderr in (subprocess.PIPE, writer):
        process = subprocess.run(rescale_command, stdout=writer, stderr=stderr, check=False)
        assert process.returncode == 1
        assert not process.stderr
    os.close(writer)


ANSWERING_COMMANDS = [
    ["inspect", SOURCE],
    ["inspect", SOURCE, "--kafka-offsets", "json"],
    ["plan", SOURCE, "--target", "/t"],
    ["diff", SOURCE, SOURCE],
]


@pytest.mark.parametrize(
    ("arguments", "format_arguments"),
    pairs_in_turn([*ANSWERING_COMMANDS, ["inspect", "/nowhere"]], [[], ["--output", "json"]], quick=1),
)
def test_answer_that_cannot_be_written_ends_with_exit_code_1(arguments: list[str], format_arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full_device:
        rescale_command = [sys.executable, "-m", "rescale.cli.main", *arguments, *format_arguments]
        process = subprocess.run(rescale_command, stdout=full_device, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == (2 if arguments[1] == "/nowhere" and not format_arguments else 1)
    assert ("error: the answer cannot be written to standard output\n" in process.stderr) == (process.returncode == 1)
    assert process.stderr.count("error: ") == 1
    assert "Traceback" not in process.stderr
    assert "Exception ignored" not in process.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
@pytest.mark.parametrize("buffering", ["", "1"])
def test_help_and_version_that_cannot_be_written_end_with_exit_code_1(arguments: list[str], buffering: str) -> None:
    reader, pipe = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": buffering}
    rescale_command = [sys.executable, "-m", "rescale.cli.main", *arguments]
    with Path("/dev/full").open("wb") as full_device, os.fdopen(pipe, "wb") as closed_pipe:
        for stdout in (full_device, closed_pipe):
            process = subprocess.run(
                rescale_command, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
            )
            assert process.returncode == 1
            first_line = process.stderr.partition("\n")[0]
            assert first_line == (
                "error: the answer cannot be written to standard output" if stdout is full_device else ""
            )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 2), (["diff", SOURCE, SOURCE], 0), (["run", SOURCE, "--target", "TARGET"], 0)],
)
def test_full_disk_under_standard_error_does_not_change_the_result(
    tmp_path: Path, arguments: list[str], code: int
) -> None:
    target = str(tmp_path / "target")
    rescale_command = [sys.executable, "-m", "rescale.cli.main", *(target if a == "TARGET" else a for a in arguments)]
    with Path("/dev/full").open("wb") as full_device:
        process = subprocess.run(rescale_command, stdout=subprocess.PIPE, stderr=full_device, check=False)
    assert process.returncode == code
    assert bool(process.stdout) is (code == 0)


@pytest.mark.parametrize(("path", "code"), [(SOURCE, 0), ("/nowhere", 2)])
def test_error_that_cannot_be_written_still_decides_the_exit_code(path: str, code: int) -> None:
    with Path("/dev/full").open("wb") as full_device:
        rescale_command = [sys.executable, "-m", "rescale.cli.main", "inspect", path]
        assert (
            subprocess.run(rescale_command, stdout=subprocess.DEVNULL, stderr=full_device, check=False).returncode
            == code
        )


@pytest.mark.parametrize(
    ("redirection", "has_answer"), [slow("<&-", True), slow(">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)]
)
def test_standard_streams_may_be_closed(tmp_path: Path, redirection: str, has_answer: bool) -> None:
    rescale_command = shlex.join([sys.executable, "-m", "rescale.cli.main", "run", SOURCE, "--target", f"{tmp_path}/t"])
    process = subprocess.run(
        ["bash", "-c", f"{rescale_command} {redirection}"], capture_output=True, text=True, check=False
    )
    assert (process.returncode, "Traceback" in process.stderr) == (0, False)
    assert (tmp_path / "t/_metadata").exists()
    assert bool(process.stdout) is has_answer


def test_relative_path_needs_a_working_directory(tmp_path: Path) -> None:
    rescale_command = shlex.join([sys.executable, "-m", "rescale.cli.main", "inspect"])
    for path, code in ((SOURCE, 0), ("savepoint", 2)):
        (tmp_path / "gone").mkdir()
        command = f"cd {tmp_path}/gone && rmdir ../gone && {rescale_command} {path}"
        process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (process.returncode, "working directory" in process.stderr) == (code, code != 0), process.stderr


def test_line_break_in_a_name_is_escaped(capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "a\nerror: b"
    assert main(["run", SOURCE, "--target", str(target)]) == 0
    output = capsys.readouterr()
    assert "error: b" not in (output.out + output.err).splitlines()
    assert rf"report: {tmp_path}/a\nerror: b.rescale/report.html" in output.err
    assert rf"flink run -s $'{tmp_path}/a\x0aerror: b' -p" in output.out
    assert main(["report", SOURCE, "-o", f"{target}.html"]) == 0
    assert capsys.readouterr().out.startswith(rf"{tmp_path}/a\nerror: b.html: ")


def test_control_characters_in_a_name_of_a_file_are_escaped(capsys: Captured, tmp_path: Path) -> None:
    documents = tmp_path / "target.rescale"
    documents.mkdir()
    (documents / ".rescale-owner").touch()
    (documents / "\x1b[2J\x9bm\u202e").touch()
    (documents / "caf\udce9").touch()  # a byte that is not UTF-8
    arguments = ["discard", str(tmp_path / "target")]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert r"such as " in text
    assert r"\x1b[2J\x9bm\u202e" in text
    assert main([*arguments, "--output", "json"]) == 0
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.splitlines())
    assert json.loads(printed)["left"] == [str(documents / "\x1b[2J\x9bm\u202e"), str(documents / r"caf\udce9")]
