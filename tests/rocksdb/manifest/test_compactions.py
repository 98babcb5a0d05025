"""Files that only compactions have rewritten between two checkpoints of a database of Flink's own RocksDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from oracle.distribution import LINES
from rescale.rocksdb.manifest.compactions import RewrittenFiles, rewritten_files
from support.assembled import STATES
from support.flinks_rocksdb import FlinksRocksdb

QUIET = "disable_auto_compactions=1"
FIRST, SECOND = STATES
ROWS = [("put", state, bytes([group]) + b"a", b"1" * 50) for state in STATES for group in range(40)]
UPPER, LOWER = ROWS[:20], ROWS[20:40]


@pytest.fixture(scope="module", params=[LINES["1.20"], LINES["2"]])
def library(request: pytest.FixtureRequest) -> Iterator[FlinksRocksdb]:
    library = FlinksRocksdb(request.param)
    yield library
    library.close()


class CheckpointPair:
    """Two checkpoints of a database: one after the steps `first`, one after the further steps `then`."""

    def __init__(self, library: FlinksRocksdb, path: Path, first: Sequence[Any], then: Sequence[Any]) -> None:
        self.paths = path / "earlier", path / "later"
        with library.opened(path / "job", STATES, QUIET) as database:
            database.write([*first, ("checkpoint", self.paths[0]), *then, ("checkpoint", self.paths[1])])

    @property
    def unshared(self) -> frozenset[str]:
        """Return the names of SST files that one checkpoint has and the other has not."""
        earlier, later = ({file.name for file in path.glob("*.sst")} for path in self.paths)
        return frozenset(earlier ^ later)

    def rewritten(self, kept: Mapping[str, int] | None = None, families: Sequence[str] = STATES) -> RewrittenFiles:
        manifests = (next(path.glob("MANIFEST-*")).read_bytes() for path in self.paths)
        return rewritten_files(*manifests, families, kept or {}, "MANIFEST")

    def changed(self, families: Sequence[str] = STATES) -> frozenset[str]:
        """Return the names of those files of `unshared` that may hold changes."""
        return self.unshared - self.rewritten(families=families).names


FLUSH, COMPACT = ("flush",), ("compact", FIRST)


def test_files_rewritten_by_a_compaction_alone_count_as_unchanged(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *LOWER, FLUSH, *UPPER], [COMPACT])
    assert len(pair.unshared) > 3
    assert not pair.changed()


def test_only_the_file_of_new_rows_counts_as_changed_beside_a_compaction(
    library: FlinksRocksdb, tmp_path: Path
) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [COMPACT, *LOWER])
    assert len(pair.changed()) == 1


def test_output_of_a_compaction_that_read_new_rows_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(
        library, tmp_path, [*UPPER, FLUSH, *LOWER, FLUSH], [("delete", *UPPER[5][1:3]), FLUSH, COMPACT]
    )
    assert pair.unshared
    assert pair.changed() == pair.unshared


def test_output_of_a_second_compaction_with_new_rows_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [COMPACT, *UPPER, FLUSH, COMPACT])
    assert pair.unshared
    assert pair.changed() == pair.unshared


def test_compactions_are_followed_only_for_the_states_given(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(
        library, tmp_path, [*ROWS, FLUSH, *ROWS, FLUSH], [*UPPER, FLUSH, COMPACT, ("compact", SECOND)]
    )
    both = pair.changed()
    assert both
    assert pair.changed([SECOND]) == both
    assert pair.changed([FIRST]) == pair.unshared


def test_compaction_of_a_state_with_a_filter_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [COMPACT])
    assert pair.changed([SECOND]) == pair.unshared


def test_compaction_after_reopening_the_database_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [])
    with library.opened(tmp_path / "job", STATES, QUIET) as database:
        database.write([COMPACT, ("checkpoint", tmp_path / "again")])
    pair.paths = pair.paths[0], tmp_path / "again"
    assert pair.unshared
    assert pair.changed() == pair.unshared


def test_new_rows_that_a_compaction_read_are_found_in_a_checkpoint_in_between(
    library: FlinksRocksdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = [("delete", *UPPER[5][1:3]), FLUSH, ("checkpoint", tmp_path / "between"), COMPACT]
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *LOWER, FLUSH], then)
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "between").glob("*.sst")}
    rewritten = pair.rewritten(sizes)
    assert pair.unshared <= rewritten.names
    ((state, name),) = rewritten.transient_tables
    assert (state, sizes[name] > 0, name in pair.unshared) == (FIRST, True, False)
    for wrong in ({}, {**sizes, name: sizes[name] + 1}):
        assert not pair.rewritten(wrong).transient_tables
        assert not pair.unshared & pair.rewritten(wrong).names
    monkeypatch.setattr("rescale.rocksdb.manifest.compactions.MOST_TRANSIENT_TABLES", 0)
    assert not pair.rewritten(sizes).transient_tables, "a file that exceeds the limit is read"
    assert not pair.unshared & pair.rewritten(sizes).names
