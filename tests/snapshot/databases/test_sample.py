"""The sample of keys in RocksDB directories: right keys, from all over them, and never more than a few MiB read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.composite_key import key_offsets
from rescale.snapshot import snapshot_files
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.key_sample import SAMPLE_BYTES, KeySample, sample_keys
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import SnapshotError
from support import snapshots
from support.composite import keyed, timer, timers
from support.databases import canonical_rows, with_canonical
from support.rocksdb_writer import MERGE, written
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header
from support.tables import Reads, snapshot_of

ALL_KEY_GROUPS = KeyGroupRange(0, 127)


def group_key_pairs(sampled: KeySample) -> set[tuple[int, bytes]]:
    bounds = zip(sampled.starts.tolist(), sampled.limits.tolist(), sampled.groups.tolist(), strict=True)
    return {(group, sampled.data[start:limit].tobytes()) for start, limit, group in bounds}


def database_operator(snapshot: Snapshot) -> Operator:
    (operator,) = (operator for operator in snapshot.operators if operator.databases)
    return operator


@pytest.mark.parametrize("name", [name for name in with_canonical() if "to" in name.partition("rocksdb-")[2][:3]])
def test_sampled_keys_are_keys_of_records(name: str) -> None:
    snapshot = with_tables(snapshots.opened(name))
    operator = database_operator(snapshot)
    header = operator.databases[0].parsed
    assert header is not None
    offsets = {state.name: offset for state, offset in zip(header.states, key_offsets(header).tolist(), strict=True)}
    expected = {(group, key[offsets[state] :]) for state, group, key in canonical_rows(name)}
    sampled = group_key_pairs(sample_keys(operator, snapshot.contents))
    assert sampled >= expected, "so few keys are all sampled, and deleted ones with them"
    assert {group for group, _ in sampled} == {group for group, _ in expected}


@pytest.mark.parametrize(
    ("file_count", "rows_per_file", "value_size"),
    [(1, 60_000, 100), (1, 300, 40_000), (100, 300, 10), (20, 20, 40_000)],
)
def test_sample_of_a_large_database_reads_little(
    file_count: int, rows_per_file: int, value_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads()
    options = f"{MERGE};compression=kNoCompression;write_buffer_size=1G;block_based_table_factory={{format_version=5}}"
    with written(tmp_path / "db", ["value"], options) as writer:
        for file in range(file_count):
            for i in range(rows_per_file):
                group = i * 128 // rows_per_file
                key = bytes([group]) + (file * rows_per_file + i).to_bytes(8, "big") + b"\0"
                writer.put("value", key, bytes(value_size))
            writer.flush()
        files = writer.checkpoint(tmp_path / "checkpoint")
    snapshot = snapshot_of(files, keyed_header(keyed("value", VOID_NAMESPACE), key=LONG), ALL_KEY_GROUPS)
    monkeypatch.setattr(snapshot_files, "open_store", reads.open)
    sampled = sample_keys(database_operator(snapshot), snapshot.contents)
    assert sum(reads.lengths) <= SAMPLE_BYTES
    assert 8 <= len(sampled.starts) <= 10_000 + 64 * 8
    assert set((sampled.limits - sampled.starts).tolist()) == {9}, "eight bytes of key, one of namespace"
    assert sampled.groups.max() - sampled.groups.min() > 100


def test_sampled_key_of_a_timer_leaves_out_the_time_before_the_key(tmp_path: Path) -> None:
    """A deleted row is sampled like any other."""
    key, timer_state = bytes(range(8)) + b"\0", "_timer_state/event_user-timers"
    with written(
        tmp_path / "db", ["value", timer_state], f"{MERGE};block_based_table_factory={{format_version=5}}"
    ) as writer:
        writer.put("value", b"\5" + key, b"v")
        writer.put(timer_state, b"\6" + timer(7, key, b""), b"")
        writer.delete("value", b"\7" + key)
        files = writer.checkpoint(tmp_path / "checkpoint")
    header = keyed_header(keyed("value", VOID_NAMESPACE), timers(timer_state, LONG, VOID_NAMESPACE), key=LONG)
    snapshot = snapshot_of(files, header, ALL_KEY_GROUPS)
    assert group_key_pairs(sample_keys(database_operator(snapshot), snapshot.contents)) == {
        (5, key),
        (6, key),
        (7, key),
    }


def test_unsupported_files_are_left_out_and_damaged_ones_refused(tmp_path: Path) -> None:
    header = keyed_header(keyed("value", VOID_NAMESPACE), key=LONG)
    with written(tmp_path / "db", ["value"], f"{MERGE};block_based_table_factory={{format_version=6}}") as writer:
        writer.put("value", b"\5" + bytes(9), b"v")
        files = writer.checkpoint(tmp_path / "checkpoint")
    snapshot = snapshot_of(files, header, ALL_KEY_GROUPS)
    assert group_key_pairs(sample_keys(database_operator(snapshot), snapshot.contents)) == set()
    (table,) = tmp_path.glob("checkpoint/*.sst")
    table.write_bytes(bytes(table.stat().st_size))
    snapshot = snapshot_of(files, header, ALL_KEY_GROUPS)
    with pytest.raises(SnapshotError, match="not an SST file") as caught:
        sample_keys(database_operator(snapshot), snapshot.contents)
    assert caught.value.path == str(table)
