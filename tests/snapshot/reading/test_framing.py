"""Streams of tags 3 and 12, which heap backends and old RocksDB backends share: their key groups tell them apart."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from rescale.flink.encoding.snappy import plain_stream
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import HandleTag
from rescale.snapshot.reading.opening import open_snapshot
from support import written
from support.canonical import Record, write_group
from support.snapshot_bytes import keyed_header, keyed_state

STATE_COUNT = 3
HEADER = keyed_header(*(keyed_state(f"state {i}") for i in range(STATE_COUNT)))


def framing_of(folder: Path, groups: dict[int, list[Record]], max_parallelism: int) -> Framing:
    directory = written.write_savepoint(folder, HEADER, groups, 1, max_parallelism, HandleTag.KEY_GROUPS)
    ((stream,),) = (operator.keyed for operator in open_snapshot(directory).operators)
    return stream.framing


def heap_group_writer(entry_count: int, state_order: tuple[int, ...]) -> Callable[..., bytes]:
    """Blocks as a heap backend writes them, whatever the records."""

    def write(key_group: int, _: Any, __: int) -> bytes:
        entry = b"\0" + b"\2k" + bytes(8)
        return struct.pack(">i", key_group) + b"".join(
            struct.pack(">hi", state, entry_count) + entry * entry_count for state in state_order
        )

    return write


def records(first_state: int, key_size: int = 2) -> list[Record]:
    return [Record(state, b"\2" + b"k" * (key_size - 1) + b"\0", bytes(8)) for state in range(first_state, STATE_COUNT)]


@pytest.mark.parametrize("max_parallelism", [1, 2, 128, 200])
@pytest.mark.parametrize("first_state", [0, 1])
@pytest.mark.parametrize("key_size", [2, 250, 1 << 16, 1 << 17])
def test_canonical_stream_is_recognised(max_parallelism: int, first_state: int, key_size: int, tmp_path: Path) -> None:
    """A key group whose first key has 64 KiB or more may begin with its own number, as a heap key group does."""
    groups = {group: records(first_state, key_size) for group in range(max_parallelism)[-2:]}
    groups |= {group: records(2) for group in range(max_parallelism)[:-2]}
    assert framing_of(tmp_path / "source", groups, max_parallelism) is Framing.CANONICAL


@pytest.mark.parametrize("max_parallelism", [1, 2, 128, 200])
@pytest.mark.parametrize("entry_count", [0, 1, 2, 300])
@pytest.mark.parametrize("state_order", list(permutations(range(STATE_COUNT))))
def test_heap_stream_is_recognised(
    max_parallelism: int,
    entry_count: int,
    state_order: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(written, "write_group", heap_group_writer(entry_count, state_order))
    assert (
        framing_of(tmp_path / "source", {group: [] for group in range(max_parallelism)}, max_parallelism)
        is Framing.HEAP
    )


def test_compressed_heap_stream_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(key_group: int, _: Any, __: int) -> bytes:
        blocks = [plain_stream(struct.pack(">hi", state, 0)) for state in range(STATE_COUNT)]
        return struct.pack(">i", key_group) + b"".join(blocks)

    monkeypatch.setattr(written, "write_group", write)
    assert framing_of(tmp_path / "source", {0: []}, 1) is Framing.HEAP


def test_framing_of_a_large_group_is_recognised_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescale.snapshot.reading.framing._MOST_WALKED_BYTES", 40)
    assert len(write_group(0, records(0), 1)) > 40
    assert framing_of(tmp_path / "canonical", {0: records(0)}, 1) is Framing.CANONICAL
    monkeypatch.setattr(written, "write_group", heap_group_writer(9, (1, 0, 2)))
    assert framing_of(tmp_path / "heap", {0: []}, 1) is Framing.HEAP


def test_large_heap_group_that_begins_like_a_record_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is that of a `windowAll`: its timer looks like a record, and its list of texts like a huge record."""
    window, key = bytes(16), b"\0"
    timer = bytes.fromhex("8000018b00000000") + key + window
    texts = window + key + struct.pack(">i", 200_000) + b"\6hello" * 200_000

    def write(key_group: int, _: Any, __: int) -> bytes:
        timers, contents = struct.pack(">hi", 1, 1) + timer, struct.pack(">hi", 0, 1) + texts
        return struct.pack(">i", key_group) + timers + contents + struct.pack(">hi", 2, 0)

    monkeypatch.setattr(written, "write_group", write)
    assert framing_of(tmp_path / "source", {0: []}, 1) is Framing.HEAP
