"""Flink's RocksDB libraries, one process each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from oracle.distribution import LINES
from support.flinks_rocksdb import FlinksRocksdb


@pytest.fixture(scope="package")
def libraries() -> Iterator[dict[str, FlinksRocksdb]]:
    """By release line of Flink."""
    with ExitStack() as stack:
        found = {line: FlinksRocksdb(version) for line, version in LINES.items()}
        for library in found.values():
            stack.callback(library.close)
        yield found
