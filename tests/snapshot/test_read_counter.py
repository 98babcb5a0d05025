"""Count of the bytes that a unit of work has read, even before the unit ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.execution.tasks.slices import work_through
from rescale.snapshot.locate import Extent
from rescale.snapshot.read_counter import count_read_bytes, counting_read_bytes
from rescale.snapshot.snapshot_files import SnapshotFiles


def test_bytes_count_when_they_are_read_and_add_up_to_the_weight() -> None:
    reported_bytes: list[int] = []
    with counting_read_bytes(100, reported_bytes.append):
        count_read_bytes(30)
        count_read_bytes(20)
        assert reported_bytes == [30, 20]
    assert sum(reported_bytes) == 100


def test_bytes_that_are_read_twice_count_once() -> None:
    reported_bytes: list[int] = []
    with counting_read_bytes(100, reported_bytes.append):
        for _ in range(2):
            count_read_bytes(80)
    assert sum(reported_bytes) == 100


def test_unit_that_fails_counts_no_bytes_that_it_has_not_read() -> None:
    reported_bytes: list[int] = []

    def fail() -> None:
        with counting_read_bytes(100, reported_bytes.append):
            count_read_bytes(30)
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        fail()
    assert reported_bytes == [30]


def test_nothing_is_counted_outside_of_a_unit() -> None:
    reported_bytes: list[int] = []
    with counting_read_bytes(1, reported_bytes.append):
        pass
    count_read_bytes(30)
    assert reported_bytes == [1]


def test_large_file_counts_in_chunks_before_its_unit_ends(tmp_path: Path) -> None:
    """Units run in threads, and each thread counts its own."""
    (tmp_path / "file").write_bytes(bytes(1000))
    files = SnapshotFiles(((str(tmp_path / "file"), None),))
    reported_bytes: list[int] = []

    def read(length: int) -> tuple[int, int]:
        chunks = files.chunks(Extent(0, 0, length), 100)
        next(chunks)
        bytes_so_far = sum(reported_bytes)
        return bytes_so_far, sum(map(len, chunks))

    outcomes = list(work_through(read, [(1000, 1000)], reported_bytes.append))
    assert outcomes == [((100, 900), None)]
    reported_bytes.clear()
    assert len(list(work_through(read, [(400, 400), (300, 300), (200, 200)], reported_bytes.append))) == 3
    assert sum(reported_bytes) == 900
