"""Plans RocksDB directories at the same max parallelism: new ones are made of the source's files, without reading rows.

A new subtask gets the files with rows of its key groups, and a MANIFEST that lists them (`rocksdb.assembly`). RocksDB
rewrites files in two cases only:
* several databases are joined, and an earlier rescale by Flink left rows of other subtasks' key groups in one of them;
* a subtask would otherwise have to fetch many bytes of other subtasks.

The handles of the result are private, whatever those of the source are, so that no checkpoint of the restored job
refers to the result's files (`IncrementalRemoteKeyedStateHandle`). They are relative, so that the result can be moved;
only files of the source that the result refers to have absolute paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rescale.flink.key_group_index import KeyGroupIndex
from rescale.flink.key_groups import KeyGroupRange
from rescale.plan.new_streams import META_STREAM, CompactedDirectory, CopiedFile, NewDatabase
from rescale.plan.pieces import Literals, Piece, piece_of
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.streams.inline import InlineBudget
from rescale.planning.streams.key_group_owners import owners_of
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.planning.warnings.databases import assembly_warnings
from rescale.rocksdb.assembly.assembled_database import AssembledDatabase
from rescale.rocksdb.assembly.assembly import assemble, is_clean, refuse_ingested
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator
from rescale.snapshot.places import database_place

MOST_FOREIGN_SHARE = 0.05
"""Share of other subtasks' bytes in a subtask's files above which RocksDB rewrites files that two subtasks need."""


class PlannedDatabases(NamedTuple):
    """Plan of the databases of an operator.

    `databases` are made of whole files, of which `files` are copied. RocksDB writes the files of `compacted`.
    """

    databases: tuple[NewDatabase, ...]
    files: list[CopiedFile]
    compacted: tuple[CompactedDirectory, ...]


@dataclass
class DatabasePlanner:
    """Plans the RocksDB directories of one operator; for a new shape, their MANIFESTs must have been read.

    Adds warnings for the user to `warnings`. If the result is to refer to files of the source, `referable_sizes` maps
    the numbers of these files to their sizes: only a whole file can be referred to. With `copies_ahead`, files are
    copied while the job still runs, so RocksDB rewrites none of them just to save copied bytes.
    """

    operator: Operator
    shape: Shape
    header_planner: HeaderPlanner
    literals: Literals
    budget: InlineBudget
    warnings: list[str]
    referable_sizes: Mapping[int, int] | None
    copies_ahead: bool
    _databases: list[NewDatabase] = field(default_factory=list)
    _copied_files: list[CopiedFile] = field(default_factory=list)
    _compacted_directories: list[CompactedDirectory] = field(default_factory=list)
    _most_level_0_files: int = 0

    def plan(self) -> PlannedDatabases:
        """Return the planned databases. Raises `UnsupportedError` if the source's databases cannot be assembled."""
        if self.shape == Shape(self.operator.parallelism, self.operator.max_parallelism):
            self._plan_copies()
        else:
            self._plan_assembly()
        return PlannedDatabases(tuple(self._databases), self._copied_files, tuple(self._compacted_directories))

    def _plan_copies(self) -> None:
        """Plan to copy every database; it goes to the subtask with the same number."""
        for database in self.operator.databases:
            piece_by_name = {file.name: piece_of(file.extent) for file in database.files}
            self._add_files(database.subtask, database.key_groups, piece_by_name, piece_of(database.header_extent))

    def _plan_assembly(self) -> None:
        databases = self.operator.databases
        owners_of(self.operator, databases)
        key_group_index = KeyGroupIndex(databases)
        for subtask in range(self.shape.parallelism):
            key_groups = self.shape.key_groups_of(subtask)
            old_databases = key_group_index.overlapping(key_groups)
            if old_databases:
                self._add_subtask(subtask, key_groups, old_databases)
        self.warnings += assembly_warnings(
            self.operator.label, self._databases, self._compacted_directories, self._most_level_0_files
        )

    def _add_subtask(self, subtask: int, key_groups: KeyGroupRange, old_databases: Sequence[Database]) -> None:
        max_parallelism = self.shape.max_parallelism
        header = self.header_planner.plan(old_databases).piece
        sources = [old_database.known_source for old_database in old_databases]
        if len(sources) > 1:
            for source in sources:
                refuse_ingested(source)
        if len(sources) == 1 or all(is_clean(source, key_groups, max_parallelism) for source in sources):
            assembled_database = assemble(sources, key_groups, max_parallelism)
            self._most_level_0_files = max(self._most_level_0_files, assembled_database.most_level_0_files)
            if self.referable_sizes is not None or self.copies_ahead or not _has_many_foreign_bytes(assembled_database):
                self._add_files(subtask, key_groups, self._piece_by_name(assembled_database, old_databases), header)
                return
        size = sum(
            old_database.key_group_sizes[key_group - old_database.key_groups.first]
            for old_database in old_databases
            for key_group in old_database.key_groups.intersection(key_groups)
        )
        self._compacted_directories.append(
            CompactedDirectory(
                subtask=subtask,
                header=header,
                first_key_group=key_groups.first,
                key_groups=len(key_groups),
                sources=tuple(
                    database_place(old_database, piece_of(old_database.header_extent)) for old_database in old_databases
                ),
                size=size,
                inline=self.budget.try_take(size),
            )
        )

    def _piece_by_name(self, assembled: AssembledDatabase, old_databases: Sequence[Database]) -> dict[str, Piece]:
        extent_by_name_per_source = [
            {file.name: file.extent for file in old_database.files} for old_database in old_databases
        ]
        reused_piece_by_name = {
            file.name: piece_of(extent_by_name_per_source[file.source_number][file.source_name])
            for file in assembled.reused_files
        }
        return reused_piece_by_name | {file.name: self.literals.add(file.data) for file in assembled.new_files}

    def _add_files(
        self, subtask: int, key_groups: KeyGroupRange, piece_by_name: Mapping[str, Piece], header: Piece
    ) -> None:
        referred_files = {name: piece for name, piece in piece_by_name.items() if self._may_refer(name, piece)}
        copied_files = {META_STREAM: header} | {
            name: piece for name, piece in piece_by_name.items() if name not in referred_files
        }
        self._copied_files += (
            CopiedFile(
                subtask=subtask,
                pieces=(piece,) if piece.length else (),
                inline=self.budget.try_take(piece.length),
                local_name=name,
            )
            for name, piece in copied_files.items()
        )
        self._databases.append(NewDatabase(subtask, key_groups.first, len(key_groups), tuple(referred_files.items())))

    def _may_refer(self, name: str, piece: Piece) -> bool:
        if self.referable_sizes is None or not piece.file or not name.endswith(".sst"):
            return False
        return Extent(piece.file, 0, self.referable_sizes[piece.file]) == Extent(piece.file, piece.start, piece.length)


def _has_many_foreign_bytes(assembled: AssembledDatabase) -> bool:
    """Return whether so many bytes belong to other subtasks that a rewrite costs less than copying them twice."""
    total_size = sum(file.size for file in assembled.manifest.files.values())
    return assembled.straddling_bytes > MOST_FOREIGN_SHARE * total_size
