"""Spill files: each partition gets its own rows, and a file that is not written completely does not stay."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.tasks.spill_file import rows_in, spill
from rescale.text.errors import SnapshotError, StoreError

PARTITIONS = 4

Rows = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spilled")


@given(rows=st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.binary(max_size=40))))
def test_every_partition_of_a_spill_file_has_its_rows_in_order(rows: Rows, shared_folder: Path) -> None:
    file = spill(iter(rows), PARTITIONS, str(shared_folder))
    partitions = [list(rows_in(file, partition)) for partition in range(PARTITIONS)]
    assert partitions == [
        [row for row_partition, row in rows if row_partition == partition] for partition in range(PARTITIONS)
    ]
    assert (file.size, file.row_count) == (sum(len(row) for _, row in rows), len(rows))


def test_spill_file_holds_rows_of_megabytes(tmp_path: Path) -> None:
    rows = [(1, os.urandom(3_000_001)), (0, b"x"), (1, os.urandom(70_000))]
    file = spill(rows, 2, str(tmp_path))
    assert list(rows_in(file, 1)) == [rows[0][1], rows[2][1]]


def test_description_of_a_spill_file_with_many_rows_is_short(tmp_path: Path) -> None:
    file = spill(((i % 100, b"row") for i in range(10_000)), 100, str(tmp_path))
    assert len(repr(file)) < 300
    assert len(list(rows_in(file, 99))) == 100


def test_spill_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def rows() -> Iterator[tuple[int, bytes]]:
        yield 0, b"row"
        raise SnapshotError("damaged")

    with pytest.raises(SnapshotError, match="damaged"):
        spill(rows(), 1, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row_count", [3, 1000], ids=["before they are flushed", "as they are written"])
def test_spill_onto_a_full_disk_is_a_store_error(row_count: int, tmp_path: Path) -> None:
    with limited_file_size(1000), pytest.raises(StoreError, match="the scratch directory cannot be used") as caught:
        spill(((0, bytes(1000)) for _ in range(row_count)), 1, str(tmp_path))
    assert caught.value.path == str(tmp_path)
    assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Limit the files that this process writes in the block to `size` bytes each."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft_limit, hard_limit))


def test_spill_into_a_missing_folder_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the scratch directory cannot be used"):
        spill([], 1, str(tmp_path / "absent"))


@pytest.mark.parametrize("size", [None, 5])
def test_missing_or_truncated_spill_file_is_a_store_error(size: int | None, tmp_path: Path) -> None:
    file = spill([(0, b"a row of bytes")], 1, str(tmp_path))
    if size is None:
        Path(file.path).unlink()
    else:
        os.truncate(file.path, size)
    with pytest.raises(StoreError, match="rows are gone") as caught:
        list(rows_in(file, 0))
    assert caught.value.path == file.path
