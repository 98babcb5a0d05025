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
OLD, NEW = 128, 32
KEYS = 40


def laid_out(path: Path, maximum: int, moved: int = 0) -> RecordSource:
    """Write a record of each of two states for every key, in its key group or `moved` key groups further."""
    groups: dict[int, list[Record]] = {}
    for state in (0, 1):
        for key in range(KEYS):
            group = (key_group_of_hash(key, maximum) + moved) % maximum
            groups.setdefault(group, []).append(Record(state, struct.pack(">i", key) + b"\0", b"%d" % (key + state)))
    data, extents = b"head", []
    for group in sorted(groups):
        block = write_group(group, sorted(groups[group]), maximum)
        extents.append((group, Extent(1, len(data), len(block))))
        data += block
    path.write_bytes(data)
    return RecordSource(placed(HEADER, Framing.CANONICAL, dict(extents)), maximum, 3)


def placed(header: KeyedHeader, framing: Framing, extents: Mapping[int, Extent]) -> StreamPlace[KeyedHeader | None]:
    """Return the place of key groups in file 1, by their numbers."""
    first, last = min(extents), max(extents)
    groups = (extents.get(group) for group in range(first, last + 1))
    places = tuple(None if extent is None else (extent.start, extent.length) for extent in groups)
    return StreamPlace(header, 1, framing, compressed=False, first_key_group=first, groups=places)


@pytest.fixture
def comparer(tmp_path: Path) -> RecordComparer:
    """Return a comparer of two sides with one file each, named after the side."""
    return RecordComparer(*(SnapshotFiles((("", None), (str(tmp_path / side), None))) for side in ("source", "result")))


def check(
    record_source: RecordSource, *, in_result: bool, key_hash: str | None = KNOWN_HASH, are_duplicates: bool = False
) -> RecordCheck:
    return RecordCheck(7, "op", in_result, key_hash, NEW, record_source, are_duplicates)


def test_records_of_both_sides_are_counted_by_their_new_key_groups(comparer: RecordComparer, tmp_path: Path) -> None:
    """In the source, the records are in other key groups."""
    before, after = laid_out(tmp_path / "source", OLD), laid_out(tmp_path / "result", NEW)
    old, new = comparer(check(before, in_result=False)), comparer(check(after, in_result=True))
    assert (old.operator_index, old.in_result, old.are_timers, old.are_duplicates) == (7, False, False, False)
    assert (new.operator_index, new.in_result, new.are_timers, new.are_duplicates) == (7, True, False, False)
    assert old.digests_by_state == new.digests_by_state
    assert {name: digest.records for name, digest in new.digests_by_state.items()} == {"a": KEYS, "b": KEYS}
    assert (old.distinct_keys_at_least, new.distinct_keys_at_least) == (KEYS, KEYS)
    for tally, record_source, side in ((old, before, "source"), (new, after, "result")):
        assert isinstance(record_source.place, StreamPlace)
        assert tally.key_group_count == len(record_source.place.extents)
        assert tally.size == (tmp_path / side).stat().st_size - len(b"head")
    assert comparer(check(before, in_result=False, are_duplicates=True)) == old._replace(are_duplicates=True)


def test_keys_are_not_counted_without_a_key_hash(comparer: RecordComparer, tmp_path: Path) -> None:
    """States with unknown names are named by their numbers."""
    record_source = laid_out(tmp_path / "source", OLD)
    known = comparer(check(record_source, in_result=False))
    assert comparer(check(record_source, in_result=False, key_hash=None)) == known._replace(distinct_keys_at_least=0)
    unknown = comparer(check(without_header(record_source), in_result=False, key_hash=None))
    assert unknown.digests_by_state == {f"state {i}": known.digests_by_state[name] for i, name in enumerate("ab")}


def without_header(record_source: RecordSource) -> RecordSource:
    return record_source._replace(place=record_source.place.with_headers(lambda _: None))


def test_key_hash_is_refused_if_the_serializer_is_unknown(comparer: RecordComparer, tmp_path: Path) -> None:
    record_source = without_header(laid_out(tmp_path / "source", OLD))
    with pytest.raises(UnsupportedError, match="an unknown serializer") as caught:
        comparer(check(record_source, in_result=False))
    assert caught.value.operator == "op"


@pytest.mark.parametrize("in_result", [False, True])
def test_misplaced_record_is_named(comparer: RecordComparer, tmp_path: Path, *, in_result: bool) -> None:
    record_source = laid_out(tmp_path / ("result" if in_result else "source"), NEW if in_result else OLD, moved=1)
    with pytest.raises(IntegrityError, match="does not give the key group that contains it") as caught:
        comparer(check(record_source, in_result=in_result))
    assert (caught.value.operator, caught.value.state) == ("op", "a")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_unreadable_records_are_blamed_on_their_side(
    damage: Callable[[Path], None], comparer: RecordComparer, tmp_path: Path
) -> None:
    for side, maximum in (("source", OLD), ("result", NEW)):
        record_source = laid_out(tmp_path / side, maximum)
        damage(tmp_path / side)
        with pytest.raises(IntegrityError if side == "result" else SnapshotError) as caught:
            comparer(check(record_source, in_result=side == "result"))
        assert (caught.value.operator, caught.value.path) == ("op", str(tmp_path / side))
        assert caught.value.what.startswith("the result cannot be read back: ") is (side == "result")
        assert caught.value.advice != ASK_FOR_CANONICAL_RESULT


def test_unreadable_directory_in_result_advises_a_canonical_result(comparer: RecordComparer, tmp_path: Path) -> None:
    files = tuple(DatabaseFile(name, Extent(1, 0, 4)) for name in ("CURRENT", "MANIFEST-000004"))
    record_source = RecordSource(DatabasePlace(HEADER, (0, NEW - 1), files), NEW, 3)
    (tmp_path / "result").write_bytes(b"what")
    with pytest.raises(IntegrityError, match="the result cannot be read back") as caught:
        comparer(check(record_source, in_result=True))
    assert caught.value.advice == ASK_FOR_CANONICAL_RESULT


@pytest.mark.parametrize("side", ["source", "result"])
def test_read_that_does_not_repeat_raises_store_error_naming_its_side(
    side: str, comparer: RecordComparer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_source = laid_out(tmp_path / side, NEW if side == "result" else OLD)
    chunks, first = SnapshotFiles.chunks, [True]

    def once(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
        read = b"".join(chunks(files, extent, *more))
        yield read[:20] if first and first.pop() else read

    monkeypatch.setattr(SnapshotFiles, "chunks", once)
    with pytest.raises(StoreError, match=f"two reads of the {side} differ"):
        comparer(check(record_source, in_result=side == "result"))


def test_skipped_records_are_found(comparer: RecordComparer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that skips the same records on both sides would otherwise go unnoticed."""
    record_source, batches = laid_out(tmp_path / "source", OLD), SourceReader.batches

    class Skipping:
        def __init__(self, record_source: RecordBatches) -> None:
            self._of = record_source

        def __iter__(self) -> Iterator[Records]:
            for records in self._of:
                fields = ("key_starts", "key_ends", "ends", "state_ids", "groups")
                yield replace(records, **{field: getattr(records, field)[1:] for field in fields})

        def check_all_read(self, framed_bytes: int) -> None:
            self._of.check_all_read(framed_bytes)

    def skipping(*arguments: Any) -> RecordBatches:
        return Skipping(batches(*arguments))

    monkeypatch.setattr(SourceReader, "batches", skipping)
    with pytest.raises(IntegrityError, match="do not add up to the bytes of the key groups") as caught:
        comparer(check(record_source, in_result=False))
    assert caught.value.operator == "op"


def timers(path: Path, maximum: int) -> RecordSource:
    """Write one timer of one service for every key."""
    service = TimerService("timers", parsed(INT), parsed(VOID_NAMESPACE))
    blocks, extents, at = [], [], 0
    for group in range(maximum):
        events = [
            Timer(key, struct.pack(">i", key), b"\0") for key in range(KEYS) if key_group_of_hash(key, maximum) == group
        ]
        if events:
            blocks.append(write_block(Service("timers", INT, VOID_NAMESPACE, events)))
            extents.append((group, Extent(1, at, len(blocks[-1]))))
            at += len(blocks[-1])
    path.write_bytes(b"".join(blocks))
    return RecordSource(placed(timer_header((service,)), Framing.RAW, dict(extents)), maximum, 2)


def test_raw_timers_of_both_sides_are_tallied(comparer: RecordComparer, tmp_path: Path) -> None:
    old = comparer(check(timers(tmp_path / "source", OLD), in_result=False))
    new = comparer(check(timers(tmp_path / "result", NEW), in_result=True))
    assert (old.are_timers, new.are_timers) == (True, True)
    assert old.digests_by_state == new.digests_by_state
    assert [digest.records for digest in old.digests_by_state.values()] == [KEYS]
    assert (old.distinct_keys_at_least, old.key_group_count) == (KEYS, 0)
