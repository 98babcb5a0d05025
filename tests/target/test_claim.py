"""A plan goes on where its own files lie, and with nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.errors import RequestError
from rescale.execution.loop import Loop
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.claim import claim, planned_names
from rescale.target.removal import discard
from support import snapshots
from support.pipeline import execute_without_spark, move, plan_rescale


@pytest.mark.parametrize("shape", [{"parallelism": ["3"]}, {"max_parallelism": ["40"]}, {"format": "rocksdb"}])
def test_an_interrupted_run_that_wrote_rocksdb_files_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: dict[str, list[str]]
) -> None:
    """How many files such a directory has, and how they are called, is known when they are written."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    source = snapshots.directory("2-canonical-rocksdb" if "format" in shape else "2-rocksdb-native")
    plan = plan_rescale(source, str(tmp_path / "target"), **shape)
    move(plan, Loop())
    written = [name(entry.uri) for entry in open_store(plan.target).list(plan.target)]
    assert set(written) - planned_names(plan).whole, "no file is named by who wrote it"
    assert all(file in planned_names(plan) for file in written)
    claim(plan)
    assert not execute_without_spark(plan).already


def test_files_of_others_are_nobodys_to_write_over(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-rocksdb-native"), str(tmp_path / "target"), ["3"])
    claim(plan)
    other = f"{'0' * 32}-keyed-0-{plan.digest[:8]}-000010.sst"
    open_store(plan.target).put(f"{plan.target}/{other}", b"whose?")
    with pytest.raises(RequestError, match="occupied") as caught:
        claim(plan)
    assert other in str(caught.value.found)


def test_discard_removes_what_rocksdb_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    plan = plan_rescale(snapshots.directory("2-rocksdb-native"), str(tmp_path / "target"), max_parallelism=["40"])
    move(plan, Loop())
    assert discard(plan.target).left == ()
    assert not open_store(plan.target).list(plan.target)
