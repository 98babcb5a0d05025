"""Writes of large local files: in small calls, and written back early where that is supported."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
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


def test_large_files_are_written_in_small_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(write: Callable[..., int]) -> Callable[..., int]:
        def counted(descriptor: int, data: memoryview, *offset: int) -> int:
            sizes.append(len(data))
            return write(descriptor, data[: max(1, len(data) - 1)], *offset)  # a call may write less

        return counted

    monkeypatch.setattr("os.write", counting(os.write))
    monkeypatch.setattr("os.pwrite", counting(os.pwrite))
    store, data = local_store.LocalStore(), os.urandom(3 << 20)
    store.put(str(tmp_path / "whole"), data)
    upload_id = store.begin_parts(str(tmp_path / "parts"), str(tmp_path / "staging"))
    for i in range(2):
        store.put_part(str(tmp_path / "parts"), upload_id, i + 1, i * len(data), data)
    store.complete_parts(str(tmp_path / "parts"), upload_id, ["", ""], 2 * len(data))
    assert (tmp_path / "whole").read_bytes() == data
    assert (tmp_path / "parts").read_bytes() == 2 * data
    assert max(sizes) == 1 << 20
