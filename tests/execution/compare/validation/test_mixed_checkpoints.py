"""A round takes all operator state from the later checkpoint; the proof finds state of the earlier one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.handles import OperatorHandle
from rescale.plan.proof import Proof
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support import edited
from support.pipeline import execute_without_spark, move, plan_continued, plan_rescale

FIXTURE = "2-rocksdb-native"


@pytest.fixture
def checkpoints(tmp_path: Path) -> tuple[Path, Path, str]:
    """Return two checkpoints, and the name of a file with operator state, in which they differ by one byte."""
    earlier, later = (edited.relocated(FIXTURE, tmp_path / name) for name in ("earlier", "later"))
    handles = [
        subtask.state.managed_operator
        for operator in open_snapshot(str(later)).operators
        for subtask in operator.entry.subtasks
        if subtask.state is not None
    ]
    handle = next(handle for handle in handles if isinstance(handle, OperatorHandle))
    file_name = handle.stream.path.rpartition("/")[2]
    content = bytearray((later / file_name).read_bytes())
    content[-1] ^= 1
    (later / file_name).unlink()
    (later / file_name).write_bytes(content)
    return earlier, later, file_name


@contextmanager
def read_as_earlier(earlier: Path, later: Path) -> Iterator[None]:
    """Give the file `later` the bytes of `earlier` during the block, without changing its time of modification."""
    content, file_stat = later.read_bytes(), later.stat()
    for data in (earlier.read_bytes(), content):
        later.write_bytes(data)
        os.utime(later, ns=(file_stat.st_atime_ns, file_stat.st_mtime_ns))
        if data != content:
            yield


@pytest.mark.parametrize("is_mixed", [True, False])
def test_operator_state_of_the_earlier_checkpoint_is_found(
    checkpoints: tuple[Path, Path, str], tmp_path: Path, is_mixed: bool
) -> None:
    earlier, later, file_name = checkpoints
    base = tmp_path / "base"
    execute_without_spark(plan_rescale(str(earlier), str(base), ["3"], max_parallelism=["1000"]))
    plan = plan_continued(str(later), str(tmp_path / "target"), str(base), ["3"], ["1000"])
    with read_as_earlier(earlier / file_name, later / file_name) if is_mixed else nullcontext():
        move(plan, InProcessTasks(2, None))
    for proof in (Proof.CHANGES, Proof.RECORDS):
        if is_mixed:
            with pytest.raises(IntegrityError) as caught:
                validate_coverage(plan, InProcessTasks(2, None), proof)
            assert caught.value.operator == "shards"
        else:
            assert validate_coverage(plan, InProcessTasks(2, None), proof).verdict == "complete"
