"""Digests records by state. A digest does not depend on where and in which order the records are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rescale.execution.sources.record_sources import RecordSource, SourceReader
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.record_digest import RecordDigester, StateDigest
from rescale.flink.keyed.blocks.records import Records, framed_size
from rescale.flink.keyed.ttl.counting_age_filter import LeftOutCounts
from rescale.snapshot.snapshot_files import SnapshotFiles


class SourceDigests(NamedTuple):
    """Digests of the records of a source, and counts of the old rows left out; both by state name."""

    digests_by_state: dict[str, StateDigest]
    left_out_by_state: dict[str, LeftOutCounts]


def digest_records(
    source: RecordSource, files: SnapshotFiles, key_groups_of: Callable[[Records], Longs]
) -> SourceDigests:
    """Read all records of a source in the snapshot with these `files`; return their digests by state name.

    `key_groups_of` returns the key groups under which the records of a batch are digested. States without records are
    included. Raises `IntegrityError` if the records do not account for all bytes of the source.
    """
    names, is_map = source.states
    digester = RecordDigester(is_map)
    batches = SourceReader(files).batches(source)
    framed_bytes = 0
    for records in batches:
        digester.add(records, key_groups_of(records))
        framed_bytes += framed_size(records, source.max_parallelism)
    batches.check_all_read(framed_bytes)
    return SourceDigests(dict(zip(names, digester.digests(), strict=True)), dict(batches.left_out))


def add_digests(sums: dict[str, StateDigest], digests: Mapping[str, StateDigest]) -> None:
    """Add the digests of further records to a total, by state name."""
    for name, digest in digests.items():
        sums[name] = sums.get(name, StateDigest()).plus(digest)


def sum_digests(parts: Iterable[Mapping[str, StateDigest]]) -> dict[str, StateDigest]:
    """Return the sums of digests of different records, by state name."""
    sums: dict[str, StateDigest] = {}
    for digests in parts:
        add_digests(sums, digests)
    return sums
