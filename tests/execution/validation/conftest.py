"""Finished results of committed snapshots."""

from __future__ import annotations

from functools import cache

import pytest

from support.finished import PARALLELISM, ResultOf, rescaled


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ResultOf:
    return cache(lambda name: rescaled(name, tmp_path_factory.mktemp("finished"), PARALLELISM.get(name, "4")))
