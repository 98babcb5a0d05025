"""The sample of an operator's keys: right keys, from all over its key groups, and never more than a few MiB read."""

from __future__ import annotations

from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.flink.encoding.snappy import FramedDecompressor, plain_stream
from rescale.flink.keyed.composite_key import key_offsets
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.snapshot import snapshot_files
from rescale.snapshot.key_sample import SAMPLE_BYTES, KeySample, sample_keys
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.store import Pin
from rescale.text.errors import SnapshotError
from support.canonical import Record, read_group, write_group
from support.composite import keyed, timer, timers
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header
from support.snapshots import content, opened
from support.synthetic import CANONICAL_TAG, operator
from support.tables import Reads


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    store_reads = Reads()
    monkeypatch.setattr(snapshot_files, "open_store", store_reads.open)
    return store_reads


def sample(snapshot: Snapshot, source_operator: Operator) -> KeySample:
    return sample_keys(source_operator, snapshot.contents)


def group_key_pairs(sampled: KeySample) -> list[tuple[int, bytes]]:
    bounds = zip(sampled.starts.tolist(), sampled.limits.tolist(), sampled.groups.tolist(), strict=True)
    return [(group, sampled.data[start:limit].tobytes()) for start, limit, group in bounds]


@pytest.mark.parametrize(("size", "value_size"), [(100_000, 1000), (12 << 20, 1000), (3 << 20, 10), (9 << 20, 1 << 17)])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_sample_of_a_large_snapshot_reads_little(
    size: int, value_size: int, parallelism: int, tmp_path: Path, reads: Reads
) -> None:
    write_savepoint(tmp_path / "source", size, value_size=value_size, parallelism=parallelism)
    snapshot = open_snapshot(str(tmp_path / "source"))
    reads.lengths.clear()  # of headers
    sampled = sample(snapshot, snapshot.operators[0])
    assert sum(reads.lengths) <= SAMPLE_BYTES
    assert len(reads.lengths) <= 64
    assert len(sampled.starts) <= 10_000 + 64
    assert set((sampled.limits - sampled.starts).tolist()) <= {9}, "eight bytes of key, one of namespace"
    if value_size < 1 << 16:
        assert len(set(sampled.groups.tolist())) == len(reads.lengths), "from every group that was read"
        assert sampled.groups.max() - sampled.groups.min() > 100


CANONICAL_OPERATORS = [
    (name, operator)
    for name in ("2-clicks", "2-lazy", "2-canonical-compressed", "1.20-windows", "2-sql")
    for operator in opened(name).operators
    if operator.keyed and operator.keyed[0].parsed
]


@pytest.mark.parametrize(
    ("name", "source_operator"),
    CANONICAL_OPERATORS,
    ids=[f"{name} {source_operator.label}" for name, source_operator in CANONICAL_OPERATORS],
)
def test_sampled_keys_are_keys_of_records(name: str, source_operator: Operator) -> None:
    snapshot = opened(name)
    expected = set()
    for stream in source_operator.keyed:
        assert stream.parsed is not None
        offsets = key_offsets(stream.parsed)
        for extent in filter(None, stream.groups):
            data = content(snapshot, extent)
            data = FramedDecompressor().feed(data) if stream.parsed.compressed else data
            expected |= {(g, r.key[offsets[r.state] :]) for g, r in read_group(data, source_operator.max_parallelism)}
    sampled = set(group_key_pairs(sample(snapshot, source_operator)))
    assert sampled
    assert sampled <= expected
    if sum(extent is not None for stream in source_operator.keyed for extent in stream.groups) <= 64:
        assert sampled == expected


VALUE = keyed("value", VOID_NAMESPACE)
TIMERS = timers("_timer_state/event_user-timers", LONG, VOID_NAMESPACE)


def operator_and_files(tmp_path: Path, *streams: tuple[bytes, bytes, bool]) -> tuple[Operator, SnapshotFiles]:
    """Return an operator with a stream for each (states, content, compressed); stream i has only key group 5 + i."""
    files, streams_so_far = [], []
    for i, (states, group, compressed) in enumerate(streams):
        path = tmp_path / f"{i}"
        header = keyed_header(states, key=LONG, compressed=compressed)
        path.write_bytes(header + group)
        extent = Extent(i, len(header), len(group))
        files.append((str(path), Pin(path.stat().st_size, mtime_ns=path.stat().st_mtime_ns)))
        parsed = read_keyed_header(header, str(path))
        whole_extent = Extent(i, 0, extent.start + extent.length)
        streams_so_far.append(
            KeyedStream(i, CANONICAL_TAG, whole_extent, Framing.CANONICAL, 5 + i, (extent,), header, parsed)
        )
    return operator("of mine", len(streams), keyed=tuple(streams_so_far)), SnapshotFiles(tuple(files))


def test_state_ids_are_looked_up_in_the_header_of_each_stream(tmp_path: Path) -> None:
    """A timer in one stream has the id of a value in the other, and one stream has fewer states."""
    key = bytes(range(8)) + b"\0"
    value_record, timer_record = Record(0, key, b"v"), Record(0, timer(7, key, b""), b"")
    source_operator, files = operator_and_files(
        tmp_path,
        (VALUE, write_group(5, [value_record], 128), False),
        (TIMERS, write_group(6, [timer_record], 128), False),
    )
    assert group_key_pairs(sample_keys(source_operator, files)) == [(5, key), (6, key)]


def test_operator_without_keyed_state_gives_an_empty_sample() -> None:
    assert group_key_pairs(sample_keys(operator("of mine", 2), SnapshotFiles(()))) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_broken_framing_is_refused_with_its_file(compressed: bool, tmp_path: Path) -> None:
    group = write_group(5, [Record(0, bytes(9), b""), Record(1, bytes(9), b"")], 128)
    data = plain_stream(group) if compressed else group
    source_operator, files = operator_and_files(tmp_path, (VALUE, data, compressed))
    with pytest.raises(SnapshotError, match="a state id that is not in the header") as caught:
        sample_keys(source_operator, files)
    assert caught.value.path == files.pinned_files[0][0]
    group_extent = source_operator.keyed[0].groups[0]
    assert group_extent is not None
    assert caught.value.offset == (None if compressed else group_extent.start + group.index(b"\0\1\0"))


def test_damaged_compressed_group_is_refused_with_its_file(tmp_path: Path) -> None:
    source_operator, files = operator_and_files(tmp_path, (VALUE, plain_stream(bytes(50))[:-1] + b"\1", True))
    with pytest.raises(SnapshotError, match="checksum") as caught:
        sample_keys(source_operator, files)
    assert caught.value.path == files.pinned_files[0][0]


@pytest.mark.parametrize("name", ["2-changelog-over-heap", "2-changelog-over-rocksdb"])
def test_keys_are_sampled_from_the_base_of_a_changelog(name: str) -> None:
    snapshot = opened(name)
    (source_operator,) = (operator for operator in snapshot.operators if operator.changelogs)
    sampled = group_key_pairs(sample(snapshot, source_operator))
    assert len({key for _, key in sampled}) > 20
    assert all(any(group in changelog.key_groups for changelog in source_operator.changelogs) for group, _ in sampled)
