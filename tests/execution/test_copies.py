"""Copies of snapshots of every kind in their own shape: nothing but their place changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.places import places_of
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError
from support import snapshots
from support.pipeline import execute, execute_without_spark, plan_rescale
from support.results import unpublish
from support.slow import slow_but

COPIED_NAMES = [name for name in snapshots.names() if not name.endswith("unaligned") and "changelog" not in name]
DATABASES = [name for name in snapshots.with_databases() if "lost" not in name]
"""Snapshots with files that are too large to lie inline."""


@pytest.mark.parametrize("name", slow_but(lambda name: name.startswith("2-"), COPIED_NAMES))
def test_copy_of_a_snapshot_can_be_moved(name: str, tmp_path: Path) -> None:
    source, target = snapshots.directory(name), tmp_path / "target"
    execute_without_spark(plan_rescale(source, str(target)))
    moved_target = tmp_path / "elsewhere" / "moved"
    moved_target.parent.mkdir()
    target.rename(moved_target)
    certificate = validate_published(source, str(moved_target), InProcessTasks())
    assert certificate.verdict == "complete"
    assert {str(Path(uri).parent) for uri, _ in open_snapshot(str(moved_target)).files} == {str(moved_target)}


@pytest.mark.parametrize("name", slow_but(lambda name: name == "2-rocksdb-native", DATABASES))
def test_rocksdb_directory_is_copied_by_spark_and_resumed_in_process(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"))
    execute(plan)
    store = open_store(plan.target)
    content_by_name = {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()}
    lost_uri = next(entry.uri for entry in store.list(plan.target) if "-keyed-" in entry.uri)
    unpublish(places_of(plan))
    store.delete([lost_uri])
    execute_without_spark(plan)
    assert {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()} == content_by_name


@pytest.mark.parametrize("name", DATABASES)
def test_changed_file_of_a_copied_rocksdb_directory_is_found(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"))
    execute_without_spark(plan)
    for file in [path for path in (tmp_path / "target").iterdir() if "-keyed-" in path.name]:
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(IntegrityError, match="differs between the result and the source") as caught:
            validate_published(plan.source, plan.target, InProcessTasks())
        assert caught.value.path == str(file)
        file.write_bytes(content)
