"""Work of a validation's task for state that is compared record by record: digests the records of one side.

On both sides every record must lie in the key group of its key, if the hash of keys is known. Records of the source are
digested under the key group that they must have in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rescale.execution.compare.source_digests import digest_records
from rescale.execution.compare.validation.key_counter import KeyCounter
from rescale.execution.compare.validation.read_back import read_side
from rescale.execution.sources.record_sources import RecordSource
from rescale.flink.advice import ASK_FOR_CANONICAL_RESULT
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import require_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.flink.keyed.ttl.counting_age_filter import LeftOutCounts
from rescale.snapshot.places import DatabasePlace, StreamPlace
from rescale.snapshot.snapshot_files import SnapshotFiles


class RecordCheck(NamedTuple):
    """Check of some records of the source or the result, which are digested under key groups of `new_max_parallelism`.

    `are_duplicates` marks the raw keyed copy of timers that the source stores twice.
    """

    operator_index: int
    label: str
    in_result: bool
    key_hash: str | None
    new_max_parallelism: int
    record_source: RecordSource
    are_duplicates: bool = False


class RecordTally(NamedTuple):
    """Outcome of a check: the digests of records, by state name.

    `are_timers` says whether the records are timers in raw keyed state. `left_out_by_state` counts the old rows of the
    source, which are in no digest.
    """

    operator_index: int
    in_result: bool
    digests_by_state: dict[str, StateDigest]
    key_group_count: int
    size: int
    distinct_keys_at_least: int
    are_timers: bool
    are_duplicates: bool
    left_out_by_state: dict[str, LeftOutCounts]


@dataclass(frozen=True)
class RecordComparer:
    """Performs record checks of one source and one result, given by their files; pickled into the tasks."""

    source: SnapshotFiles
    result: SnapshotFiles

    def __call__(self, check: RecordCheck) -> RecordTally:
        advice = ASK_FOR_CANONICAL_RESULT if isinstance(check.record_source.place, DatabasePlace) else None
        return read_side(partial(self._tally, check), check.label, in_result=check.in_result, advice=advice)

    def _tally(self, check: RecordCheck) -> RecordTally:
        source = check.record_source
        keys = None if check.key_hash is None else composite_keys(require_header(source.header), check.key_hash)
        key_groups = NewKeyGroups(keys, source.max_parallelism, check.new_max_parallelism)
        counter = KeyCounter()

        def new_key_groups(records: Records) -> Longs:
            groups, codes = key_groups.assign(records)
            if codes is not None:
                counter.add(codes)
            return groups

        digests = digest_records(source, self.result if check.in_result else self.source, new_key_groups)
        digests_by_state = {name: digest for name, digest in digests.digests_by_state.items() if digest.records}
        return RecordTally(
            operator_index=check.operator_index,
            in_result=check.in_result,
            digests_by_state=digests_by_state,
            key_group_count=source.key_group_count,
            size=source.size,
            distinct_keys_at_least=counter.count,
            are_timers=isinstance(source.place, StreamPlace) and source.place.framing is Framing.RAW,
            are_duplicates=check.are_duplicates,
            left_out_by_state=digests.left_out_by_state,
        )
