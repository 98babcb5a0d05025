"""What a task of the validation does where records got new key groups: digests the records of one side.

On both sides every record must lie where its key belongs, as far as the hash of keys is known; and on the source's side
it is counted under the key group that it should have in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import IntegrityError, RescaleError, SnapshotError
from rescale.execution.rekeying.key_counter import KeyCounter
from rescale.execution.rekeying.key_groups import NewKeyGroups
from rescale.execution.sources.group_records import states_of
from rescale.execution.sources.origins import GroupRun, Origin, check_all_read
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.record_digest import RecordDigester, StateDigest
from rescale.flink.keyed.records import framed_size
from rescale.snapshot.snapshot_files import SnapshotFiles


class RecordCheck(NamedTuple):
    """Records of one side, and the max parallelism of the result; `doubled` ones are there in another place as well."""

    operator: int
    label: str
    in_result: bool
    key_hash: str | None
    new_max_parallelism: int
    origin: Origin
    doubled: bool = False


class RecordTally(NamedTuple):
    """What a check saw: digests by the name of the state, key groups, their bytes, different keys at least."""

    operator: int
    in_result: bool
    states: dict[str, StateDigest]
    groups: int
    size: int
    keys: int
    doubled: bool


@dataclass(frozen=True)
class RecordComparer:
    """Digests units of one source and one result, given by their files; travels to the tasks as it is."""

    source: SnapshotFiles
    result: SnapshotFiles

    def __call__(self, check: RecordCheck) -> RecordTally:
        try:
            return self._tally(check)
        except SnapshotError as error:
            if not check.in_result:
                raise error.located(operator=check.label) from None
            raise IntegrityError(
                f"the result cannot be read back: {error.what}",
                path=error.path,
                offset=error.offset,
                operator=check.label,
                found=error.found,
            ) from None
        except RescaleError as error:
            raise error.located(operator=check.label) from None

    def _tally(self, check: RecordCheck) -> RecordTally:
        origin = check.origin
        names, is_map = states_of(origin.header)
        keys = None
        if origin.header is not None and check.key_hash is not None:
            keys = composite_keys(origin.header, check.key_hash)
        key_groups = NewKeyGroups(keys, origin.max_parallelism, check.new_max_parallelism)
        digester, counter = RecordDigester(is_map), KeyCounter()
        batches = origin.records(self.result if check.in_result else self.source)
        accounted = 0
        for records in batches:
            groups, codes = key_groups.of(records)
            digester.add(records, groups)
            accounted += framed_size(records, origin.max_parallelism)
            if codes is not None:
                counter.add(codes)
        check_all_read(batches, accounted)
        groups_read = len(origin.place.groups) if isinstance(origin.place, GroupRun) else 0
        states = {name: digest for name, digest in zip(names, digester.digests(), strict=True) if digest.records}
        return RecordTally(
            check.operator, check.in_result, states, groups_read, origin.size, counter.count, check.doubled
        )
