"""Estimates the number of records of keyed state: the time of a run depends on records as much as on bytes.

The properties of the largest SST files tell how many rows they hold, and the framing of a canonical key group tells how
large its records are. The bytes that are read do not grow with the state, and no Numba loop has to be compiled to read
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.flink.keyed.blocks.record_marks import ID_SIZE, LENGTH_SIZE, NEXT_ID_FLAG
from rescale.flink.keyed.header import is_compressed
from rescale.flink.keyed.key_group_table import Framing
from rescale.snapshot.keyed_state import KeyedStateHolder, KeyedStream, LiveTable
from rescale.snapshot.model import Operator
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import RescaleError

USUAL_RECORD_BYTES = 200
"""Assumed bytes of a record where they are unknown: in heap state, changelogs, and files that cannot be read."""

_MOST_TABLES_READ = 32
"""Largest number of SST files whose properties are read. If there are more states, one file of each state is read."""

_MOST_BYTES_READ = 8 * 1024 * 1024
"""Largest number of bytes that are read of a canonical key group."""

_MOST_RECORDS_COUNTED = 50_000
"""Largest number of records of a key group that are counted."""


def estimated_number_of_records(operator: Operator, files: SnapshotFiles) -> int:
    """Return an estimate of the number of an operator's keyed records; overwritten and deleted rows count, too."""
    canonical_streams = [stream for stream in operator.keyed if stream.framing is Framing.CANONICAL]
    other_streams = [stream for stream in operator.keyed if stream.framing is not Framing.CANONICAL]
    unread_holders: list[KeyedStateHolder] = [*other_streams, *operator.raw_keyed, *operator.changelogs]
    sampled_holders: list[KeyedStateHolder] = [*canonical_streams, *operator.databases]
    tables = [table for database in operator.databases for table in database.tables]
    try:
        sampled_count = _estimated_row_count(tables, files) + _estimated_record_count(canonical_streams, files)
    except RescaleError:  # if a run needs the records, it raises this error
        sampled_count = _assumed_record_count(sampled_holders)
    return sampled_count + _assumed_record_count(unread_holders)


def _assumed_record_count(holders: Iterable[KeyedStateHolder]) -> int:
    return sum(holder.size for holder in holders) // USUAL_RECORD_BYTES


def _estimated_row_count(tables: Iterable[LiveTable], files: SnapshotFiles) -> int:
    """Return an estimate of the number of rows in SST files, from the properties of the largest files of each state."""
    tables_by_state: dict[int, list[LiveTable]] = defaultdict(list)
    for table in tables:
        tables_by_state[table.state_id].append(table)
    if not tables_by_state:
        return 0
    from rescale.snapshot.databases.table_sizes import open_table  # imports numpy, needed for databases

    tables_per_state = max(1, _MOST_TABLES_READ // len(tables_by_state))
    row_count = 0
    for tables_of_state in tables_by_state.values():
        largest_tables = sorted(tables_of_state, key=lambda table: (-table.extent.length, table.extent))[
            :tables_per_state
        ]
        entry_count = sum(side_by_side(lambda table: open_table(table, files).properties.entry_count, largest_tables))
        sampled_bytes = sum(table.extent.length for table in largest_tables)
        row_count += entry_count * sum(table.extent.length for table in tables_of_state) // sampled_bytes
    return row_count


def _estimated_record_count(streams: Iterable[KeyedStream], files: SnapshotFiles) -> int:
    """Return an estimate of the number of records in canonical streams, from the start of a median-sized key group."""
    groups = [(extent, stream) for stream in streams for _, extent in stream.filled_groups]
    if not groups:
        return 0
    groups.sort(key=lambda pair: pair[0].length)
    extent, stream = groups[len(groups) // 2]
    stored_bytes = files.beginning(extent, _MOST_BYTES_READ)
    record_count, counted_share = _count_records(
        FramedDecompressor().feed(stored_bytes) if is_compressed(stream.header) else stored_bytes
    )
    return round(record_count / max(counted_share * len(stored_bytes), 1) * sum(extent.length for extent, _ in groups))


def _count_records(group: bytes | memoryview) -> tuple[int, float]:
    """Return the number of records at the beginning of a key group, and the share of its bytes that they take."""
    length_at, record_count = ID_SIZE, 0
    while record_count < _MOST_RECORDS_COUNTED:
        key_at = length_at + LENGTH_SIZE
        value_at = key_at + int.from_bytes(group[length_at:key_at], "big") + LENGTH_SIZE
        end = value_at + int.from_bytes(group[value_at - LENGTH_SIZE : value_at], "big")
        if value_at > len(group) or end > len(group):
            break
        length_at = end + (ID_SIZE if group[key_at] & NEXT_ID_FLAG else 0)
        record_count += 1
    return record_count, length_at / max(1, len(group))
