"""Settings of column families that Flink wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY
from rescale.rocksdb.options_file import refuse_unreadable_changes, unfiltered_families
from rescale.rocksdb.stored_files import newest_options
from rescale.text.errors import UnsupportedError
from support.databases import databases, read_file
from support.rocksdb_writer import MERGE, written


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


@pytest.mark.parametrize(
    "settings",
    [
        "block_based_table_factory={format_version=6}",
        "block_based_table_factory={checksum=kNoChecksum}",
        "block_based_table_factory={data_block_index_type=kDataBlockBinaryAndHash}",
        "compression=kZSTD;compression_opts={max_dict_bytes=4096}",
        "bottommost_compression=kZSTD;bottommost_compression_opts={max_dict_bytes=4096;enabled=true}",
    ],
)
def test_settings_of_files_that_only_the_library_reads_are_refused(settings: str, tmp_path: Path) -> None:
    options_file = options_of(tmp_path, settings)
    with pytest.raises(UnsupportedError, match="rounds cannot read the SST files") as caught:
        refuse_unreadable_changes(options_file.read_bytes(), str(options_file))
    assert caught.value.state in (DEFAULT_COLUMN_FAMILY, "value")


@pytest.mark.parametrize("settings", ["", "bottommost_compression_opts={max_dict_bytes=4096;enabled=false}"])
def test_settings_of_readable_files_are_accepted(settings: str, tmp_path: Path) -> None:
    options_file = options_of(tmp_path, settings)
    refuse_unreadable_changes(options_file.read_bytes(), str(options_file))


def options_of(folder: Path, settings: str) -> Path:
    """Return the OPTIONS that RocksDB writes for a database with these settings."""
    table_option = "" if "block_based" in settings else ";block_based_table_factory={format_version=5}"
    with written(folder / "db", ["value"], f"{MERGE}{table_option};{settings}") as writer:
        options = newest_options(writer.checkpoint(folder / "checkpoint"))
    assert options is not None
    return folder / "checkpoint" / options.name


def test_column_family_without_both_filter_options_may_have_a_filter() -> None:
    text = '[CFOptions "a"]\n  compaction_filter=nullptr\n[CFOptions "b"]\n  compaction_filter_factory=nullptr\n'
    assert not unfiltered_families(text.encode(), "OPTIONS-000001")
