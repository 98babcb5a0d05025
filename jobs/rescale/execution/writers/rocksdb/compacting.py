"""Writes RocksDB directories from files of the source, and lets RocksDB rewrite some of these files.

The unit of work is a whole directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.planned_records import read_header
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.files import report_refused_copies
from rescale.execution.writers.new_handles import DirectoryFile, directory_handle
from rescale.execution.writers.rocksdb.directory_files import content_of, take_directory_file
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.header import require_header
from rescale.plan.new_streams import META_STREAM, CompactedDirectory
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import read_piece
from rescale.plan.pieces import Piece
from rescale.plan.plan import Plan
from rescale.rocksdb.assembly.assembled_database import source_database
from rescale.rocksdb.assembly.compaction import StoredDatabase, compacted_database
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.stored_files import StoredFile, needed_files
from rescale.runstate.written_handles import WrittenHandle
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.places import DatabasePlace
from rescale.storage.scratch import scratch_directory
from rescale.text.errors import located


class _WrittenDirectory(NamedTuple):
    """Handle of a written directory, and the store's reason for refusing to copy a file ("" if it did not refuse)."""

    handle: WrittenHandle
    refusal: str


def compact_databases(plan: Plan, tasks: Tasks) -> list[WrittenHandle]:
    """Write all compacted directories of a plan; return their handles."""
    units = [
        (stream.size, (i, j))
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.compacted)
    ]
    progress = Progress("have RocksDB rewrite files", sum(size for size, _ in units), ByteAction.WRITTEN)
    compacted_directories = tasks.run(partial(_compact, plan), units, progress)
    report_refused_copies(progress, (directory.refusal for directory in compacted_directories))
    return [directory.handle for directory in compacted_directories]


def _compact(plan: Plan, index: tuple[int, int]) -> _WrittenDirectory:
    operator = plan.operators[index[0]]
    stream = operator.compacted[index[1]]
    with located(operator=operator.label):
        files = list(_write_files(plan, operator, stream))
    refusal = next((file.refusal for file in files if file.refusal), "")
    return _WrittenDirectory(directory_handle(plan, operator, stream, files), refusal)


def _write_files(plan: Plan, operator: OperatorPlan, stream: CompactedDirectory) -> Iterator[DirectoryFile]:
    prefix = plan.file_name(operator, stream)
    header = read_piece(plan, stream.header)[1]
    sources = [_stored_database(plan, source) for source in stream.sources]
    meta = StoredFile(META_STREAM, prefix, len(header), data=header)
    with compacted_database(
        sources, stream.key_group_range, operator.new_max_parallelism, Path(scratch_directory()), prefix
    ) as database:
        for _, file in [(META_STREAM, meta), *sorted(database.files.items())]:
            yield take_directory_file(plan, f"{prefix}-{file.name}", file, is_inline=stream.inline)


def _stored_database(plan: Plan, source: DatabasePlace[Piece]) -> StoredDatabase:
    states = require_header(read_header(plan, source.header)).names
    files = listed_files(plan.contents, source.files)
    database_files = needed_files(files)
    manifest = checked_manifest(database_files, content_of, states)
    database = source_database(database_files, manifest, KeyGroupRange(*source.key_groups))
    return StoredDatabase(database, {file.name: file for file in database_files})
