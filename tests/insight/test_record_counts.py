"""Estimated numbers of records: near the right ones, without reading much."""

from __future__ import annotations

from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.insight import record_counts
from rescale.insight.record_counts import estimated_number_of_records
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.reading.opening import open_snapshot
from support import snapshots


@pytest.mark.parametrize("value_size", [10, 100, 1000])
@pytest.mark.parametrize("most_bytes", [8 << 20, 9000])
def test_records_of_a_savepoint_are_estimated_from_a_key_group(
    value_size: int, most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of a key group is enough."""
    monkeypatch.setattr(record_counts, "_MOST_BYTES_READ", most_bytes)
    write_savepoint(tmp_path / "source", 2_000_000, value_size=value_size)
    snapshot = open_snapshot(str(tmp_path / "source"))
    assert estimated_number_of_records(snapshot.operators[0], snapshot.contents) == pytest.approx(
        2_000_000 / (value_size + 30), rel=0.1
    )


@pytest.mark.parametrize("name", ["1.20-rocksdb-2to3", "2-rocksdb-2to3"])
def test_estimated_rows_of_databases_are_within_twice_the_rows_read(name: str) -> None:
    snapshot = with_tables(snapshots.opened(name))
    reader = SourceReader(snapshot.contents)
    for operator in (operator for operator in snapshot.operators if operator.databases):
        row_count = sum(
            len(records)
            for database in operator.databases
            for source in sources_of(database, operator.max_parallelism)
            for records in reader.batches(source)
        )
        # Some rows were overwritten, and some lie outside of the key groups of the handle.
        assert row_count <= estimated_number_of_records(operator, snapshot.contents) <= 2 * row_count
