"""A forged file ends the process of the task that reads it; the next try says which file that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.errors import SnapshotError
from rescale.execution.steps import reshuffle_keyed_state
from rescale.rocksdb.sst.table_blocks import BlockHandle
from rescale.target.claim import claim
from support.edited import edit_files, relocated
from support.forged import with_index
from support.pipeline import plan_rescale, shared_spark


@pytest.mark.slow
def test_a_worker_that_rocksdb_ends_is_followed_by_a_sentence(tmp_path: Path) -> None:
    source = relocated("2-rocksdb-native", tmp_path / "source")
    (path, *_) = edit_files(source, "000020.sst", lambda data: with_index(data, BlockHandle(0, (1 << 63) - 1)))
    plan = plan_rescale(str(source), str(tmp_path / "target"), format="canonical")
    claim(plan)
    with pytest.raises(SnapshotError, match="outside its file") as caught:
        reshuffle_keyed_state(plan, shared_spark())
    assert (caught.value.path, caught.value.operator) == (str(path), "clicks-per-user")
