"""Progress within a database, which is a single unit of work."""

from __future__ import annotations

import pytest

from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.snapshot.read_counter import counting_read_bytes
from support import snapshots


@pytest.mark.parametrize("name", ["1.20-rocksdb-2to3", "2-rocksdb-2to3"])
def test_each_state_of_a_database_counts_when_it_is_read(name: str) -> None:
    snapshot = snapshots.opened(name)
    for operator in snapshot.operators:
        for database in operator.databases:
            table_bytes = sum(file.extent.length for file in database.files if file.name.endswith(".sst"))
            (source,) = sources_of(database, operator.max_parallelism)
            reported_bytes: list[int] = []
            with counting_read_bytes(source.size, reported_bytes.append):
                bytes_so_far = [sum(reported_bytes) for _ in SourceReader(snapshot.contents).batches(source)]
                assert 0.99 * table_bytes <= sum(reported_bytes) <= table_bytes
            assert bytes_so_far == sorted(bytes_so_far)
            assert len(set(bytes_so_far)) > 1
            assert sum(reported_bytes) == source.size
