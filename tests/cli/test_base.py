"""`--base`: which earlier results a run continues, and which it refuses before writing anything.

The later checkpoint is a copy in another place, unless a test changes it: the rows are the same, the paths not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.cli.main import main
from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.proof import Proof
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support import edited
from support.pipeline import certify, execute_without_spark, move, plan_continued, plan_rescale
from support.s3 import S3Server

NATIVE = "2-rocksdb-native"
SHAPE = ("--parallelism", "3", "--max-parallelism", "1000")
DROPPED_STATE = "clicks-per-user:pages"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def earlier_checkpoint(tmp_path: Path) -> Path:
    return edited.relocated(NATIVE, tmp_path / "earlier")


@pytest.fixture
def later_checkpoint(tmp_path: Path) -> Path:
    return edited.relocated(NATIVE, tmp_path / "later")


@pytest.fixture
def base(earlier_checkpoint: Path, tmp_path: Path) -> Path:
    return result_of(earlier_checkpoint, tmp_path / "base")


def result_of(source: Path, target: Path, parallelism: int = 3, max_parallelism: int = 1000) -> Path:
    execute_without_spark(
        plan_rescale(str(source), str(target), [str(parallelism)], max_parallelism=[str(max_parallelism)])
    )
    return target


def refusal(capsys: Captured, later_checkpoint: Path, base: Path, *options: str, code: int = 2) -> Any:
    """Return the error of a run, after checking that nothing was written."""
    target = later_checkpoint.parent / "target"
    exit_code = main(
        ["run", str(later_checkpoint), "--target", str(target), "--base", str(base), *options, "--output", "json"]
    )
    error = json.loads(capsys.readouterr().out)
    assert exit_code == error["exit_code"] == code, error
    assert not list(target.parent.glob(f"{target.name}*"))
    return error


def test_unchanged_checkpoint_continues_its_base_without_changes(
    later_checkpoint: Path, base: Path, tmp_path: Path
) -> None:
    plan = plan_continued(str(later_checkpoint), str(tmp_path / "target"), str(base), ["3"], ["1000"])
    certificate = certify(plan, Proof.CHANGES)
    assert certificate.proof == "changes"
    assert certificate.continues.target == str(base)
    (changed_operator,) = (operator for operator in certificate.operators if operator.changes)
    assert (changed_operator.changes.written, changed_operator.changes.deleted) == (0, 0)
    assert changed_operator.changes.files_of_base > 0
    validate_coverage(plan, InProcessTasks(2, None), Proof.RECORDS)


@pytest.fixture
def state_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write small state into files, too, instead of into `_metadata`."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)


def files_of_the_base(target: Path) -> list[Path]:
    return sorted(file for file in target.iterdir() if "-base-" in file.name)


@pytest.mark.usefixtures("state_in_files")
def test_files_of_the_base_are_hard_links_in_the_target(
    later_checkpoint: Path, earlier_checkpoint: Path, tmp_path: Path
) -> None:
    base, target = result_of(earlier_checkpoint, tmp_path / "base"), tmp_path / "target"
    move(plan_continued(str(later_checkpoint), str(target), str(base), ["3"], ["1000"]), InProcessTasks(2, None))
    inodes = {file.stat().st_ino for file in base.iterdir()}
    assert files_of_the_base(target)
    assert {file.stat().st_ino for file in files_of_the_base(target)} <= inodes


@pytest.mark.usefixtures("state_in_files")
def test_files_of_the_base_in_a_store_are_compared_by_its_checksums(
    s3: S3Server, later_checkpoint: Path, earlier_checkpoint: Path
) -> None:
    bucket = f"s3://{s3.new_bucket('continued')}"
    execute_without_spark(plan_rescale(str(earlier_checkpoint), f"{bucket}/base", ["3"], max_parallelism=["1000"]))
    plan = plan_continued(str(later_checkpoint), f"{bucket}/target", f"{bucket}/base", ["3"], ["1000"])
    certificate = certify(plan, Proof.CHANGES)
    (changed_operator,) = (operator for operator in certificate.operators if operator.changes)
    assert changed_operator.changes.files_of_base > 0
    assert changed_operator.checksums.algorithms == ("ETag",)
    assert changed_operator.checksums.bytes > 0
    assert "with the same checksum of the store" in certificate.proves
    assert "state that was compared by checksums of its store was not read" in certificate.does_not_prove


@pytest.mark.usefixtures("state_in_files")
@pytest.mark.parametrize("is_copy", [True, False])
def test_changed_file_of_the_base_is_found(
    is_copy: bool, later_checkpoint: Path, earlier_checkpoint: Path, tmp_path: Path
) -> None:
    """A copy of the file with the same bytes is accepted."""
    base, target = result_of(earlier_checkpoint, tmp_path / "base"), tmp_path / "target"
    plan = plan_continued(str(later_checkpoint), str(target), str(base), ["3"], ["1000"])
    move(plan, InProcessTasks(2, None))
    file = files_of_the_base(target)[0]
    data = bytearray(file.read_bytes())
    data[20] ^= not is_copy
    file.unlink()
    file.write_bytes(data)
    if is_copy:
        assert validate_coverage(plan, InProcessTasks(2, None), Proof.CHANGES).verdict == "complete"
        return
    with pytest.raises(IntegrityError) as caught:
        validate_coverage(plan, InProcessTasks(2, None), Proof.CHANGES)
    assert caught.value.path == str(file)


def test_continued_plan_differs_from_the_plan_of_a_full_run(later_checkpoint: Path, base: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    full_plan = plan_rescale(str(later_checkpoint), target, ["3"], max_parallelism=["1000"])
    continued_plan = plan_continued(str(later_checkpoint), target, str(base), ["3"], ["1000"])
    assert continued_plan.digest != full_plan.digest
    assert continued_plan == plan_continued(str(later_checkpoint), target, str(base), ["3"], ["1000"])


@pytest.mark.parametrize(
    "shape_arguments", [("--parallelism", "4", "--max-parallelism", "1000"), ("--max-parallelism", "500")]
)
def test_base_of_another_shape_is_refused(
    capsys: Captured, later_checkpoint: Path, base: Path, shape_arguments: tuple[str, ...]
) -> None:
    error = refusal(capsys, later_checkpoint, base, *shape_arguments)
    assert error["path"] == str(base)
    assert error["operator"]


@pytest.mark.parametrize("format_arguments", [("--format", "canonical"), ("--files", "refer")])
def test_base_of_another_kind_of_result_is_refused(
    capsys: Captured, later_checkpoint: Path, base: Path, format_arguments: tuple[str, ...]
) -> None:
    assert refusal(capsys, later_checkpoint, base, *SHAPE, *format_arguments)["found"] == format_arguments[1]


def test_base_with_the_max_parallelism_of_the_source_is_refused(
    capsys: Captured, earlier_checkpoint: Path, later_checkpoint: Path, tmp_path: Path
) -> None:
    max_parallelism = open_snapshot(str(earlier_checkpoint)).operators[0].max_parallelism
    base = result_of(earlier_checkpoint, tmp_path / "same", 3, max_parallelism)
    error = refusal(
        capsys, later_checkpoint, base, "--parallelism", "3", "--max-parallelism", str(max_parallelism), code=3
    )
    assert "copies files, or refers to them" in error["found"]


def test_base_of_another_job_is_refused(capsys: Captured, base: Path, tmp_path: Path) -> None:
    other_checkpoint = edited.relocated("2-rocksdb-heap-timers", tmp_path / "other")
    shape_arguments = ("--parallelism", "3", "--max-parallelism", "1000")
    assert refusal(capsys, other_checkpoint, base, *shape_arguments)["path"] == str(base)


def test_base_that_is_no_result_is_refused(
    capsys: Captured, later_checkpoint: Path, earlier_checkpoint: Path, tmp_path: Path
) -> None:
    for directory in (earlier_checkpoint, tmp_path / "nowhere"):
        assert str(directory) in refusal(capsys, later_checkpoint, directory, *SHAPE)["path"]


def change_backend(directory: Path) -> None:
    edited.edit_databases(directory, lambda handle: replace(handle, backend_id="another"))


def test_base_of_another_backend_is_refused(capsys: Captured, later_checkpoint: Path, base: Path) -> None:
    change_backend(later_checkpoint)
    error = refusal(capsys, later_checkpoint, base, *SHAPE)
    assert error["operator"]
    assert "another" in error["found"]


@pytest.mark.parametrize(
    ("option", "value"), [(b"compaction_style", b"kCompactionStyleFIFO"), (b"num_levels", b"6")], ids=["fifo", "few"]
)
def test_base_is_refused_if_rocksdb_has_too_few_levels(
    capsys: Captured, later_checkpoint: Path, base: Path, option: bytes, value: bytes
) -> None:
    def change(content: bytes) -> bytes:
        return re.sub(rb"(?m)^(\s*%s)=.*$" % option, rb"\1=%s" % value, content)

    assert edited.edit_files(later_checkpoint, "OPTIONS", change)
    error = refusal(capsys, later_checkpoint, base, *SHAPE, code=3)
    assert error["operator"]
    assert error["found"] == f"{option.decode()}={value.decode()}"


def test_base_is_refused_if_the_run_drops_a_state(capsys: Captured, later_checkpoint: Path, base: Path) -> None:
    error = refusal(capsys, later_checkpoint, base, *SHAPE, "--drop-state", DROPPED_STATE, "--yes", code=3)
    assert error["path"] == str(base)


def test_base_that_dropped_a_state_is_refused(
    capsys: Captured, earlier_checkpoint: Path, later_checkpoint: Path, tmp_path: Path
) -> None:
    base = tmp_path / "changed"
    execute_without_spark(
        plan_rescale(str(earlier_checkpoint), str(base), ["3"], max_parallelism=["1000"], state_drops=[DROPPED_STATE])
    )
    error = refusal(capsys, later_checkpoint, base, *SHAPE, code=3)
    assert error["path"] == str(base)
    assert "drops" in error["expected"]


def delete_file(directory: Path) -> Path:
    file = next(file for file in sorted(directory.iterdir()) if file.name != "_metadata")
    file.unlink()
    return file


def touch_file(directory: Path) -> Path:
    """Change the time of a file, as if another file had taken its name; return the file."""
    file = next(file for file in sorted(directory.iterdir()) if file.name != "_metadata")
    os.utime(file, (1, 1))
    return file


def delete_directory(directory: Path) -> Path:
    shutil.rmtree(directory)
    return directory / "_metadata"


@pytest.mark.parametrize("change", [delete_file, touch_file, delete_directory])
def test_base_is_refused_if_the_earlier_checkpoint_has_changed(
    capsys: Captured, later_checkpoint: Path, earlier_checkpoint: Path, base: Path, change: Callable[[Path], Path]
) -> None:
    path = change(earlier_checkpoint)
    assert refusal(capsys, later_checkpoint, base, *SHAPE)["path"] == str(path)


def test_base_that_differs_from_its_certificate_is_refused(
    capsys: Captured, later_checkpoint: Path, base: Path
) -> None:
    edited.edit(base, lambda metadata: replace(metadata, checkpoint_id=metadata.checkpoint_id + 1))
    assert refusal(capsys, later_checkpoint, base, *SHAPE, code=4)["path"] == str(base / "_metadata")


def test_proof_by_changes_without_a_base_is_refused(capsys: Captured, later_checkpoint: Path) -> None:
    target = later_checkpoint.parent / "target"
    arguments = [
        "run",
        str(later_checkpoint),
        "--target",
        str(target),
        *SHAPE,
        "--proof",
        "changes",
        "--output",
        "json",
    ]
    assert main(arguments) == 2
    assert "continues a published result" in json.loads(capsys.readouterr().out)["expected"]
    assert not target.exists()


def test_base_with_heap_state_is_refused(capsys: Captured, tmp_path: Path) -> None:
    earlier_checkpoint, later_checkpoint = (
        edited.relocated("2-heap-native", tmp_path / name) for name in ("first", "second")
    )
    base = result_of(earlier_checkpoint, tmp_path / "base")
    assert refusal(capsys, later_checkpoint, base, *SHAPE, code=3)["found"]
