"""Settings of column families that Flink wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY
from rescale.rocksdb.options_file import unfiltered_families
from rescale.rocksdb.stored_files import newest_options
from support.databases import databases, read_file
from support.rocksdb_writer import written


@pytest.mark.parametrize("fixture", ["1.20-rocksdb-changing", "2-rocksdb-changing"])
def test_only_the_state_with_ttl_has_a_compaction_filter(fixture: str) -> None:
    database = databases(fixture)[0]
    options = newest_options(database.files)
    assert options is not None
    families = unfiltered_families(read_file(options), options.uri)
    assert set(database.states) - families == {"recent"}


def test_column_families_have_the_names_of_their_states(tmp_path: Path) -> None:
    states = ["a:b", "c#d", "e\\:f", "g\nh\r", 'i"j]', "k"]
    with written(tmp_path / "db", states) as writer:
        options = newest_options(writer.checkpoint(tmp_path / "checkpoint"))
    assert options is not None
    families = unfiltered_families((tmp_path / "checkpoint" / options.name).read_bytes(), options.uri)
    assert families == {DEFAULT_COLUMN_FAMILY, *states}


def test_column_family_without_both_filter_options_may_have_a_filter() -> None:
    text = '[CFOptions "a"]\n  compaction_filter=nullptr\n[CFOptions "b"]\n  compaction_filter_factory=nullptr\n'
    assert not unfiltered_families(text.encode(), "OPTIONS-000001")
