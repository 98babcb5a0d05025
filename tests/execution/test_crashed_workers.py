"""A RocksDB process that ends early is reported in one sentence, wherever it reads, and nothing is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.execution.steps import reshuffle_keyed_state
from rescale.rocksdb.sst.table_blocks import BlockHandle
from rescale.runstate.claim import claim
from rescale.text.errors import SnapshotError
from support.commands import in_a_process
from support.edited import edit_files, relocated
from support.pipeline import plan_rescale, shared_processes
from support.snapshots import directory
from support.sst_files import with_index

_CRASHING_LIBRARY = """
import os, signal
from rescale.rocksdb.engine import library

def crash(*arguments):
    os.kill(os.getpid(), signal.SIGSEGV)

call = library.Library.call
library.Library.call = lambda self, name, *rest: crash() if name == "iter_seek" else call(self, name, *rest)
"""


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"format": "canonical"}, {"max_parallelism": ["40"]}], ids=["in order", "sorted"])
def test_forged_sst_file_in_a_worker_is_refused_with_its_path(shape: dict[str, object], tmp_path: Path) -> None:
    """RocksDB would crash on this file, but the worker that reads it does not."""
    source = relocated("2-rocksdb-native", tmp_path / "source")
    (path, *_) = edit_files(source, "000020.sst", lambda data: with_index(data, BlockHandle(0, (1 << 63) - 1)))
    plan = plan_rescale(str(source), str(tmp_path / "target"), **shape)  # type: ignore[arg-type]
    claim(plan)
    with pytest.raises(SnapshotError, match="outside of its file") as caught:
        reshuffle_keyed_state(plan, shared_processes())
    assert (caught.value.path, caught.value.operator) == (str(path), "clicks-per-user")
    assert not list(tmp_path.glob("target/*"))


@pytest.mark.slow
def test_crash_of_rocksdb_is_reported_by_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_CRASHING_LIBRARY)
    target = tmp_path / "target"
    source = directory("2-rocksdb-native")
    arguments = ["run", source, "--target", str(target), "--max-parallelism", "40", "--parallelism", "3"]
    process = in_a_process(*arguments, PYTHONPATH=str(tmp_path))
    assert process.returncode == SnapshotError.exit_code, process.stderr
    assert "RocksDB crashed while reading a file of the database" in process.stderr
    assert "SIGSEGV" in process.stderr
    assert ".sst" in process.stderr
    assert f"path: {source}" in process.stderr
    assert "Traceback" not in process.stderr
    assert not (target / "_metadata").exists()
