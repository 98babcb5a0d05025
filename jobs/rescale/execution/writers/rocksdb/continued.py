"""Takes the SST files of an earlier result (the base) over into the RocksDB directories that continue it.

The new result refers to a file, or has a copy or a hard link of it (`Plan.refers_to`). Files may have been copied into
the target ahead (`runstate.preparation`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import NamedTuple

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.planned_records import read_header
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.files import report_refused_copies
from rescale.execution.writers.new_handles import DirectoryFile
from rescale.execution.writers.rocksdb.directory_files import content_of, take_directory_file
from rescale.flink.keyed.header import require_header
from rescale.plan.continuation import BaseDatabase
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.stored_files import StoredFile, needed_files
from rescale.runstate.places import places_of
from rescale.snapshot.databases.live_tables import listed_files
from rescale.storage.contract import CopyRefused, Span
from rescale.storage.keeping import takes_one_request
from rescale.storage.locations import name
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.text.errors import located

StreamIndex = tuple[int, int]
"""Index of an operator in the plan, and index of a stream in `OperatorPlan.rekeyed_streams`."""


_FILES_AT_ONCE = 512
"""Number of files that are linked or copied between two reports of the progress."""


class _Unit(NamedTuple):
    """A file of the base that lies at `span`, and the new directory (`stream_index`) that gets it as `stored_name`.

    An `is_inline` file goes into `_metadata`.
    """

    stream_index: StreamIndex
    file: StoredFile
    span: Span
    stored_name: str
    is_inline: bool


class _TakenFile(NamedTuple):
    """A file of the base in its new directory."""

    stream_index: StreamIndex
    file: DirectoryFile


def base_of(operator: OperatorPlan, stream_index: int) -> BaseDatabase | None:
    """Return the directory that a rekeyed stream continues; None if it continues none."""
    bases = operator.rekeying.bases if operator.rekeying is not None else ()
    return bases[stream_index] if bases else None


def base_manifest(plan: Plan, base: BaseDatabase) -> Manifest:
    """Return the MANIFEST of a directory of the base, after checking it against the directory's files."""
    states = require_header(read_header(plan, base.database.header)).names
    return checked_manifest(needed_files(_base_files(plan, base)), content_of, states)


def take_over_base_files(
    plan: Plan, tasks: Tasks, indexes: Sequence[StreamIndex], inline_streams: Collection[StreamIndex]
) -> dict[StreamIndex, list[DirectoryFile]]:
    """Take the base's SST files over into the directories that continue it; read those of inline streams into memory.

    Files to which the result refers, or that were copied ahead, stay as they are. The store links or copies the others;
    tasks copy only files for which the store can do neither. Returns the files of each directory, sorted by local name.
    """
    units = [
        _unit(plan, index, file, index in inline_streams) for index in indexes for file in _stored_tables(plan, index)
    ]
    existing_sizes = _existing_sizes(plan)
    taken_files, missing_units = list[_TakenFile](), list[_Unit]()
    for unit in units:
        if (name_or_uri := _existing_location(plan, unit, existing_sizes)) is None:
            missing_units.append(unit)
        else:
            taken_files.append(
                _TakenFile(unit.stream_index, DirectoryFile(unit.file.name, name_or_uri, unit.file.length, None))
            )
    taken_files += _keep_files(plan, missing_units)
    taken_names = {(taken_file.stream_index, taken_file.file.local_name) for taken_file in taken_files}
    remaining_units = [
        (unit.file.length, unit) for unit in units if (unit.stream_index, unit.file.name) not in taken_names
    ]
    if remaining_units:
        progress = Progress("copy files of the base", sum(size for size, _ in remaining_units), ByteAction.COPIED)
        copied_files = tasks.run(partial(_copy_file, plan), remaining_units, progress)
        report_refused_copies(progress, [copied_file.file.refusal for copied_file in copied_files])
        taken_files += copied_files
    files_by_stream: dict[StreamIndex, list[DirectoryFile]] = defaultdict(list)
    for taken_file in sorted(taken_files, key=lambda taken_file: taken_file.file.local_name):  # tasks end in any order
        files_by_stream[taken_file.stream_index].append(taken_file.file)
    return files_by_stream


def _existing_sizes(plan: Plan) -> dict[str, int]:
    """Return the sizes of files that were copied into the target ahead, by name."""
    if not plan.prepared:
        return {}
    return {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}


def _existing_location(plan: Plan, unit: _Unit, existing_sizes: Mapping[str, int]) -> str | None:
    """Return the URI of a file that the result refers to, or the name of one copied ahead; None for other files."""
    if plan.refers_to_base_file(unit.span):
        return unit.file.uri
    is_copied = plan.is_copied_ahead(unit.span) and existing_sizes.get(unit.stored_name) == unit.file.length
    return unit.stored_name if is_copied else None


def _keep_files(plan: Plan, units: Sequence[_Unit]) -> list[_TakenFile]:
    """Link or copy the files for which the store can do so itself; return those files."""
    progress = Progress("take files of the base", sum(unit.file.length for unit in units), ByteAction.COPIED)
    taken_files: list[_TakenFile] = []
    taken_bytes = 0
    for first in range(0, len(units), _FILES_AT_ONCE):
        results = side_by_side(partial(_keep_file, plan), units[first : first + _FILES_AT_ONCE])
        taken_files += [taken_file for taken_file in results if taken_file is not None]
        taken_bytes = sum(taken_file.file.size for taken_file in taken_files)
        progress.update(taken_bytes)
    if units:
        progress.finish(taken_bytes)
    return taken_files


def _keep_file(plan: Plan, unit: _Unit) -> _TakenFile | None:
    """Let the store link or copy a file; return None if it can do neither."""
    uri = places_of(plan).stream(unit.stored_name)
    if unit.is_inline or not takes_one_request(uri, unit.span):
        return None
    with _with_operator_in_errors(plan, unit), suppress(CopyRefused):
        open_store(uri).keep(uri, unit.span)
        return _TakenFile(unit.stream_index, DirectoryFile(unit.file.name, unit.stored_name, unit.file.length, None))
    return None


def _copy_file(plan: Plan, unit: _Unit) -> _TakenFile:
    with _with_operator_in_errors(plan, unit):
        file = take_directory_file(plan, unit.stored_name, unit.file, is_inline=unit.is_inline)
        return _TakenFile(unit.stream_index, file)


def _unit(plan: Plan, index: StreamIndex, file: StoredFile, is_inline: bool) -> _Unit:
    assert file.pin is not None, "a plan pins the files of its base"
    operator = plan.operators[index[0]]
    span = Span(file.uri, file.start, file.length, file.pin)
    stored_name = plan.base_table_name(operator, operator.rekeyed_streams[index[1]], span, file.name)
    return _Unit(index, file, span, stored_name, is_inline and not plan.is_copied_ahead(span))


def _with_operator_in_errors(plan: Plan, unit: _Unit) -> AbstractContextManager[None]:
    """Add the operator of a file to errors of the block."""
    return located(operator=plan.operators[unit.stream_index[0]].label)


def _stored_tables(plan: Plan, index: StreamIndex) -> Iterator[StoredFile]:
    base = base_of(plan.operators[index[0]], index[1])
    if base is not None:
        yield from (file for file in _base_files(plan, base) if file.name.endswith(".sst"))


def _base_files(plan: Plan, base: BaseDatabase) -> list[StoredFile]:
    return listed_files(plan.contents, base.database.files)
