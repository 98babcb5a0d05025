"""What a plan says of a request, where the result is not quite what one might think."""

from __future__ import annotations

import pytest

from support.pipeline import plan_rescale
from support.snapshots import directory

HEAP = "timer-service.factory: HEAP"


def said(name: str, **wanted: str) -> str:
    return "\n".join(plan_rescale(directory(name), "/nowhere/target", ["3"], **wanted).warnings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "wanted", "is_said"),
    [
        ("2-windows", "rocksdb", True),
        ("2-windows", "keep", False),
        ("2-windows", "canonical", False),
        ("2-rocksdb-native", "rocksdb", False),
        ("2-rocksdb-heap-timers", "rocksdb", False),
        ("1.15.4-full-heap-timers", "rocksdb", False),
    ],
)
def test_who_finds_timers_of_canonical_state_in_rocksdb(name: str, wanted: str, is_said: bool) -> None:
    """Raw keyed ones, and those of a database, are where the job keeps them."""
    assert (HEAP in said(name, format=wanted)) is is_said
