"""Tallies of the records of one side: what was read, which side a misplaced record is in, and where."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.compare.validation.record_compare import RecordCheck, RecordComparer
from rescale.execution.sources.record_sources import RecordBatches, RecordSource, SourceReader
from rescale.flink.advice import ASK_FOR_CANONICAL_RESULT
from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService, timer_header
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.snapshot.keyed_state import DatabaseFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.places import DatabasePlace, StreamPlace
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import IntegrityError, SnapshotError, StoreError, UnsupportedError
from support.canonical import Record, write_group
from support.heap_timers import Service, Timer, write_block
from support.snapshot_bytes import INT, VOID_NAMESPACE, keyed_header, keyed_state, parsed

HEADER = read_keyed_header(keyed_header(*map(keyed_state, ("a", "b", "none")), key=INT), "")
OLD_MAX_PARALLELISM, NEW_MAX_PARALLELISM = 128, 32
KEY_COUNT = 40


def write_records(path: Path, max_parallelism: int, group_shift: int = 0) -> RecordSource:
    """Write a record of each of two states for every key, in its key group or `group_shift` key groups further."""
    groups: dict[int, list[Record]] = {}
    for state in (0, 1):
        for key in range(KEY_COUNT):
            group = (key_group_of_hash(key, max_parallelism) + group_shift) % max_parallelism
            groups.setdefault(group, []).append(Record(state, struct.pack(">i", key) + b"\0", b"%d" % (key + state)))
    data, extents = b"head", []
    for group in sorted(groups):
        block = write_group(group, sorted(groups[group]), max_parallelism)
        extents.append((group, Extent(1, len(data), len(block))))
        data += block
    path.write_bytes(data)
    return RecordSource(stream_place(HEADER, Framing.CANONICAL, dict(extents)), max_parallelism, 3)


def stream_place(
    header: KeyedHeader, framing: Framing, extents: Mapping[int, Extent]
) -> StreamPlace[KeyedHeader | None]:
    """Return the place of key groups in file 1, by their numbers."""
    first, last = min(extents), max(extents)
    groups = (extents.get(group) for group in range(first, last + 1))
    places = tuple(None if extent is None else (extent.start, extent.length) for extent in groups)
    return StreamPlace(header, 1, framing, compressed=False, first_key_group=first, groups=places)


@pytest.fixture
def comparer(tmp_path: Path) -> RecordComparer:
    """Return a comparer of two sides with one file each, named after the side."""
    return RecordComparer(*(SnapshotFiles((("", None), (str(tmp_path / side), None))) for side in ("source", "result")))


def record_check(
    record_source: RecordSource, *, in_result: bool, key_hash: str | None = KNOWN_HASH, are_duplicates: bool = False
) -> RecordCheck:
    return RecordCheck(7, "op", in_result, key_hash, NEW_MAX_PARALLELISM, record_source, are_duplicates)


def test_records_of_both_sides_are_counted_by_their_new_key_groups(comparer: RecordComparer, tmp_path: Path) -> None:
    """In the source, the records are in other key groups."""
    old_source, new_source = (
        write_records(tmp_path / "source", OLD_MAX_PARALLELISM),
        write_records(tmp_path / "result", NEW_MAX_PARALLELISM),
    )
    old_tally, new_tally = (
        comparer(record_check(old_source, in_result=False)),
        comparer(record_check(new_source, in_result=True)),
    )
    assert (old_tally.operator_index, old_tally.in_result, old_tally.are_timers, old_tally.are_duplicates) == (
        7,
        False,
        False,
        False,
    )
    assert (new_tally.operator_index, new_tally.in_result, new_tally.are_timers, new_tally.are_duplicates) == (
        7,
        True,
        False,
        False,
    )
    assert old_tally.digests_by_state == new_tally.digests_by_state
    assert {name: digest.records for name, digest in new_tally.digests_by_state.items()} == {
        "a": KEY_COUNT,
        "b": KEY_COUNT,
    }
    assert (old_tally.distinct_keys_at_least, new_tally.distinct_keys_at_least) == (KEY_COUNT, KEY_COUNT)
    for tally, record_source, side in ((old_tally, old_source, "source"), (new_tally, new_source, "result")):
        assert isinstance(record_source.place, StreamPlace)
        assert tally.key_group_count == len(record_source.place.extents)
        assert tally.size == (tmp_path / side).stat().st_size - len(b"head")
    assert comparer(record_check(old_source, in_result=False, are_duplicates=True)) == old_tally._replace(
        are_duplicates=True
    )


def test_keys_are_not_counted_without_a_key_hash(comparer: RecordComparer, tmp_path: Path) -> None:
    """States with unknown names are named by their numbers."""
    record_source = write_records(tmp_path / "source", OLD_MAX_PARALLELISM)
    tally_with_names = comparer(record_check(record_source, in_result=False))
    assert comparer(record_check(record_source, in_result=False, key_hash=None)) == tally_with_names._replace(
        distinct_keys_at_least=0
    )
    tally_without_names = comparer(record_check(without_header(record_source), in_result=False, key_hash=None))
    assert tally_without_names.digests_by_state == {
        f"state {i}": tally_with_names.digests_by_state[name] for i, name in enumerate("ab")
    }


def without_header(record_source: RecordSource) -> RecordSource:
    return record_source._replace(place=record_source.place.with_headers(lambda _: None))


def test_key_hash_is_refused_if_the_serializer_is_unknown(comparer: RecordComparer, tmp_path: Path) -> None:
    record_source = without_header(write_records(tmp_path / "source", OLD_MAX_PARALLELISM))
    with pytest.raises(UnsupportedError, match="an unknown serializer") as caught:
        comparer(record_check(record_source, in_result=False))
    assert caught.value.operator == "op"


@pytest.mark.parametrize("in_result", [False, True])
def test_misplaced_record_is_named(comparer: RecordComparer, tmp_path: Path, *, in_result: bool) -> None:
    record_source = write_records(
        tmp_path / ("result" if in_result else "source"),
        NEW_MAX_PARALLELISM if in_result else OLD_MAX_PARALLELISM,
        group_shift=1,
    )
    with pytest.raises(IntegrityError, match="does not give the key group that contains it") as caught:
        comparer(record_check(record_source, in_result=in_result))
    assert (caught.value.operator, caught.value.state) == ("op", "a")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_unreadable_records_are_blamed_on_their_side(
    damage: Callable[[Path], None], comparer: RecordComparer, tmp_path: Path
) -> None:
    for side, max_parallelism in (("source", OLD_MAX_PARALLELISM), ("result", NEW_MAX_PARALLELISM)):
        record_source = write_records(tmp_path / side, max_parallelism)
        damage(tmp_path / side)
        with pytest.raises(IntegrityError if side == "result" else SnapshotError) as caught:
            comparer(record_check(record_source, in_result=side == "result"))
        assert (caught.value.operator, caught.value.path) == ("op", str(tmp_path / side))
        assert caught.value.what.startswith("the result cannot be read back: ") is (side == "result")
        assert caught.value.advice != ASK_FOR_CANONICAL_RESULT


def test_unreadable_directory_in_result_advises_a_canonical_result(comparer: RecordComparer, tmp_path: Path) -> None:
    files = tuple(DatabaseFile(name, Extent(1, 0, 4)) for name in ("CURRENT", "MANIFEST-000004"))
    record_source = RecordSource(DatabasePlace(HEADER, (0, NEW_MAX_PARALLELISM - 1), files), NEW_MAX_PARALLELISM, 3)
    (tmp_path / "result").write_bytes(b"what")
    with pytest.raises(IntegrityError, match="the result cannot be read back") as caught:
        comparer(record_check(record_source, in_result=True))
    assert caught.value.advice == ASK_FOR_CANONICAL_RESULT


@pytest.mark.parametrize("side", ["source", "result"])
def test_read_that_does_not_repeat_raises_store_error_naming_its_side(
    side: str, comparer: RecordComparer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_source = write_records(tmp_path / side, NEW_MAX_PARALLELISM if side == "result" else OLD_MAX_PARALLELISM)
    chunks, first_reads = SnapshotFiles.chunks, [True]

    def cut_first_read(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
        data = b"".join(chunks(files, extent, *more))
        yield data[:20] if first_reads and first_reads.pop() else data

    monkeypatch.setattr(SnapshotFiles, "chunks", cut_first_read)
    with pytest.raises(StoreError, match=f"two reads of the {side} differ"):
        comparer(record_check(record_source, in_result=side == "result"))


def test_skipped_records_are_found(comparer: RecordComparer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that skips the same records on both sides would otherwise go unnoticed."""
    record_source, batches = write_records(tmp_path / "source", OLD_MAX_PARALLELISM), SourceReader.batches

    class SkippingBatches:
        def __init__(self, record_source: RecordBatches) -> None:
            self._batches = record_source

        def __iter__(self) -> Iterator[Records]:
            for records in self._batches:
                fields = ("key_starts", "key_ends", "ends", "state_ids", "groups")
                yield replace(records, **{field: getattr(records, field)[1:] for field in fields})

        def check_all_read(self, framed_bytes: int) -> None:
            self._batches.check_all_read(framed_bytes)

    def skipping_batches(*arguments: Any) -> RecordBatches:
        return SkippingBatches(batches(*arguments))

    monkeypatch.setattr(SourceReader, "batches", skipping_batches)
    with pytest.raises(IntegrityError, match="do not add up to the bytes of the key groups") as caught:
        comparer(record_check(record_source, in_result=False))
    assert caught.value.operator == "op"


def write_timers(path: Path, max_parallelism: int) -> RecordSource:
    """Write one timer of one service for every key."""
    service = TimerService("timers", parsed(INT), parsed(VOID_NAMESPACE))
    blocks, extents, position = [], [], 0
    for group in range(max_parallelism):
        events = [
            Timer(key, struct.pack(">i", key), b"\0")
            for key in range(KEY_COUNT)
            if key_group_of_hash(key, max_parallelism) == group
        ]
        if events:
            blocks.append(write_block(Service("timers", INT, VOID_NAMESPACE, events)))
            extents.append((group, Extent(1, position, len(blocks[-1]))))
            position += len(blocks[-1])
    path.write_bytes(b"".join(blocks))
    return RecordSource(stream_place(timer_header((service,)), Framing.RAW, dict(extents)), max_parallelism, 2)


def test_raw_timers_of_both_sides_are_tallied(comparer: RecordComparer, tmp_path: Path) -> None:
    old_tally = comparer(record_check(write_timers(tmp_path / "source", OLD_MAX_PARALLELISM), in_result=False))
    new_tally = comparer(record_check(write_timers(tmp_path / "result", NEW_MAX_PARALLELISM), in_result=True))
    assert (old_tally.are_timers, new_tally.are_timers) == (True, True)
    assert old_tally.digests_by_state == new_tally.digests_by_state
    assert [digest.records for digest in old_tally.digests_by_state.values()] == [KEY_COUNT]
    assert (old_tally.distinct_keys_at_least, old_tally.key_group_count) == (KEY_COUNT, 0)
