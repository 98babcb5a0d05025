"""The MANIFEST of a new database: each set of changes takes the next level above the base."""

from __future__ import annotations

from rescale.rocksdb.assembly.new_database import NewTable, continued_manifest, new_manifest, place_of_changes
from rescale.rocksdb.database_layout import LEVEL_COUNT


def test_manifest_without_a_free_level_cannot_be_continued() -> None:
    manifest, change_count = new_manifest({"state": [NewTable(10, b"\1", b"\2")]}, 1), 0
    while (place := place_of_changes(manifest)) is not None:
        manifest = continued_manifest(manifest, {"state": [NewTable(10, b"\1", b"\2")]}, place, 1)
        change_count += 1
    assert change_count == LEVEL_COUNT - 2, (
        "one set of changes for each level except level 0 and the last level, which has the base"
    )
    assert [file.smallest_sequence for file in manifest.column_families[1].files] == [6, 5, 4, 3, 2, 0]
