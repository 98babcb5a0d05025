"""Shell completions, as argcomplete asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.snapshots import directory

CLICKS = directory("2-clicks")


def completions_of(line: str, tmp_path: Path) -> list[str]:
    answer_file = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer_file),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    process = subprocess.run(
        [sys.executable, "-m", "rescale.cli.main"], env=environment, capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == b""
    return answer_file.read_text().split("\n") if answer_file.exists() else []


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("rescale di", ["diff", "discard"]),
        ("rescale schema cer", ["certificate "]),
        (f"rescale plan {CLICKS} --format ", ["keep", "canonical", "rocksdb"]),
        (f"rescale run {CLICKS} --target /t --parallelism vi", ["visits="]),
        (f"rescale diff {CLICKS} /t --rename vi", ["visits="]),
        (f"rescale run {CLICKS} --target /t --drop vi", ["visits "]),
        (f"rescale run {CLICKS} --target /t --drop-state vi", ["visits:"]),
        (f"rescale follow {CLICKS} --target /t --parallelism vi", ["visits="]),
        ("rescale run s3://bucket/savepoint --target /t --parallelism vi", []),
        ("rescale run --parallelism vi", []),
    ],
)
def test_words_are_completed(line: str, completions: list[str], tmp_path: Path) -> None:
    assert completions_of(line, tmp_path) == (completions or [""])


def test_names_in_the_list_of_uids_are_completed_after_a_byte_order_mark(tmp_path: Path) -> None:
    """Windows begins text files with a byte order mark."""
    uids_file = tmp_path / "uids"
    uids_file.write_text("bc1318e8f318643c042ed22188f09655 numbers\n", encoding="utf-8-sig")
    line = f"rescale plan {directory('1.20-canonical-hashmap')} --target /t --uids {uids_file} --parallelism nu"
    assert completions_of(line, tmp_path) == ["numbers="]
