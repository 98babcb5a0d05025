"""Early write-back to the disk: the content of files stays the same, and where it is not supported it is skipped."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from rescale.storage.files import local_store
from rescale.storage.files.local_store import begin_write_back


def test_write_back_keeps_the_content_of_a_file(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        os.pwrite(file.fileno(), b"abc" * 5000, 0)
        begin_write_back(file.fileno(), 0, 15_000)
    assert (tmp_path / "file").read_bytes() == b"abc" * 5000


def test_write_back_of_a_pipe_is_ignored() -> None:
    read, write = os.pipe()
    try:
        begin_write_back(write, 0, 1)
    finally:
        os.close(read)
        os.close(write)


def test_write_back_is_skipped_without_sync_file_range(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    local_store._sync_file_range.cache_clear()
    assert local_store._sync_file_range() is None
    with (tmp_path / "file").open("wb") as file:
        begin_write_back(file.fileno(), 0, 1)
    local_store._sync_file_range.cache_clear()
