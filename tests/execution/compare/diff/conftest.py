"""Finished results of committed snapshots."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from support.finished import rescaled
from support.planting import Result


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    return cache(lambda name: rescaled(name, tmp_path_factory.mktemp("finished"), "4"))
