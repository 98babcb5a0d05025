"""A run with `--proof files` and the commands that may follow it, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import in_a_process
from support.edited import relocated

pytestmark = pytest.mark.slow


def rescale(*arguments: object) -> tuple[int, dict[str, Any], str]:
    """Run a command, and return its exit code, document and standard error."""
    process = in_a_process(*arguments, "--output", "json")
    return process.returncode, json.loads(process.stdout), process.stderr


@pytest.mark.parametrize(("files", "parallelism"), [("refer", 3), ("copy", 1)])
def test_result_proven_by_files_is_validated_by_records(files: str, parallelism: int, tmp_path: Path) -> None:
    source, target = relocated("2-rocksdb-native", tmp_path / "source"), tmp_path / "target"
    run_command = ("run", source, "--target", target, "--parallelism", parallelism, "--files", files)
    code, first_answer, stderr = rescale(*run_command, "--proof", "files")
    assert (code, first_answer["proof"]) == (0, "files"), stderr
    proof_message = (
        "1 RocksDB directory is compared by its" if parallelism == 1 else "3 RocksDB directories are compared"
    )
    assert f"proof: {proof_message}" in stderr
    certificate = json.loads(Path(first_answer["certificate"]).read_text())
    assert certificate["proof"] == "files"
    code, second_answer, stderr = rescale(*run_command)
    assert (code, second_answer["already_published"], second_answer["proof"], second_answer["plan"]) == (
        0,
        True,
        "files",
        first_answer["plan"],
    ), stderr
    code, validation, stderr = rescale("validate", source, target, "--proof", "files")
    assert (code, validation["operators"]) == (0, certificate["operators"]), stderr
    code, validation, stderr = rescale("validate", source, target, "--proof", "records")
    assert (code, validation["verdict"], validation["proof"]) == (0, "complete", "records"), stderr
    assert any(operator["records"] for operator in validation["operators"])
    if files == "copy":
        (copied_file,) = (path for path in target.iterdir() if path.name != "_metadata")  # all else is in `_metadata`
        data = bytearray(copied_file.read_bytes())
        data[20] ^= 1
        copied_file.write_bytes(data)
        code, error, _ = rescale("validate", source, target, "--proof", "files")
        assert (code, error["error"], error["path"]) == (4, "IntegrityError", str(copied_file))


def test_proof_by_files_of_state_without_directories_is_refused_before_writing(tmp_path: Path) -> None:
    source, target = relocated("2-canonical-rocksdb", tmp_path / "source"), tmp_path / "target"
    code, error, _ = rescale("run", source, "--target", target, "--parallelism", 3, "--proof", "files")
    assert (code, error["what"]) == (2, "no state of this plan can be proven by files")
    assert not target.exists()
    assert not Path(f"{target}.rescale").exists()
