"""Tests in this folder wait for the disk as real runs do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.disk_waits import real_waits


@pytest.fixture(autouse=True)
def waits_for_the_disk() -> Iterator[None]:
    """Turn fsync on, which is off in other tests."""
    with real_waits():
        yield
