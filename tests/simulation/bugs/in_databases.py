"""Bugs in the RocksDB directories of a result: in MANIFESTs, in range tombstones, in the choice of files."""

# ruff: noqa: ARG005 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from rescale.execution.compare.validation import compare, directories, validation, verdict
from rescale.execution.writers import new_handles
from rescale.execution.writers.rocksdb import rows_writer
from rescale.plan.pieces import piece_of
from rescale.planning.streams import database_streams
from rescale.planning.streams.database_streams import DatabasePlanner
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.rocksdb.assembly import assembly, compaction
from rescale.rocksdb.assembly.assembly import _Assembly
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.runstate import certified_files, publication
from rescale.snapshot.keyed_state import Database
from simulation.bugs import planting
from simulation.bugs.planting import Planter, attribute_planter, both, do_nothing, with_changed_result

Bug = partial(planting.Bug, native=True)

_reuse, _tombstone_files, _piece_by_name = _Assembly._reuse, _Assembly._tombstone_files, DatabasePlanner._piece_by_name
_add_files, _plan_header = DatabasePlanner._add_files, HeaderPlanner.plan
_written_tables, _rows_of_blocks = rows_writer._written_tables, rows_writer.rows_of_blocks
_new_manifest, _database_handle = rows_writer.new_manifest, new_handles._database_handle
_changed_files, _certified_files = certified_files._changed_files, verdict.certified_files


def _manifest_planter(change: Callable[[Manifest], Manifest]) -> Planter:
    """Return a planter that changes each MANIFEST when it is written."""

    def write_changed_manifest(manifest: Manifest, path: str) -> bytes:
        return write_manifest(change(manifest), path)

    return reduce(
        both,
        (
            attribute_planter(module, "write_manifest", write_changed_manifest)
            for module in (assembly, compaction, rows_writer)
        ),
    )


def _families_planter(change: Callable[[ColumnFamily], ColumnFamily]) -> Planter:
    return _manifest_planter(lambda m: replace(m, column_families=tuple(map(change, m.column_families))))


def _live_files_planter(change: Callable[[LiveFile], LiveFile]) -> Planter:
    return _families_planter(lambda family: replace(family, files=tuple(map(change, family.files))))


def _with_later_begin(file: LiveFile) -> LiveFile:
    key = file.smallest_key
    return replace(file, smallest_key=key._replace(user_key=key.user_key + b"\0"))


def _with_earlier_end(file: LiveFile) -> LiveFile:
    key = file.largest_key
    return (
        file if file.is_largest_exclusive else replace(file, largest_key=key._replace(user_key=file.smallest_user_key))
    )


def _with_ages_reversed(family: ColumnFamily) -> ColumnFamily:
    ages = [(file.smallest_sequence, file.largest_sequence) for file in reversed(family.files)]
    pairs = zip(family.files, ages, strict=True)
    return replace(
        family, files=tuple(replace(file, smallest_sequence=a, largest_sequence=b) for file, (a, b) in pairs)
    )


def _with_epochs_reversed(family: ColumnFamily) -> ColumnFamily:
    def with_epoch(file: LiveFile, epoch: int) -> LiveFile:
        fields = ((t, varint(epoch) if t == FileTag.EPOCH_NUMBER else value) for t, value in file.fields)
        return replace(file, fields=tuple(fields))

    newest = max((file.number_in(FileTag.EPOCH_NUMBER) or 0 for file in family.files), default=0)
    files = ((file, newest + 1 - (file.number_in(FileTag.EPOCH_NUMBER) or 0)) for file in family.files)
    return replace(family, files=tuple(with_epoch(file, epoch) for file, epoch in files))


def _tombstones_planter(change: Callable[[LiveFile], LiveFile]) -> Planter:
    """Return a planter that changes the files of range tombstones, which hide foreign rows."""

    def changed_tombstones(self: Any, *arguments: Any) -> Iterator[LiveFile]:
        return map(change, _tombstone_files(self, *arguments))

    return attribute_planter(_Assembly, "_tombstone_files", changed_tombstones)


def _hiding_one_group_more(file: LiveFile) -> LiveFile:
    end = file.largest_key.user_key
    later_end = (int.from_bytes(end, "big") + 1).to_bytes(len(end) + 1, "big")[-len(end) :]
    return replace(file, largest_key=file.largest_key._replace(user_key=later_end)) if len(end) < 3 else file


def _with_too_old_deletions(file: LiveFile) -> LiveFile:
    key = file.smallest_key
    return replace(file, smallest_key=key._replace(sequence=1), smallest_sequence=1, largest_sequence=1)


def _with_rotated_tables(files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files of a directory, in which each SST file has the name of another one."""
    tables = [name for name in files if name.endswith(".sst")]
    pieces = [files[name] for name in tables]
    return {**files, **dict(zip(tables, [*pieces[1:], *pieces[:1]], strict=True))}


def _with_file_of_a_neighbour(self: Any, assembled: Any, old_holders: Any) -> dict[str, Any]:
    """Take each file from the last of the old directories, if that has a file of the same name."""
    files = dict(_piece_by_name(self, assembled, old_holders))
    extent_by_name = {file.name: file.extent for file in old_holders[-1].files if file.name.endswith(".sst")}
    return files | {
        file.name: piece_of(extent_by_name[file.source_name])
        for file in assembled.reused_files
        if file.source_number < len(old_holders) - 1 and file.source_name in extent_by_name
    }


def _refer_to_other_files(self: Any, subtask: int, groups: Any, files: Any, header: Any) -> None:
    _add_files(
        self, subtask, groups, _with_rotated_tables(files) if self.referable_sizes is not None else files, header
    )


def _with_header_of_one_source(self: Any, old_holders: Any, *rest: Any, **named: Any) -> Any:
    return _plan_header(
        self, old_holders[-1:] if old_holders and isinstance(old_holders[0], Database) else old_holders, *rest, **named
    )


def _rows_without_sorting(blocks: Any) -> Iterator[tuple[Any, Any]]:
    for rows, order in _rows_of_blocks(blocks):
        yield rows, np.arange(len(order), dtype=order.dtype)[::-1]


def _with_states_exchanged(tables: Mapping[str, Any], created: int) -> Any:
    return _new_manifest(dict(zip(tables, [*tables.values()][::-1], strict=True)), created)


def _handle_planter(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Planter:
    def handle_of_changed_files(plan: Any, operator: Any, subtask: int, covers: Any, files: Any) -> Any:
        return _database_handle(plan, operator, subtask, covers, change(dict(files)))

    return attribute_planter(new_handles, "_database_handle", handle_of_changed_files)


def _without_a_table(files: dict[str, Any]) -> dict[str, Any]:
    tables = sorted(name for name in files if name.endswith(".sst"))
    return {name: file for name, file in files.items() if name not in tables[:1]}


def _changed_own_files(target: str, files: Any) -> Any:
    return _changed_files(target, [file for file in files if not file.is_elsewhere])


def _check_until_published(target: str, files: Any, *, is_published: bool) -> None:
    if not is_published:
        certified_files.check_files(target, files, is_published=is_published)


_dirty_directories_planter = reduce(
    both,
    (
        attribute_planter(database_streams, "is_clean", lambda *_: True),
        attribute_planter(compaction, "is_clean", lambda *_: True),
        attribute_planter(_Assembly, "_check_source", do_nothing),
    ),
)
_result_digest_twice = with_changed_result(compare.digest_pair, lambda pair: (pair[1], pair[1]))

BUGS = [
    Bug("MANIFEST: misses a file", _families_planter(lambda f: replace(f, files=f.files[1:]))),
    Bug("MANIFEST: misses a state", _manifest_planter(lambda m: replace(m, column_families=m.column_families[:-1]))),
    Bug("MANIFEST: sizes are one too large", _live_files_planter(lambda f: replace(f, size=f.size + 1))),
    Bug("MANIFEST: smallest keys are too large", _live_files_planter(_with_later_begin)),
    Bug("MANIFEST: largest keys are too small", _live_files_planter(_with_earlier_end)),
    Bug("MANIFEST: sequence numbers backwards", _families_planter(_with_ages_reversed)),
    Bug("MANIFEST: epochs backwards", _families_planter(_with_epochs_reversed)),
    Bug("MANIFEST: all in one level", _live_files_planter(lambda f: replace(f, level=3))),
    Bug("MANIFEST: the last sequence number is too low", _manifest_planter(lambda m: replace(m, last_sequence=0))),
    Bug("MANIFEST: the next number is in use", _manifest_planter(lambda m: replace(m, next_file_number=11))),
    Bug(
        "databases: sources are equally old",
        attribute_planter(_Assembly, "_reuse", lambda s, place, *rest: _reuse(s, 0, *rest)),
    ),
    Bug("databases: dirty directories are joined", _dirty_directories_planter),
    Bug(
        "databases: no range tombstones hide foreign rows",
        attribute_planter(_Assembly, "_tombstone_files", lambda *_: iter(())),
    ),
    Bug("databases: range tombstones hide a key group too many", _tombstones_planter(_hiding_one_group_more)),
    Bug("databases: range tombstones are too old", _tombstones_planter(_with_too_old_deletions)),
    Bug(
        "databases: SST files change places",
        attribute_planter(DatabasePlanner, "_piece_by_name", with_changed_result(_piece_by_name, _with_rotated_tables)),
    ),
    Bug(
        "databases: SST files of another subtask",
        attribute_planter(DatabasePlanner, "_piece_by_name", _with_file_of_a_neighbour),
    ),
    Bug("databases: states of one source alone", attribute_planter(HeaderPlanner, "plan", _with_header_of_one_source)),
    Bug("compaction: nothing is rewritten", attribute_planter(compaction, "_compact_in_child", do_nothing)),
    Bug(
        "rows: a file is lost",
        attribute_planter(rows_writer, "_written_tables", lambda *a: list(_written_tables(*a))[:-1]),
    ),
    Bug("rows: in another order", attribute_planter(rows_writer, "rows_of_blocks", _rows_without_sorting)),
    Bug("rows: states change places", attribute_planter(rows_writer, "new_manifest", _with_states_exchanged)),
    Bug(
        "handle: one backend for all", attribute_planter(new_handles, "_planned_uuid", lambda *_: str(uuid.UUID(int=7)))
    ),
    Bug("handle: an SST file is left out", _handle_planter(_without_a_table)),
    Bug("handle: SST files have each other's names", _handle_planter(_with_rotated_tables)),
    Bug("refer: to other files of the source", attribute_planter(DatabasePlanner, "_add_files", _refer_to_other_files)),
    Bug(
        "refer: publish checks its own files only",
        attribute_planter(certified_files, "_changed_files", _changed_own_files),
    ),
    Bug(
        "refer: the certificate names own files only",
        attribute_planter(
            verdict,
            "certified_files",
            with_changed_result(_certified_files, lambda files: tuple(f for f in files if not f.is_elsewhere)),
        ),
    ),
    Bug("refer: any file may be referred to", attribute_planter(validation, "check_references", do_nothing)),
    Bug(
        "refer: once published, files are not checked again",
        attribute_planter(publication, "check_files", _check_until_published),
    ),
    Bug("refer: the certificate does not say so", attribute_planter(verdict, "_LIMIT_OF_REFERENCES", "")),
    Bug("proof by files: copies are not compared", attribute_planter(compare, "digest_pair", _result_digest_twice)),
    Bug(
        "proof by files: range tombstones are not checked",
        attribute_planter(directories, "check_assembled", do_nothing),
    ),
    Bug(
        "proof by files: no range tombstones, and no check",
        both(
            attribute_planter(_Assembly, "_tombstone_files", lambda *_: iter(())),
            attribute_planter(directories, "check_assembled", do_nothing),
        ),
    ),
]
