"""What a task of the validation does where records got new key groups: digests the records of one side.

On both sides every record must lie where its key belongs, as far as the hash of keys is known; and on the source's side
it is counted under the key group that it should have in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import IntegrityError, RescaleError, SnapshotError
from rescale.execution.sources.record_sources import DatabasePlace, RecordSource, SourceReader, TimerPlace
from rescale.execution.validation.key_counter import KeyCounter
from rescale.flink.advice import CANONICAL_RESULT
from rescale.flink.keyed.blocks.record_digest import RecordDigester, StateDigest
from rescale.flink.keyed.blocks.records import framed_size
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.second_look import RESULT, SOURCE, looked_at_again


class RecordCheck(NamedTuple):
    """Records of one side, and the max parallelism of the result; `doubled` ones are there in another place as well."""

    operator: int
    label: str
    in_result: bool
    key_hash: str | None
    new_max_parallelism: int
    records: RecordSource
    doubled: bool = False


class RecordTally(NamedTuple):
    """What a check saw: digests by the name of the state, key groups, their bytes, different keys at least.

    `of_timers`: it was of timers that lie apart from the rest of the state.
    """

    operator: int
    in_result: bool
    states: dict[str, StateDigest]
    groups: int
    size: int
    keys: int
    of_timers: bool
    doubled: bool


@dataclass(frozen=True)
class RecordComparer:
    """Digests units of one source and one result, given by their files; travels to the tasks as it is."""

    source: SnapshotFiles
    result: SnapshotFiles

    def __call__(self, check: RecordCheck) -> RecordTally:
        side = RESULT if check.in_result else SOURCE
        try:
            return looked_at_again(lambda: self._tally(check), side)
        except SnapshotError as error:
            if not check.in_result:
                raise error.located(operator=check.label) from None
            raise IntegrityError(
                f"the result cannot be read back: {error.what}",
                path=error.path,
                offset=error.offset,
                operator=check.label,
                state=error.state,
                expected=error.expected,
                found=error.found,
                advice=CANONICAL_RESULT if isinstance(check.records.place, DatabasePlace) else None,
            ) from None
        except RescaleError as error:
            raise error.located(operator=check.label) from None

    def _tally(self, check: RecordCheck) -> RecordTally:
        of = check.records
        names, is_map = of.states
        keys = None if check.key_hash is None else composite_keys(understood(of.header), check.key_hash)
        key_groups = NewKeyGroups(keys, of.max_parallelism, check.new_max_parallelism)
        digester, counter = RecordDigester(is_map), KeyCounter()
        batches = SourceReader(self.result if check.in_result else self.source).batches(of)
        accounted = 0
        for records in batches:
            groups, codes = key_groups.of(records)
            digester.add(records, groups)
            accounted += framed_size(records, of.max_parallelism)
            if codes is not None:
                counter.add(codes)
        batches.check_all_read(accounted)
        states = {name: digest for name, digest in zip(names, digester.digests(), strict=True) if digest.records}
        return RecordTally(
            check.operator,
            check.in_result,
            states,
            of.key_groups_counted,
            of.size,
            counter.count,
            isinstance(of.place, TimerPlace),
            check.doubled,
        )
