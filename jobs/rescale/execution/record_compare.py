"""What a task of the validation does where records got new key groups: digests the records of one side.

On both sides every record must lie where its key belongs, as far as the hash of keys is known; and on the source's side
it is counted under the key group that it should have in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import IntegrityError, RescaleError, SnapshotError, UnsupportedError
from rescale.execution.database_records import DatabaseRecords
from rescale.execution.group_records import GroupRecords, check_accounted, states_of
from rescale.execution.rekeying.key_counter import KeyCounter
from rescale.execution.rekeying.key_groups import NewKeyGroups
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.record_digest import RecordDigester, StateDigest
from rescale.flink.keyed.records import ID_SIZE, RecordReader, framed_size
from rescale.planning.locate import Extent
from rescale.rocksdb.advice import CANONICAL
from rescale.rocksdb.scan import RowReader
from rescale.storage.store import Pin


class GroupRun(NamedTuple):
    """Key groups of one stream, end to end."""

    compressed: bool
    groups: tuple[tuple[int, Extent], ...]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.groups)


class Directory(NamedTuple):
    """A RocksDB directory by its files, which speaks for the key groups from first to last."""

    files: tuple[tuple[str, Extent], ...]
    key_groups: tuple[int, int]

    @property
    def size(self) -> int:
        return sum(extent.length for _, extent in self.files)


class RecordCheck(NamedTuple):
    """Records of one side. `max_parallelism` is that of this side, and of the result."""

    operator: int
    label: str
    in_result: bool
    header: KeyedHeader | None
    key_hash: str | None
    max_parallelism: tuple[int, int]
    origin: GroupRun | Directory


class RecordTally(NamedTuple):
    """What a check saw: digests by the name of the state, key groups, their bytes, different keys at least."""

    operator: int
    in_result: bool
    states: dict[str, StateDigest]
    groups: int
    size: int
    keys: int


@dataclass(frozen=True)
class RecordComparer:
    """Digests units of one source and one result, given by their files; travels to the tasks as it is."""

    source: Sequence[tuple[str, Pin]]
    result: Sequence[tuple[str, Pin | None]]

    def __call__(self, check: RecordCheck) -> RecordTally:
        try:
            return self._tally(check)
        except SnapshotError as error:
            if not check.in_result:
                raise error.located(operator=check.label) from None
            raise IntegrityError(
                f"the result cannot be read back: {error.what}; nothing was published",
                path=error.path,
                offset=error.offset,
                operator=check.label,
                found=error.found,
            ) from None
        except RescaleError as error:
            raise error.located(operator=check.label) from None

    def _tally(self, check: RecordCheck) -> RecordTally:
        names, is_map = states_of(check.header)
        keys = None
        if check.header is not None and check.key_hash is not None:
            keys = composite_keys(check.header, check.key_hash)
        key_groups = NewKeyGroups(keys, *check.max_parallelism)
        digester, counter = RecordDigester(is_map), KeyCounter()
        batches = self._batches(check, len(names))
        accounted = 0
        for records in batches:
            groups, codes = key_groups.of(records)
            digester.add(records, groups)
            accounted += framed_size(records, check.max_parallelism[0])
            if codes is not None:
                counter.add(codes)
        groups_read = 0
        if isinstance(batches, GroupRecords):
            groups_read = len(batches.groups)
            check_accounted(batches.size, accounted + ID_SIZE * groups_read)
        states = {name: digest for name, digest in zip(names, digester.digests(), strict=True) if digest.records}
        return RecordTally(check.operator, check.in_result, states, groups_read, check.origin.size, counter.count)

    def _batches(self, check: RecordCheck, number_of_states: int) -> GroupRecords | DatabaseRecords:
        files = self.result if check.in_result else self.source
        maximum, origin = check.max_parallelism[0], check.origin
        if isinstance(origin, GroupRun):
            reader = RecordReader(maximum, number_of_states)
            return GroupRecords(reader, files, origin.groups, compressed=origin.compressed)
        if check.header is None:
            raise UnsupportedError("a serializer is not known that hides the names of the states", advice=CANONICAL)
        return DatabaseRecords(RowReader(maximum), files, origin.files, check.header, origin.key_groups)
