"""Search for the first records that differ, in bounded memory, in states whose digests differ.

Records fall into buckets by the digest of their key, so both values of a key share a bucket. A bucket whose sums differ
between the snapshots holds a difference. The first few such buckets are split into 1024 parts each and searched again,
until few enough records are left to be listed. Each pass reads the records once more. The size of a task's result
depends on its buckets, not on the bytes that it read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescale.execution.compare.diff.differences import MOST_SHOWN, ONLY_IN, OTHER_NUMBER, OTHER_VALUE, BothFiles
from rescale.execution.compare.diff.state_digests import RecordUnit
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.record_sources import SourceReader
from rescale.execution.tasks.protocol import Tasks
from rescale.flink.arrays import Words
from rescale.flink.keyed.blocks.record_digest import key_digests, record_digests
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.record_name import record_name_parts
from rescale.flink.serializers.value_format import format_bytes
from rescale.report.differences import ListedDifference
from rescale.text.errors import located
from rescale.text.units import counted

_BITS_PER_PASS, _MOST_BITS = 10, 60
"""Number of bits of the keys' digests by which a pass splits buckets, and the maximum for all passes together."""
_FEW_RECORDS = 1000
"""Largest number of records of a state, in both snapshots together, that are listed without another pass."""

_MOST_RECORDS_LISTED = 10_000
"""Largest number of records of a state that a unit lists; reached only if a single key has that many records."""

_RETURNED_BYTES = 4096
"""Bytes of a key, and of a value, that a task returns."""

_SHOWN_BYTES, _SHOWN_BYTES_BEFORE = 32, 4
"""Number of bytes of a value that are shown, and how many of these come before the first difference."""


class Bucket(NamedTuple):
    """Records whose keys' digests end in the same bits: their number, and the sum mod 2^64 of their digests."""

    record_count: int
    digest_sum: int


class FoundRecord(NamedTuple):
    """A record, identified by the digest and the beginning of its key, with the beginning of its value."""

    side: int
    key_digest: int
    key_beginning: bytes
    digest: int
    value_beginning: bytes
    value_size: int


class RecordSearch(NamedTuple):
    """A unit to be searched for keys whose digests end in given bits.

    `endings_by_state` has, for each state, the values of the last `bit_count` bits that are searched for.
    """

    unit: RecordUnit
    bit_count: int
    endings_by_state: Mapping[str, tuple[int, ...]]


class SearchResult(NamedTuple):
    """Result of a search, by state: buckets by the last bits of their keys' digests, or the records themselves."""

    side: int
    buckets_by_state: dict[str, dict[int, Bucket]]
    records_by_state: dict[str, list[FoundRecord]]


@dataclass(frozen=True)
class RecordSearcher:
    """Searches the records of two snapshots, given by their files; pickled into the tasks.

    Returns the records themselves if `lists_records` is True, else buckets.
    """

    files: BothFiles
    lists_records: bool

    def __call__(self, search: RecordSearch) -> SearchResult:
        result = SearchResult(search.unit.side, defaultdict(dict), defaultdict(list))
        with located(operator=search.unit.label):
            for records in SourceReader(self.files[search.unit.side]).batches(search.unit.source):
                for state, is_map, state_records in _searched_states(records, search):
                    digests_of_keys = key_digests(state_records)
                    is_searched = np.isin(
                        _low_bits(digests_of_keys, search.bit_count),
                        np.array(search.endings_by_state[state], np.uint64),
                    )
                    state_records, digests_of_keys = state_records.select(is_searched), digests_of_keys[is_searched]
                    digests = record_digests(state_records, np.full(len(state_records), is_map))
                    if self.lists_records:
                        remaining_count = _MOST_RECORDS_LISTED - len(result.records_by_state[state])
                        result.records_by_state[state] += _found_records(
                            search.unit.side, state_records, digests_of_keys, digests
                        )[:remaining_count]
                    else:
                        _add_to_buckets(
                            result.buckets_by_state[state],
                            _low_bits(digests_of_keys, search.bit_count + _BITS_PER_PASS),
                            digests,
                        )
        return result


def _searched_states(records: Records, search: RecordSearch) -> Iterator[tuple[str, bool, Records]]:
    """Yield (name, whether it is a map, records) of each state that is searched."""
    for state_id, (state, is_map) in enumerate(zip(*search.unit.source.states, strict=True)):
        if state in search.endings_by_state:
            yield state, is_map, records.select(records.state_ids == state_id)


def _low_bits(digests: Words, bit_count: int) -> Words:
    return digests & np.uint64((1 << bit_count) - 1)


def _add_to_buckets(buckets: dict[int, Bucket], endings: Words, digests: Words) -> None:
    distinct_endings, ending_indices, counts = np.unique(endings, return_inverse=True, return_counts=True)
    digest_sums = np.zeros(len(distinct_endings), np.uint64)
    np.add.at(digest_sums, ending_indices, digests)
    for ending, count, digest_sum in zip(distinct_endings.tolist(), counts.tolist(), digest_sums.tolist(), strict=True):
        buckets[ending] = _joined_bucket(buckets.get(ending, Bucket(0, 0)), Bucket(count, digest_sum))


def _joined_bucket(bucket: Bucket, other: Bucket) -> Bucket:
    return Bucket(bucket.record_count + other.record_count, (bucket.digest_sum + other.digest_sum) % (1 << 64))


def _found_records(side: int, records: Records, digests_of_keys: Words, digests: Words) -> list[FoundRecord]:
    result = []
    for i in range(min(len(records), _MOST_RECORDS_LISTED)):
        start, key_end, end = int(records.key_starts[i]), int(records.key_ends[i]), int(records.ends[i])
        key_beginning = records.data[start : min(key_end, start + _RETURNED_BYTES)].tobytes()
        value_beginning = records.data[
            key_end + LENGTH_SIZE : min(end, key_end + LENGTH_SIZE + _RETURNED_BYTES)
        ].tobytes()
        result.append(
            FoundRecord(
                side,
                int(digests_of_keys[i]),
                key_beginning,
                int(digests[i]),
                value_beginning,
                end - key_end - LENGTH_SIZE,
            )
        )
    return result


class RecordDifferences(NamedTuple):
    """The first differences of a state, and a lower bound of their number."""

    first_differences: tuple[ListedDifference, ...]
    difference_count: int


def differing_records(
    units: Sequence[RecordUnit],
    record_counts: Mapping[str, int],
    files: BothFiles,
    tasks: Tasks,
) -> dict[str, RecordDifferences]:
    """Return the differences of one operator's records, by state.

    `record_counts` has the states whose digests differ, each with its number of records in both snapshots together.
    """
    difference_counts: dict[str, int] = dict.fromkeys(record_counts, 0)
    searched_endings: dict[str, tuple[int, ...]] = dict.fromkeys(record_counts, (0,))
    remaining_count, bit_count = max(record_counts.values()), 0
    while remaining_count > _FEW_RECORDS and bit_count < _MOST_BITS:
        counts_by_state, endings_by_state = _differing_buckets(
            _search(units, bit_count, searched_endings, files, tasks)
        )
        bit_count += _BITS_PER_PASS
        searched_endings = {state: tuple(sorted(endings)[:MOST_SHOWN]) for state, endings in endings_by_state.items()}
        difference_counts = {
            state: max(difference_count, len(endings_by_state.get(state, ())))
            for state, difference_count in difference_counts.items()
        }
        remaining_count = max(
            (sum(counts_by_state[state][ending] for ending in endings) for state, endings in searched_endings.items()),
            default=0,
        )
    records_by_state: dict[str, list[FoundRecord]] = defaultdict(list)
    for unit_result in _search(units, bit_count, searched_endings, files, tasks, lists_records=True):
        for state, records in unit_result.records_by_state.items():
            records_by_state[state] += records
    headers = [unit.source.header for unit in units if unit.source.header is not None]
    result = {}
    for state, difference_count in difference_counts.items():
        header = next(
            (candidate for candidate in headers if any(info.name == state for info in candidate.states)), None
        )
        differences = [
            ListedDifference(kind, record_name_parts(header, state, key), text_a, text_b)
            for key, kind, text_a, text_b in _key_differences(records_by_state[state])
        ]
        result[state] = RecordDifferences(tuple(differences[:MOST_SHOWN]), max(difference_count, len(differences)))
    return result


def _search(
    units: Sequence[RecordUnit],
    bit_count: int,
    searched_endings: Mapping[str, tuple[int, ...]],
    files: BothFiles,
    tasks: Tasks,
    *,
    lists_records: bool = False,
) -> list[SearchResult]:
    searches = [(unit.size, RecordSearch(unit, bit_count, searched_endings)) for unit in units]
    progress = Progress("find differences", sum(size for size, _ in searches), ByteAction.READ_ON_BOTH_SIDES)
    return tasks.run(RecordSearcher(files, lists_records), searches, progress)


def _differing_buckets(results: Sequence[SearchResult]) -> tuple[dict[str, Counter[int]], dict[str, list[int]]]:
    """Return by state the number of records in each bucket, and the buckets that differ between the sides."""
    counts_by_state: dict[str, Counter[int]] = defaultdict(Counter)
    buckets_by_state: dict[str, tuple[dict[int, Bucket], dict[int, Bucket]]] = defaultdict(lambda: ({}, {}))
    for unit_result in results:
        for state, buckets in unit_result.buckets_by_state.items():
            side = buckets_by_state[state][unit_result.side]
            for ending, bucket in buckets.items():
                counts_by_state[state][ending] += bucket.record_count
                side[ending] = _joined_bucket(side.get(ending, Bucket(0, 0)), bucket)
    differing_endings = {
        state: [e for e in counts_by_state[state] if a.get(e) != b.get(e)] for state, (a, b) in buckets_by_state.items()
    }
    return counts_by_state, differing_endings


def _key_differences(records: Sequence[FoundRecord]) -> Iterator[tuple[bytes, str, str | None, str | None]]:
    """Yield (key, kind of difference, text of A, text of B) for each key whose records differ, in the order of keys."""
    records_by_key: dict[tuple[bytes, int], tuple[list[FoundRecord], list[FoundRecord]]] = defaultdict(lambda: ([], []))
    for record in records:
        records_by_key[record.key_beginning, record.key_digest][record.side].append(record)
    for (key, _), (records_a, records_b) in sorted(records_by_key.items(), key=lambda item: item[0]):
        if Counter(r.digest for r in records_a) == Counter(r.digest for r in records_b):
            continue
        begin = (
            _offset_before_difference(records_a[0].value_beginning, records_b[0].value_beginning)
            if records_a and records_b
            else 0
        )
        kind = (
            ONLY_IN[bool(records_b)]
            if not records_a or not records_b
            else OTHER_VALUE
            if len(records_a) == len(records_b)
            else OTHER_NUMBER
        )
        yield key, kind, _values_text(records_a, begin), _values_text(records_b, begin)


def _offset_before_difference(value_a: bytes, value_b: bytes) -> int:
    """Return the offset from which to show both values, so that their first difference is visible."""
    difference_offset = next(
        (i for i, (byte_a, byte_b) in enumerate(zip(value_a, value_b, strict=False)) if byte_a != byte_b), 0
    )
    return difference_offset - _SHOWN_BYTES_BEFORE if difference_offset >= _SHOWN_BYTES else 0


def _values_text(records: Sequence[FoundRecord], begin: int) -> str | None:
    if not records:
        return None
    size, value = records[0].value_size, records[0].value_beginning[begin : begin + _SHOWN_BYTES]
    count_text = f"{len(records)} records, the first of " if len(records) > 1 else ""
    position_text = f" from byte {begin} on" if begin else ""
    ellipsis = "…" if size > begin + len(value) else ""
    return f"{count_text}{counted(size, 'byte')}{position_text}{f' {format_bytes(value)}{ellipsis}' if value else ''}"
