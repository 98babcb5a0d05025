"""Proof, from the MANIFESTs alone, that an assembled database has the rows of its sources.

The proof compares the result with the sources, and ignores how the result was made. First, every source file that may
have rows of the wanted key groups is in the result exactly once, in the same level and order. Second, range tombstones
hide all rows of these files that belong to other key groups, and no other rows. The range tombstones are newer than all
rows.

The proof reads no rows. Other checks show that the files have the same bytes as in the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.key_range import KeyRange, Overlap, key_range
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import RangeTombstone
from rescale.text.errors import IntegrityError


class Origin(NamedTuple):
    """File `name` of a source database; the databases are counted from 0 (`source_number`)."""

    source_number: int
    name: str


@dataclass(frozen=True)
class ResultDatabase:
    """A database to check; `uri` names it in errors.

    Each SST file of the database is either in `origins`, which names its source file, or in `tombstones`, which has
    the range tombstones that were read from the file.
    """

    uri: str
    manifest: Manifest
    origins: Mapping[str, Origin]
    tombstones: Mapping[str, Sequence[RangeTombstone]]


def check_assembled(
    sources: Sequence[SourceDatabase], result: ResultDatabase, key_groups: KeyGroupRange, max_parallelism: int
) -> None:
    """Raise `IntegrityError` unless `result` has the rows that the sources have in `key_groups`, and no others."""
    _Proof(sources, result, key_groups, max_parallelism).check()


class _Proof:
    def __init__(
        self, sources: Sequence[SourceDatabase], result: ResultDatabase, key_groups: KeyGroupRange, max_parallelism: int
    ) -> None:
        self._sources, self._result = sources, result
        self._source_ranges = [key_range(source.key_groups, max_parallelism) for source in sources]
        new_key_groups = key_groups.intersection(sources[0].key_groups) if len(sources) == 1 else key_groups
        self._new_range = key_range(new_key_groups, max_parallelism)

    def check(self) -> None:
        source_states = {family.name for source in self._sources for family in source.manifest.column_families}
        result_states = {family.name for family in self._result.manifest.column_families}
        if result_states != source_states:
            raise self._error(
                "a database has other states than its sources", expected=source_states, found=result_states
            )
        file_names = self._result.manifest.files.keys()
        known_names = self._result.origins.keys() | self._result.tombstones.keys()
        if file_names != known_names or self._result.origins.keys() & self._result.tombstones.keys():
            raise self._error(
                "the database has an SST file of unknown origin", expected=known_names, found=set(file_names)
            )
        for family in self._result.manifest.column_families:
            self._check_family(family)

    def _check_family(self, family: ColumnFamily) -> None:
        unchecked_files = {
            self._result.origins[file.name]: file for file in family.files if file.name in self._result.origins
        }
        tombstone_files = [file for file in family.files if file.name in self._result.tombstones]
        if len(unchecked_files) + len(tombstone_files) != len(family.files):
            raise self._error("an SST file of a source is in the database twice", state=family.name)
        level_0_files = [
            [
                file
                for origin, file in unchecked_files.items()
                if origin.source_number == source_number and not file.level
            ]
            for source_number in range(len(self._sources))
        ]
        for source_number, source in enumerate(self._sources):
            self._check_source(source_number, source, family.name, unchecked_files)
        if unchecked_files:
            raise self._error(
                "an SST file belongs to another state in its source", state=family.name, found=min(unchecked_files).name
            )
        self._check_not_interleaved(filter(None, level_0_files), family.name)
        self._check_tombstones(family, tombstone_files)
        self._check_levels(family)

    def _check_source(
        self, source_number: int, source: SourceDatabase, state: str, unchecked_files: dict[Origin, LiveFile]
    ) -> None:
        """Check that the result has the right files of one source, and remove these files from `unchecked_files`."""
        source_range = self._source_ranges[source_number]
        live_files = [
            file for family in source.manifest.column_families if family.name == state for file in family.files
        ]
        entry_pairs = []
        for file in live_files:
            overlap = source_range.overlap(file)
            result_file = unchecked_files.pop(Origin(source_number, file.name), None)
            if result_file is not None:
                entry_pairs.append((file, result_file))
                if len(self._sources) > 1 and overlap != Overlap.INSIDE:
                    raise self._error(
                        "a file has rows in the key groups of another source", state=state, found=file.name
                    )
            elif overlap != Overlap.OUTSIDE and self._new_range.overlap(file) != Overlap.OUTSIDE:
                raise self._error(
                    "an SST file of a source is missing", state=state, expected=f"{file.name} of {source.uri}"
                )
        for before, after in entry_pairs:
            if _unchanged_fields(before) != _unchanged_fields(after):
                raise self._error(
                    "an SST file has another level, size or key range than in its source", state=state, found=after.name
                )
        self._check_order([pair for pair in entry_pairs if pair[0].level == 0], state)

    def _check_order(self, entry_pairs: list[tuple[LiveFile, LiveFile]], state: str) -> None:
        """Check that level-0 files of one source keep their order.

        All their sequence numbers must be shifted by the same amount, and so must all their epoch numbers.
        """
        sequence_shifts = {(after.smallest_sequence - before.smallest_sequence) for before, after in entry_pairs}
        sequence_shifts |= {(after.largest_sequence - before.largest_sequence) for before, after in entry_pairs}
        pairs_by_number = sorted(entry_pairs, key=lambda pair: pair[0].number)
        are_in_order = all(earlier[1].number < later[1].number for earlier, later in pairwise(pairs_by_number))
        pairs_with_epochs = [pair for pair in entry_pairs if pair[1].epoch]
        epoch_shifts = {(after.epoch or 0) - (before.epoch or 0) for before, after in pairs_with_epochs}
        if len(sequence_shifts) > 1 or len(epoch_shifts) > 1 or not are_in_order:
            raise self._error("the files of one source are not in the source's order of age", state=state)

    def _check_not_interleaved(self, sources: Iterable[Sequence[LiveFile]], state: str) -> None:
        """Check that level-0 files of two sources do not interleave, by sequence number and by epoch number."""
        sources_by_age = sorted(sources, key=lambda files: min(file.smallest_sequence for file in files))
        for older, newer in pairwise(sources_by_age):
            last_older_sequence = max(file.largest_sequence for file in older)
            first_newer_sequence = min(file.smallest_sequence for file in newer)
            epochs = max(file.epoch or 0 for file in older), min(file.epoch or 0 for file in newer)
            if first_newer_sequence < last_older_sequence or 0 < epochs[1] <= epochs[0]:
                raise self._error("the files of two sources are interleaved in age", state=state)

    def _check_tombstones(self, family: ColumnFamily, tombstone_files: Sequence[LiveFile]) -> None:
        reused_files = [file for file in family.files if file not in tombstone_files]
        hidden_ranges = [self._tombstone_range(file, family.name) for file in tombstone_files]
        self._check_tombstones_newest(tombstone_files, reused_files, family.name)
        self._check_live_rows_not_hidden(hidden_ranges, family.name)
        self._check_dead_rows_hidden(reused_files, hidden_ranges, family.name)

    def _tombstone_range(self, file: LiveFile, state: str) -> KeyRange:
        """Return the range of a file's only range tombstone, after a check against the file's entry in the MANIFEST."""
        sequence = file.smallest_sequence
        expected_tombstones = [RangeTombstone(file.smallest_user_key, file.largest_user_key, sequence)]
        tombstones = list(self._result.tombstones[file.name])
        if (
            tombstones != expected_tombstones
            or not file.is_largest_exclusive
            or file.level
            or file.largest_sequence != sequence
        ):
            raise self._error("a range tombstone differs from its entry in the MANIFEST", state=state, found=file.name)
        return KeyRange(file.smallest_user_key, file.largest_user_key)

    def _check_tombstones_newest(
        self, tombstone_files: Sequence[LiveFile], reused_files: Sequence[LiveFile], state: str
    ) -> None:
        """Check that range tombstones are newer than all rows, by sequence and epoch number, and differ in age."""
        newest_sequence = max((file.largest_sequence for file in reused_files), default=0)
        newest_epoch = max((file.epoch or 0 for file in reused_files), default=0)
        sequences = [file.largest_sequence for file in tombstone_files]
        has_older_tombstone = any(sequence <= newest_sequence for sequence in sequences) or any(
            file.epoch is not None and file.epoch <= newest_epoch for file in tombstone_files
        )
        if has_older_tombstone or len(set(sequences)) < len(sequences):
            raise self._error("a range tombstone is not newer than the rows that it must hide", state=state)
        if len({file.epoch is None for file in (*reused_files, *tombstone_files)}) > 1:
            raise self._error("only some files have an epoch number", state=state)

    def _check_live_rows_not_hidden(self, hidden_ranges: Sequence[KeyRange], state: str) -> None:
        for hidden_range in hidden_ranges:
            if hidden_range.begin < self._new_range.end and self._new_range.begin < hidden_range.end:
                raise self._error(
                    "a range tombstone covers key groups of the subtask",
                    state=state,
                    expected=f"nothing from {self._new_range.begin.hex()} to {self._new_range.end.hex()}",
                    found=f"{hidden_range.begin.hex()} to {hidden_range.end.hex()}",
                )

    def _check_dead_rows_hidden(
        self, reused_files: Sequence[LiveFile], hidden_ranges: Sequence[KeyRange], state: str
    ) -> None:
        """Check that range tombstones hide all rows below and above the subtask's key groups."""
        for file in reused_files:
            is_hidden_below = not self._new_range.reaches_below(file) or any(
                hidden_range.begin <= file.smallest_user_key and hidden_range.end >= self._new_range.begin
                for hidden_range in hidden_ranges
            )
            is_hidden_above = not self._new_range.reaches_above(file) or any(
                hidden_range.begin <= self._new_range.end and hidden_range.end > file.largest_user_key
                for hidden_range in hidden_ranges
            )
            if not (is_hidden_below and is_hidden_above):
                raise self._error(
                    "rows outside of the subtask's key groups are not hidden", state=state, found=file.name
                )

    def _check_levels(self, family: ColumnFamily) -> None:
        sorted_files = sorted(family.files, key=lambda file: (file.level, file.smallest_key.order))
        for first, second in pairwise(sorted_files):
            if first.level == second.level > 0 and first.largest_key.order >= second.smallest_key.order:
                file_names = f"{first.name}, {second.name}"
                raise self._error("two files of one level overlap", state=family.name, found=file_names)

    def _error(
        self, what: str, *, state: str | None = None, expected: object = None, found: object = None
    ) -> IntegrityError:
        def text(value: object) -> object:
            return ", ".join(sorted(map(str, value))) if isinstance(value, set) else value

        return IntegrityError(what, path=self._result.uri, state=state, expected=text(expected), found=text(found))


def _unchanged_fields(file: LiveFile) -> tuple[object, ...]:
    """Return the fields of a file's entry that assembly does not change."""
    sequences = (file.smallest_sequence, file.largest_sequence) if file.level else ()
    return file.level, file.size, file.smallest_key, file.largest_key, sequences
