"""Detection of keys picked by hand; `tests/oracle/test_hand_picked_keys.py` has real jobs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.key_groups import key_group_of_hash, key_group_range, subtask_of_key_group
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keys.virtual_keys import virtual_keys
from rescale.flink.metadata.handles import DistributionMode
from rescale.insight.hand_picked_keys import HandPickedKeys, hand_picked_keys
from rescale.insight.insight import snapshot_insight
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot import snapshot_files
from rescale.snapshot.model import Snapshot
from rescale.storage.store import Pin
from support.canonical import Record, write_group
from support.snapshot_bytes import INT, keyed_header, keyed_state
from support.snapshots import names, opened
from support.synthetic import element_stream, keyed_stream, operator, snapshot

MAX_PARALLELISM = 128
HEADER = keyed_header(keyed_state("sum"), key=INT)


def savepoint(folder: Path, keys: Iterable[int], parallelism: int) -> Snapshot:
    """Return a canonical savepoint of an operator with these int keys and a list state."""
    groups: dict[int, list[int]] = {}
    for key in keys:
        groups.setdefault(key_group_of_hash(key, MAX_PARALLELISM), []).append(key)
    files, streams = [("/nowhere/_metadata", Pin(9))], []
    for subtask in range(parallelism):
        own_groups = key_group_range(MAX_PARALLELISM, parallelism, subtask)
        contents = {
            group: write_group(group, [record(key) for key in groups[group]], MAX_PARALLELISM)
            for group in range(own_groups.first, own_groups.last + 1)
            if group in groups
        }
        path = folder / str(subtask)
        path.write_bytes(HEADER + b"".join(contents.values()))
        files.append((str(path), Pin(path.stat().st_size, mtime_ns=path.stat().st_mtime_ns)))
        sizes = {group: len(content) for group, content in contents.items()}
        stream = keyed_stream(subtask, sizes, Framing.CANONICAL, HEADER, first=own_groups.first, last=own_groups.last)
        streams.append(replace(stream, parsed=read_keyed_header(HEADER, "")))
    pending_stream = element_stream(0, {"pending": (DistributionMode.SPLIT_DISTRIBUTE, 2)})
    dealt = operator("dealt", parallelism, MAX_PARALLELISM, keyed=tuple(streams), elements=(pending_stream,))
    return replace(snapshot(dealt), files=tuple(files))


def record(key: int) -> Record:
    return Record(0, struct.pack(">i", key) + b"\0", bytes(8))


def detected_keys(folder: Path, keys: Sequence[int], parallelism: int, shape: Shape) -> HandPickedKeys | None:
    source = savepoint(folder, keys, parallelism)
    return hand_picked_keys(source, source.operators[0], shape)


def subtask_of_key(key: int, shape: Shape) -> int:
    return subtask_of_key_group(shape.max_parallelism, shape.parallelism, key_group_of_hash(key, shape.max_parallelism))


@pytest.mark.parametrize("shape", [Shape(4, 128), Shape(6, 128), Shape(3, 32), Shape(5, 1000)])
def test_smallest_key_of_each_subtask_is_detected_with_its_new_subtask(tmp_path: Path, shape: Shape) -> None:
    keys = virtual_keys("int", MAX_PARALLELISM, 4)
    picked_keys = detected_keys(tmp_path, keys, 4, shape)
    assert picked_keys is not None
    assert picked_keys.smallest
    assert [picked.key for picked in picked_keys.keys] == [str(key) for key in keys]
    new_subtasks = [subtask_of_key(key, shape) for key in keys]
    assert [picked.new_subtask for picked in picked_keys.keys] == new_subtasks
    assert picked_keys.idle == tuple(i for i in range(shape.parallelism) if i not in new_subtasks)
    assert picked_keys.crowded == tuple(i for i in range(shape.parallelism) if new_subtasks.count(i) > 1)
    assert (picked_keys.key_type, picked_keys.table) == (
        "int",
        virtual_keys("int", shape.max_parallelism, shape.parallelism),
    )
    assert picked_keys.dealt == ("pending",)


def test_one_key_in_each_subtask_is_detected_if_chance_is_unlikely(tmp_path: Path) -> None:
    def one_key_per_subtask(parallelism: int) -> list[int]:
        shape = Shape(parallelism, MAX_PARALLELISM)
        return [
            next(k for k in range(5000, 99999) if subtask_of_key(k, shape) == subtask) for subtask in range(parallelism)
        ]

    keys_of_six_subtasks = detected_keys(tmp_path, one_key_per_subtask(6), 6, Shape(6, MAX_PARALLELISM))
    assert keys_of_six_subtasks is not None
    assert not keys_of_six_subtasks.smallest
    assert keys_of_six_subtasks.chance == pytest.approx(720 / 6**6)
    # Two of nine random draws have one key in each of three subtasks.
    assert detected_keys(tmp_path, one_key_per_subtask(3), 3, Shape(3, MAX_PARALLELISM)) is None
    assert detected_keys(tmp_path, one_key_per_subtask(6)[:5], 6, Shape(6, MAX_PARALLELISM)) is not None
    assert detected_keys(tmp_path, one_key_per_subtask(6)[:3], 6, Shape(6, MAX_PARALLELISM)) is None


def test_second_key_in_a_subtask_means_keys_were_not_picked_by_hand(tmp_path: Path) -> None:
    keys = list(virtual_keys("int", MAX_PARALLELISM, 4))
    group = key_group_of_hash(keys[0], MAX_PARALLELISM)
    key_in_same_group = next(key for key in range(1000, 9999) if key_group_of_hash(key, MAX_PARALLELISM) == group)
    key_in_same_subtask = next(
        key for key in range(1000, 9999) if subtask_of_key(key, Shape(4, 128)) == 0 and key != key_in_same_group
    )
    assert detected_keys(tmp_path, [*keys, key_in_same_group], 4, Shape(4, MAX_PARALLELISM)) is None
    assert detected_keys(tmp_path, [*keys, key_in_same_subtask], 4, Shape(4, MAX_PARALLELISM)) is None


def test_operator_with_many_keys_or_none_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "open_store", None)
    assert detected_keys(tmp_path, range(500), 4, Shape(4, MAX_PARALLELISM)) is None
    assert detected_keys(tmp_path, [], 4, Shape(4, MAX_PARALLELISM)) is None


@pytest.mark.parametrize("name", names())
def test_ordinary_jobs_have_no_keys_picked_by_hand(name: str) -> None:
    assert snapshot_insight(opened(name)).hand_picked_keys == ()
