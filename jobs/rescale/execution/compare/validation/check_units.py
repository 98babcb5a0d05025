"""Units of work of the validation: all comparisons of state for which metadata is not enough.

A RocksDB directory that is proven by its files has a unit for each copied SST file, and none for a file that is the
source's own. Its small files are not worth a task: the driver compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rescale.execution.compare.validation.compare import ElementCheck, FileCheck, GroupCheck
from rescale.execution.compare.validation.coverage import (
    GroupPair,
    check_elements,
    is_compared_by_record,
    moves_raw_groups,
    pair_database_files,
    pair_key_groups,
)
from rescale.execution.compare.validation.directories import DirectoryFiles
from rescale.execution.compare.validation.record_compare import RecordCheck
from rescale.execution.sources.record_sources import sources_of
from rescale.execution.sources.spans import bounded_runs, extent_runs, is_adjacent
from rescale.flink.key_group_index import KeyGroupIndex
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.slot import KEYED_SLOTS, OPERATOR_SLOTS, Slot
from rescale.planning.little_work import fits_in_process
from rescale.snapshot.keyed_state import Database, KeyedStateHolder
from rescale.snapshot.model import ElementStream, Operator, Snapshot

Check = GroupCheck | ElementCheck | FileCheck | RecordCheck


@dataclass(frozen=True)
class Checks:
    """Checks of a validation: `units` for tasks, as (bytes to read, check), and `small_files` for the driver."""

    units: list[tuple[int, Check]]
    small_files: list[FileCheck]

    @property
    def threads_suffice(self) -> bool:
        """Whether threads are as fast as processes: nearly all work hashes plain bytes, which releases the GIL."""
        return fits_in_process([(size, check) for size, check in self.units if not _is_bytewise(check)])


def list_checks(
    source: Snapshot,
    result: Snapshot,
    key_hashes: Mapping[str, str],
    proven_by_files: Sequence[Mapping[int, DirectoryFiles]],
    proven_by_changes: Collection[int] = (),
) -> Checks:
    """List all checks of a result.

    `proven_by_files` has, for each operator, the directories that are proven by their files, by subtask.
    `proven_by_changes` has the indexes of operators that `change_proof` proves: their directories get no check here.
    """
    checks: list[Check] = []
    small_files: list[FileCheck] = []
    for operator_index, (old, new) in enumerate(zip(source.operators, result.operators, strict=True)):
        directories = proven_by_files[operator_index].values()
        checks += (FileCheck(operator_index, old.label, pair) for directory in directories for pair in directory.copies)
        small_files += (
            FileCheck(operator_index, old.label, pair) for directory in directories for pair in directory.small_files
        )
        keyed = (
            (replace(old, databases=()), replace(new, databases=()))
            if operator_index in proven_by_changes
            else (old, new)
        )
        checks += _keyed_checks(
            operator_index, *keyed, key_hashes.get(old.operator_id), proven_by_files[operator_index]
        )
        for slot in OPERATOR_SLOTS:
            check_elements(old, new, slot)
            for in_result, operator in ((False, old), (True, new)):
                checks += _element_checks(operator_index, old.label, operator.element_streams_in(slot), slot, in_result)
    return Checks([(_bytes_read(check), check) for check in checks], small_files)


def _keyed_checks(
    operator_index: int,
    old: Operator,
    new: Operator,
    key_hash: str | None,
    proven_by_files: Mapping[int, DirectoryFiles],
) -> Iterator[Check]:
    """Yield the checks of an operator's keyed state, without the directories in `proven_by_files`."""
    if not is_compared_by_record(old, new):
        for slot in KEYED_SLOTS:
            yield from _group_checks(operator_index, old, pair_key_groups(old, new, slot), slot)
        if not proven_by_files:
            yield from (FileCheck(operator_index, old.label, pair) for pair in pair_database_files(old, new))
    elif proven_by_files:
        yield from _group_checks(operator_index, old, pair_key_groups(old, new, Slot.RAW_KEYED), Slot.RAW_KEYED)
        yield from _unproven_checks(
            operator_index, old, new, key_hash, [d for d in new.databases if d.subtask not in proven_by_files]
        )
    elif moves_raw_groups(old, new):
        yield from _group_checks(operator_index, old, pair_key_groups(old, new, Slot.RAW_KEYED), Slot.RAW_KEYED)
        yield from _record_checks(operator_index, replace(old, raw_keyed=()), replace(new, raw_keyed=()), key_hash)
    else:
        if old.max_parallelism == new.max_parallelism:
            raw_pairs = pair_key_groups(_without_timers(old), _without_timers(new), Slot.RAW_KEYED)
            yield from _group_checks(operator_index, old, raw_pairs, Slot.RAW_KEYED)
        yield from _record_checks(operator_index, old, new, key_hash)


def _without_timers(operator: Operator) -> Operator:
    """Return the operator without the raw keyed timers that are compared together with the records of other states."""
    return replace(operator, raw_keyed=operator.raw_keyed_without_timers)


def _group_checks(
    operator_index: int, operator: Operator, pairs: Iterable[GroupPair], slot: Slot
) -> Iterator[GroupCheck]:
    def follows(previous: GroupPair, pair: GroupPair) -> bool:
        if previous.source is None or pair.source is None or previous.id_map is not None or pair.id_map is not None:
            return False
        return is_adjacent(previous.source, pair.source) and is_adjacent(previous.result, pair.result)

    for run in bounded_runs(pairs, follows, lambda pair: pair.result.length):
        yield GroupCheck(operator_index, operator.label, slot, tuple(run))


def _element_checks(
    operator_index: int, label: str, streams: Iterable[ElementStream], slot: Slot, in_result: bool
) -> Iterator[ElementCheck]:
    for stream in streams:
        for state in stream.states:
            for run in extent_runs(state.elements):
                yield ElementCheck(
                    operator_index, label, slot, in_result, stream.subtask, state.name, state.mode, tuple(run)
                )


def _record_checks(operator_index: int, old: Operator, new: Operator, key_hash: str | None) -> Iterator[RecordCheck]:
    for in_result, operator in ((False, old), (True, new)):
        for holder in operator.record_holders:
            yield from _holder_checks(operator_index, old, new, key_hash, holder, in_result=in_result)
    for holder in old.duplicate_timers:
        for check in _holder_checks(operator_index, old, new, key_hash, holder, in_result=False):
            yield check._replace(are_duplicates=True)


def _unproven_checks(
    operator_index: int, old: Operator, new: Operator, key_hash: str | None, unproven_directories: Sequence[Database]
) -> Iterator[RecordCheck]:
    """Yield the checks of the records in `unproven_directories`, and of the same key groups in the source."""
    for database in unproven_directories:
        yield from _holder_checks(operator_index, old, new, key_hash, database, in_result=True)
    index = KeyGroupIndex(sorted(unproven_directories, key=lambda new_holder: new_holder.key_groups))
    for old_holder in old.databases:
        for key_groups in _shared_key_groups(old_holder, index.overlapping(old_holder.key_groups)):
            yield from _holder_checks(
                operator_index, old, new, key_hash, replace(old_holder, key_groups=key_groups), in_result=False
            )


def _shared_key_groups(old_holder: Database, new_holders: Sequence[Database]) -> list[KeyGroupRange]:
    """Return the ranges of key groups that an old directory shares with `new_holders`, in order.

    `new_holders` are sorted, and each overlaps the old directory. Adjacent ranges are merged into one, which is read at
    once.
    """
    ranges: list[KeyGroupRange] = []
    for new_holder in new_holders:
        shared_range = old_holder.key_groups.intersection(new_holder.key_groups)
        if ranges and ranges[-1].last + 1 == shared_range.first:
            shared_range = KeyGroupRange(ranges.pop().first, shared_range.last)
        ranges.append(shared_range)
    return ranges


def _holder_checks(
    operator_index: int,
    old: Operator,
    new: Operator,
    key_hash: str | None,
    holder: KeyedStateHolder,
    *,
    in_result: bool,
) -> Iterator[RecordCheck]:
    operator = new if in_result else old
    for source in sources_of(holder, operator.max_parallelism, operator.cutoffs):
        yield RecordCheck(operator_index, old.label, in_result, key_hash, new.max_parallelism, source)


def _is_bytewise(check: Check) -> bool:
    if isinstance(check, GroupCheck):
        return all(pair.id_map is None for pair in check.pairs)
    # For SST files, Python code checks the checksums of the blocks.
    return isinstance(check, FileCheck) and not check.pair.is_table


def _bytes_read(check: Check) -> int:
    if isinstance(check, RecordCheck):
        return check.record_source.size
    if isinstance(check, ElementCheck):
        return sum(extent.length for extent in check.elements)
    if isinstance(check, FileCheck):
        return check.pair.source.length + check.pair.result.length
    return sum(pair.result.length + (pair.source.length if pair.source else 0) for pair in check.pairs)
