"""Reads of the files that a user names: text files, pipes, and devices that never end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from rescale.options.text_files import LARGEST_TEXT_BYTES, read_text
from rescale.text.errors import RequestError
from support.snapshots import directory


def test_a_text_is_read_from_a_file_and_from_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa uid\n")
    assert read_text(str(tmp_path / "file"), "list") == "a uid\n"
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a uid\n",))
    writer.start()
    assert read_text(str(tmp_path / "pipe"), "list") == "a uid\n"
    writer.join()


def _write_for_ever(pipe: Path) -> None:
    with pipe.open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except BrokenPipeError:
            pass


def test_endless_pipe_and_device_are_refused(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = Thread(target=_write_for_ever, args=(pipe,), daemon=True)
    writer.start()
    for path in (str(pipe), "/dev/zero"):
        with pytest.raises(RequestError) as raised:
            read_text(path, "list")
        assert raised.value.path == path
        assert f"{LARGEST_TEXT_BYTES:,}" in str(raised.value.expected)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))


_COMMANDS: list[Callable[[str], list[str]]] = [
    lambda file: ["inspect", directory("1.20-clicks"), "--uids", file],
    lambda file: ["match", directory("1.20-clicks"), "--job", directory("1.20-clicks"), "--uids", file],
    lambda file: ["plan", directory("1.20-clicks"), "--target", "/t", "--parallelism", "3", "--kafka-offsets", file],
]


@pytest.mark.parametrize("command", _COMMANDS)
def test_no_option_reads_a_device_to_its_end(command: Callable[[str], list[str]]) -> None:
    command_line = [sys.executable, "-m", "rescale", *command("/dev/zero")]
    process = subprocess.run(command_line, capture_output=True, text=True, check=False, preexec_fn=_limit_memory)
    assert process.returncode == RequestError.exit_code, process.stderr
    assert "path: /dev/zero" in process.stderr
