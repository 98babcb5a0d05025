"""Tests of what is forced to disk, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.disk_waits import real_waits


@pytest.fixture(autouse=True)
def waits_for_the_disk() -> Iterator[None]:
    """The real ones."""
    with real_waits():
        yield
