"""Which keys a reader of changes looks up, and in which files."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from execution.sources.test_change_records import Checkpoints, changes_by_state, copy_of_model, new_values
from oracle.distribution import LINES
from rescale.execution.sources.change_records import ChangeReader
from rescale.execution.sources.compared_database import ComparedDatabase
from rescale.rocksdb.engine import directory
from rescale.rocksdb.engine.changes.keys import Keys
from rescale.rocksdb.engine.partial_files import PartialFiles
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.text.errors import SnapshotError
from support.assembled import STATES, Model, apply
from support.flinks_rocksdb import FlinksRocksdb
from support.layers import write_layers


@pytest.fixture(scope="module")
def library() -> Iterator[FlinksRocksdb]:
    library = FlinksRocksdb(LINES["2"])
    yield library
    library.close()


@pytest.fixture
def fetched_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the SST files whose blocks are fetched, as from S3, and "" for each opened database."""
    names: list[str] = []
    begin, fetch = PartialFiles.begin, PartialFiles.fetch

    def noted_fetch(parts: PartialFiles, live: Sequence[LiveFile], keys: Keys) -> None:
        names.extend(file.name for file in live)
        fetch(parts, live, keys)

    def noted_begin(parts: PartialFiles) -> None:
        names.append("")
        begin(parts)

    monkeypatch.setattr(directory, "_is_whole_local_file", lambda _: False)
    monkeypatch.setattr(directory, "SMALLEST_PARTIAL_BYTES", 0)
    monkeypatch.setattr(PartialFiles, "fetch", noted_fetch)
    monkeypatch.setattr(PartialFiles, "begin", noted_begin)
    return names


def test_keys_that_were_written_need_no_file_that_both_checkpoints_have(
    library: FlinksRocksdb, tmp_path: Path, fetched_names: list[str]
) -> None:
    """Only a key is looked up to which a list element was added, and which was neither put nor deleted."""
    state, paths = STATES[0], [tmp_path / f"checkpoint-{number}" for number in range(3)]
    rng = random.Random(11)
    steps = [
        [("put", state, bytes([group]) + b"a", rng.randbytes(50)) for group in range(100)],
        [("put", state, b"\5a", b"1"), ("delete", state, b"\6a"), ("delete", state, b"\6b")],
        [("add", state, b"\7a", b"2")],
    ]
    model, models = Model({name: {} for name in STATES}), []
    with library.opened(tmp_path / "job", STATES, "disable_auto_compactions=1") as database:
        for writes, path in zip(steps, paths, strict=True):
            apply(model, writes)
            database.write([*writes, ("checkpoint", path)])
            models.append(copy_of_model(model))
    checkpoints = Checkpoints(paths)
    reader = ChangeReader(128, checkpoints.files, checkpoints.place(0, 1))
    assert changes_by_state(reader)[state] == {b"\5a": b"1", b"\6a": None, b"\6b": None}
    assert fetched_names == []
    checking_reader = ChangeReader(128, checkpoints.files, checkpoints.place(0, 1), check_every=1)
    assert changes_by_state(checking_reader) == changes_by_state(reader)
    assert fetched_names
    fetched_names.clear()
    later_reader = ChangeReader(128, checkpoints.files, checkpoints.place(1, 2))
    assert changes_by_state(later_reader) == new_values(*models[1:])
    assert fetched_names.count("") == 1, "the earlier checkpoint was opened, too"


def test_rows_of_upper_levels_are_checked_without_the_files_below(tmp_path: Path, fetched_names: list[str]) -> None:
    rng, models = random.Random(12), list[Model]()
    model: Model = {state: {} for state in STATES}
    for number in range(2):
        apply(model, [("put", STATES[0], bytes([group]) + b"a", rng.randbytes(50)) for group in range(number, 100)])
        apply(model, [("delete", STATES[0], bytes([number]) + b"a")])
        models.append(copy_of_model(model))
    paths = [tmp_path / "base", tmp_path / "result"]
    for path, layers in zip(paths, (models[:1], models), strict=True):
        write_layers(path, layers)
    base_names = {file.name for file in paths[0].glob("*.sst")}
    checkpoints = Checkpoints(paths)
    reader = ChangeReader(128, checkpoints.files, checkpoints.place(0, 1), check_every=1)
    assert changes_by_state(reader) == new_values(*models)
    assert fetched_names
    assert base_names.isdisjoint(fetched_names)


@pytest.mark.parametrize("verb", ["put", "add"])
def test_row_that_rocksdb_does_not_find_is_an_error(
    library: FlinksRocksdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    paths = [tmp_path / "checkpoint-0", tmp_path / "checkpoint-1"]
    with library.opened(tmp_path / "job", STATES, "") as database:
        database.write([("put", STATES[0], b"\5a", b"1"), ("checkpoint", paths[0])])
        database.write([(verb, STATES[0], b"\5a", b"2"), ("checkpoint", paths[1])])
    checkpoints = Checkpoints(paths)
    monkeypatch.setattr(ComparedDatabase, "rows", lambda *_: iter(()))
    reader = ChangeReader(128, checkpoints.files, checkpoints.place(0, 1), check_every=1)
    with pytest.raises(SnapshotError, match="RocksDB finds other values") as caught:
        changes_by_state(reader)
    assert caught.value.state == STATES[0]
