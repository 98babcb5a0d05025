"""Proof of state by the store's own checksums, without reading it back.

If an operator keeps its max parallelism, its key groups have the same bytes in source and result, and are only split
into files at other places. The checksums of all its files, less their headers, therefore combine to the same checksum
on both sides. A file that was copied as a whole has the checksum of its original. State whose checksums are missing or
differ is read completely, which finds any difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from rescale.execution.compare.validation.check_units import Check, Checks
from rescale.execution.compare.validation.compare import FileCheck, GroupCheck, Tally
from rescale.flink.slot import Slot
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.checksums import CRCS, Checksum, checksum_of_etag, common_checksum
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store

_LONGEST_HEADER_BYTES = 1 << 20


class StoreChecksums(NamedTuple):
    """Result of a proof by checksums: tallies of the state that is proven, and the checks that remain.

    `algorithms_by_operator` has the names of the checksums, by index of the operator.
    """

    checks: Checks
    tallies: list[Tally]
    algorithms_by_operator: dict[int, set[str]]


def prove_by_checksums(source: Snapshot, result: Snapshot, checks: Checks) -> StoreChecksums:
    """Prove as many checks as possible by the store's checksums; reads only headers."""
    comparer = _ChecksumComparer(
        _SnapshotChecksums(source.contents, source.contents),
        _SnapshotChecksums(result.contents, result.contents.without_pins()),
    )
    checks_by_slot: dict[tuple[int, Slot], list[GroupCheck]] = defaultdict(list)
    file_checks: list[FileCheck] = []
    for _, check in checks.units:
        if isinstance(check, GroupCheck):
            checks_by_slot[check.operator_index, check.slot].append(check)
        elif isinstance(check, FileCheck):
            file_checks.append(check)
    comparer.fetch(checks_by_slot.values(), file_checks)
    proven_checks: set[Check] = set()
    tallies: list[Tally] = []
    algorithms_by_operator: dict[int, set[str]] = defaultdict(set)
    for (operator_index, slot), group_checks in checks_by_slot.items():
        if (checksum := comparer.checksum_of_groups(group_checks)) is not None:
            pairs = [pair for check in group_checks for pair in check.pairs]
            size = sum(pair.result.length for pair in pairs)
            tallies.append(Tally(operator_index, slot, True, 0, "", None, len(pairs), size, checksum.value))
            algorithms_by_operator[operator_index].add(checksum.algorithm)
            proven_checks.update(group_checks)
    for check in file_checks:
        if (checksum := comparer.checksum_of_file(check)) is not None:
            size = check.pair.result.length
            tallies.append(Tally(check.operator_index, Slot.KEYED, True, 0, "", None, 0, size, checksum.value))
            algorithms_by_operator[check.operator_index].add(checksum.algorithm)
            proven_checks.add(check)
    remaining_units = [(weight, check) for weight, check in checks.units if check not in proven_checks]
    return StoreChecksums(replace(checks, units=remaining_units), tallies, algorithms_by_operator)


def matching_checksums(
    source: SnapshotFiles, result: SnapshotFiles, checks: Sequence[FileCheck]
) -> dict[FileCheck, Checksum]:
    """Return the checksum of each file whose checksums are equal on both sides, without reading the files.

    ETags of objects that were put whole are checksums. The store is asked only for those files whose ETags on both
    sides are not equal checksums.
    """
    checksum_by_check = {
        check: checksum for check in checks if (checksum := _common_etag_checksum(source, result, check)) is not None
    }
    comparer = _ChecksumComparer(_SnapshotChecksums(source, source), _SnapshotChecksums(result, result))
    unproven_checks = [check for check in checks if check not in checksum_by_check]
    comparer.fetch((), unproven_checks)
    return checksum_by_check | {
        check: checksum for check in unproven_checks if (checksum := comparer.checksum_of_file(check)) is not None
    }


def _common_etag_checksum(source: SnapshotFiles, result: SnapshotFiles, check: FileCheck) -> Checksum | None:
    pair = check.pair
    if not (source.is_whole(pair.source) and result.is_whole(pair.result)):
        return None
    pins = source.pinned_files[pair.source.file][1], result.pinned_files[pair.result.file][1]
    first, second = (checksum_of_etag(pin.etag or "") if pin is not None else None for pin in pins)
    return first if first == second and pair.source.length == pair.result.length else None


class _SnapshotChecksums:
    """The files of one snapshot with their store's checksums; headers are read from `header_files`."""

    def __init__(self, files: SnapshotFiles, header_files: SnapshotFiles) -> None:
        self._snapshot_files = files
        self._header_files = header_files
        self.checksums: dict[int, dict[str, int]] = {}

    def fetch(self, file_indexes: Iterable[int]) -> None:
        fetched_indexes = sorted(index for index in set(file_indexes) if index > 0)
        self.checksums = dict(zip(fetched_indexes, side_by_side(self._stored_checksums, fetched_indexes), strict=True))

    def is_whole(self, extent: Extent) -> bool:
        return self._snapshot_files.is_whole(extent)

    def combined(self, extents: Sequence[Extent]) -> Iterator[Checksum]:
        """Yield checksums of the bytes of all extents, end to end.

        Yields none unless the extents are all that follows a header of at most `_LONGEST_HEADER_BYTES` in each file.
        """
        runs = list(_adjacent_runs(extents))
        if any(end != self._size(file_index) or start > _LONGEST_HEADER_BYTES for file_index, start, end in runs):
            return
        for crc in CRCS.values():
            if all(crc.name in self.checksums.get(file_index, ()) for file_index, _, _ in runs):
                total_crc = 0
                for file_index, start, end in runs:
                    header = crc.compute(self._header_files.read(Extent(file_index, 0, start)))
                    total_crc = crc.combine(
                        total_crc, crc.of_suffix(self.checksums[file_index][crc.name], header, end - start), end - start
                    )
                yield Checksum(crc.name, total_crc)

    def _stored_checksums(self, file_index: int) -> dict[str, int]:
        uri, pin = self._snapshot_files.pinned_files[file_index]
        return {} if pin is None else dict(open_store(uri).checksums(uri, pin))

    def _size(self, file_index: int) -> int:
        pin = self._snapshot_files.pinned_files[file_index][1]
        return -1 if pin is None else pin.size


class _ChecksumComparer:
    def __init__(self, source: _SnapshotChecksums, result: _SnapshotChecksums) -> None:
        self._source = source
        self._result = result

    def fetch(self, checks_of_slots: Iterable[Sequence[GroupCheck]], file_checks: Sequence[FileCheck]) -> None:
        pairs = [pair for group_checks in checks_of_slots for check in group_checks for pair in check.pairs]
        file_pairs = [check.pair for check in file_checks]
        self._source.fetch(
            [pair.source.file for pair in pairs if pair.source is not None] + [pair.source.file for pair in file_pairs]
        )
        self._result.fetch([pair.result.file for pair in pairs] + [pair.result.file for pair in file_pairs])

    def checksum_of_groups(self, checks: Sequence[GroupCheck]) -> Checksum | None:
        """Return the checksum of the key groups; None if source or result has none, or if theirs differ."""
        pairs = sorted((pair for check in checks for pair in check.pairs), key=lambda pair: pair.key_group)
        source_extents = [pair.source for pair in pairs if pair.source is not None and pair.id_map is None]
        result_extents = [pair.result for pair in pairs]
        if [extent.length for extent in source_extents] != [extent.length for extent in result_extents]:
            return None
        return common_checksum(self._source.combined(source_extents), self._result.combined(result_extents))

    def checksum_of_file(self, check: FileCheck) -> Checksum | None:
        source, result = check.pair.source, check.pair.result
        if not (self._source.is_whole(source) and self._result.is_whole(result)) or source.length != result.length:
            return None
        return common_checksum(
            (Checksum(*checksum) for checksum in self._source.checksums[source.file].items()),
            (Checksum(*checksum) for checksum in self._result.checksums[result.file].items()),
        )


def _adjacent_runs(extents: Sequence[Extent]) -> Iterator[tuple[int, int, int]]:
    """Yield (file, start, end) of runs of extents that lie end to end."""
    run: tuple[int, int, int] | None = None
    for file_index, start, length in extents:
        if run is not None and run[::2] == (file_index, start):
            run = file_index, run[1], start + length
            continue
        if run is not None:
            yield run
        run = file_index, start, start + length
    if run is not None:
        yield run
