"""Finished results of committed snapshots, and snapshots that are written file by file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from support.finished import PARALLELISM, ResultOf, rescaled
from support.small_directories import WrittenSnapshot


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ResultOf:
    return cache(lambda name: rescaled(name, tmp_path_factory.mktemp("finished"), PARALLELISM.get(name, "4")))


@pytest.fixture
def source(tmp_path: Path) -> WrittenSnapshot:
    return WrittenSnapshot(tmp_path / "source")


@pytest.fixture
def result(tmp_path: Path) -> WrittenSnapshot:
    return WrittenSnapshot(tmp_path / "result")
