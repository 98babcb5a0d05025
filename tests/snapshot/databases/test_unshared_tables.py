"""Files of two checkpoints are the same wherever they lie, if one session of RocksDB has written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.rocksdb.sst.identity import overwrite_identity
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.unshared_tables import differing_tables
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from support.checkpoints import checkpoints_in


def opened(fixture: str, path: Path) -> Snapshot:
    """Return the checkpoint of a fixture, all files of which lie below `path`."""
    return with_tables(open_snapshot(checkpoints_in(fixture, str(path), path.with_name("scratch")).newest))


def differing_files(earlier: Snapshot, later: Snapshot) -> list[tuple[str, str]]:
    """Return the names of the files that only one checkpoint has, each with that checkpoint."""
    return sorted(
        (name, which)
        for before, after in zip(earlier.operators, later.operators, strict=True)
        for pair in zip(before.databases, after.databases, strict=True)
        for which, names in zip(("earlier", "later"), differing_tables(earlier, pair[0], later, pair[1]), strict=True)
        for name in names
    )


@pytest.mark.parametrize("fixture", ["1.20-rocksdb-incremental", "2-rocksdb-incremental"])
def test_files_that_were_uploaded_again_are_the_same(fixture: str, tmp_path: Path) -> None:
    earlier, later = opened(fixture, tmp_path / "first"), opened(fixture, tmp_path / "second")
    assert any(database.tables for operator in later.operators for database in operator.databases)
    assert differing_files(earlier, later) == []


def test_file_of_another_session_is_another_file(tmp_path: Path) -> None:
    """RocksDB uses a number again after a failure, and the MANIFEST may say the same about both files."""
    earlier, later = (opened("1.20-rocksdb-incremental", tmp_path / name) for name in ("first", "second"))
    tables = [table for operator in later.operators for database in operator.databases for table in database.tables]
    changed_table = next(table for table in tables if table.extent.file)
    overwrite_identity(Path(later.files[changed_table.extent.file][0]), "another session", 0)
    expected = {(changed_table.file.name, which) for which in ("earlier", "later")}
    assert set(differing_files(earlier, with_tables(open_snapshot(later.directory)))) == expected
