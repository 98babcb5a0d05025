"""Raw keyed timers whose offsets in `_metadata` are damaged are refused before anything is moved."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask
from rescale.flink.metadata.handles import KeyGroupsHandle
from rescale.text.errors import SnapshotError
from support.edited import edit_operators
from support.pipeline import plan_rescale
from support.snapshots import directory


def with_wrong_group_offset(entry: OperatorState) -> OperatorState:
    """Return the operator with a wrong offset of a key group in subtask 0, if that has raw keyed state."""

    def with_wrong_offset(subtask: Subtask) -> Subtask:
        if subtask.index or subtask.state is None or not isinstance(raw := subtask.state.raw_keyed, KeyGroupsHandle):
            return subtask
        first, second, *others = raw.offsets
        return replace(
            subtask, state=replace(subtask.state, raw_keyed=replace(raw, offsets=(first, second + 4, *others)))
        )

    return replace(entry, subtasks=tuple(map(with_wrong_offset, entry.subtasks)))


@pytest.mark.parametrize("shape", [{"parallelism": ["3"]}, {"max_parallelism": ["64"]}, {"format": "canonical"}])
def test_raw_timers_readable_in_some_subtasks_only_are_refused(shape: dict[str, list[str]], tmp_path: Path) -> None:
    source = shutil.copytree(directory("2-rocksdb-heap-timers"), tmp_path / "source")
    edit_operators(source, with_wrong_group_offset)
    with pytest.raises(SnapshotError, match="have raw keyed state without timers") as caught:
        plan_rescale(str(source), str(tmp_path / "target"), **shape)  # type: ignore[arg-type]
    assert caught.value.operator == "visits"
    assert "in subtask 0" in str(caught.value.found)
