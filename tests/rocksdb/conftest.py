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
    """By release line of Flink."""
    with ExitStack() as stack:
        found = {line: FlinksRocksdb(version) for line, version in LINES.items()}
        for library in found.values():
            stack.callback(library.close)
        yield found


@pytest.fixture
def new_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[child.Child]]:
    """Those that are idle. RocksDB's processes have what was changed in this one before they are forked."""
    idle: list[child.Child] = []
    monkeypatch.setattr(child, "_idle", idle)
    yield idle
    for one in idle:
        one.close()
