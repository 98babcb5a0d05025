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

NO_COMPACTIONS = "disable_auto_compactions=1"
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

    def __init__(
        self, library: FlinksRocksdb, path: Path, earlier_steps: Sequence[Any], later_steps: Sequence[Any]
    ) -> None:
        self.paths = path / "earlier", path / "later"
        with library.opened(path / "job", STATES, NO_COMPACTIONS) as database:
            database.write([*earlier_steps, ("checkpoint", self.paths[0]), *later_steps, ("checkpoint", self.paths[1])])

    @property
    def unshared_names(self) -> frozenset[str]:
        """Return the names of SST files that one checkpoint has and the other has not."""
        earlier, later = ({file.name for file in path.glob("*.sst")} for path in self.paths)
        return frozenset(earlier ^ later)

    def rewritten(
        self, size_by_name: Mapping[str, int] | None = None, families: Sequence[str] = STATES
    ) -> RewrittenFiles:
        manifests = (next(path.glob("MANIFEST-*")).read_bytes() for path in self.paths)
        return rewritten_files(*manifests, families, size_by_name or {}, "MANIFEST")

    def changed_names(self, families: Sequence[str] = STATES) -> frozenset[str]:
        """Return the names of those files of `unshared_names` that may hold changes."""
        return self.unshared_names - self.rewritten(families=families).names


FLUSH, COMPACT = ("flush",), ("compact", FIRST)


def test_files_rewritten_by_a_compaction_alone_count_as_unchanged(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *LOWER, FLUSH, *UPPER], [COMPACT])
    assert len(pair.unshared_names) > 3
    assert not pair.changed_names()


def test_only_the_file_of_new_rows_counts_as_changed_beside_a_compaction(
    library: FlinksRocksdb, tmp_path: Path
) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [COMPACT, *LOWER])
    assert len(pair.changed_names()) == 1


def test_output_of_a_compaction_that_read_new_rows_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(
        library, tmp_path, [*UPPER, FLUSH, *LOWER, FLUSH], [("delete", *UPPER[5][1:3]), FLUSH, COMPACT]
    )
    assert pair.unshared_names
    assert pair.changed_names() == pair.unshared_names


def test_output_of_a_second_compaction_with_new_rows_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [COMPACT, *UPPER, FLUSH, COMPACT])
    assert pair.unshared_names
    assert pair.changed_names() == pair.unshared_names


def test_compactions_are_followed_only_for_the_states_given(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(
        library, tmp_path, [*ROWS, FLUSH, *ROWS, FLUSH], [*UPPER, FLUSH, COMPACT, ("compact", SECOND)]
    )
    changed_of_both = pair.changed_names()
    assert changed_of_both
    assert pair.changed_names([SECOND]) == changed_of_both
    assert pair.changed_names([FIRST]) == pair.unshared_names


def test_compaction_of_a_state_with_a_filter_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [COMPACT])
    assert pair.changed_names([SECOND]) == pair.unshared_names


def test_compaction_after_reopening_the_database_counts_as_changed(library: FlinksRocksdb, tmp_path: Path) -> None:
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *UPPER, FLUSH], [])
    with library.opened(tmp_path / "job", STATES, NO_COMPACTIONS) as database:
        database.write([COMPACT, ("checkpoint", tmp_path / "again")])
    pair.paths = pair.paths[0], tmp_path / "again"
    assert pair.unshared_names
    assert pair.changed_names() == pair.unshared_names


def test_new_rows_that_a_compaction_read_are_found_in_a_checkpoint_in_between(
    library: FlinksRocksdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_steps = [("delete", *UPPER[5][1:3]), FLUSH, ("checkpoint", tmp_path / "between"), COMPACT]
    pair = CheckpointPair(library, tmp_path, [*UPPER, FLUSH, *LOWER, FLUSH], later_steps)
    size_by_name = {file.name: file.stat().st_size for file in (tmp_path / "between").glob("*.sst")}
    rewritten = pair.rewritten(size_by_name)
    assert pair.unshared_names <= rewritten.names
    ((state, name),) = rewritten.transient_tables
    assert (state, size_by_name[name] > 0, name in pair.unshared_names) == (FIRST, True, False)
    for wrong_sizes in ({}, {**size_by_name, name: size_by_name[name] + 1}):
        assert not pair.rewritten(wrong_sizes).transient_tables
        assert not pair.unshared_names & pair.rewritten(wrong_sizes).names
    monkeypatch.setattr("rescale.rocksdb.manifest.compactions.MOST_TRANSIENT_TABLES", 0)
    assert not pair.rewritten(size_by_name).transient_tables, "a file that exceeds the limit is read"
    assert not pair.unshared_names & pair.rewritten(size_by_name).names
