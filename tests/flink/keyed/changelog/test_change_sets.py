"""Changes as they lie in files and in `_metadata`, whatever chunks they come in."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from rescale.flink.encoding.snappy import compressed
from rescale.flink.keyed.changelog.change_sets import read_change_set, read_in_memory_changes
from rescale.text.errors import SnapshotError

CHANGES_BY_GROUP = {-1: [b"meta"], 3: [b"a", b""], 5: [b"bcd" * 50]}
CHANGES = [(key_group, change) for key_group, changes in CHANGES_BY_GROUP.items() for change in changes]


def change_set(groups: dict[int, list[bytes]]) -> bytes:
    """Return a change set as `StateChangeFormat` writes it."""
    out = [struct.pack(">i", len(groups))]
    for key_group, changes in groups.items():
        out.append(struct.pack(">ii", len(changes), key_group))
        out += (struct.pack(">i", len(change)) + change for change in changes)
    return b"".join(out)


def chunks_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


@pytest.mark.parametrize("chunk_size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_change_set_is_read_from_its_offset(chunk_size: int, is_compressed: bool) -> None:
    other, own = change_set({9: [b"x" * 30]}), change_set(CHANGES_BY_GROUP)
    content = other + own + other
    data = b"\1" + b"".join(compressed([content])) if is_compressed else b"\0" + content
    assert list(read_change_set(chunks_of(data, chunk_size), len(other))) == CHANGES
    assert list(read_change_set(chunks_of(data, chunk_size), 0)) == [(9, b"x" * 30)]


def test_reading_stops_at_the_end_of_the_change_set() -> None:
    data = b"\0" + change_set(CHANGES_BY_GROUP)

    def chunks() -> Iterator[bytes]:
        yield data
        raise AssertionError("read on")

    assert list(read_change_set(chunks(), 0)) == CHANGES


@pytest.mark.parametrize("chunk_size", [1, 10_000])
def test_list_of_changes_is_read(chunk_size: int) -> None:
    data = b"".join(struct.pack(">ii", key_group, len(change)) + change for key_group, change in CHANGES)
    assert list(read_in_memory_changes(chunks_of(data, chunk_size))) == CHANGES
    assert list(read_in_memory_changes([])) == []


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not a changelog file"),
        (b"\2" + change_set(CHANGES_BY_GROUP), "not a changelog file"),
        (b"\0" + change_set(CHANGES_BY_GROUP)[:-1], "ends inside a change"),
        (b"\0" + struct.pack(">i", -1), "a negative number of key groups"),
        (b"\0" + struct.pack(">iiii", 1, 1, 0, -5), "a negative number of bytes of a change"),
    ],
)
def test_damaged_change_set_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        list(read_change_set([data], 0))


def test_change_set_beyond_the_end_of_the_stream_is_refused() -> None:
    with pytest.raises(SnapshotError, match="ends inside a change"):
        list(read_change_set([b"\0abc"], 10))
