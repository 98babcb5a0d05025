"""Flink's RocksDB libraries, one process each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from oracle.distribution import LINES
from rescale.rocksdb.engine import child
from support.flinks_rocksdb import FlinksRocksdb


@pytest.fixture(scope="package")
def libraries() -> Iterator[dict[str, FlinksRocksdb]]:
    with ExitStack() as stack:
        by_line = {line: FlinksRocksdb(version) for line, version in LINES.items()}
        for library in by_line.values():
            stack.callback(library.close)
        yield by_line


@pytest.fixture
def new_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[child.Child]]:
    """Yield the list of idle child processes. It is empty, so new ones are forked, with all that the test patches."""
    idle: list[child.Child] = []
    monkeypatch.setattr(child, "_idle_children", idle)
    yield idle
    for child_process in idle:
        child_process.close()
