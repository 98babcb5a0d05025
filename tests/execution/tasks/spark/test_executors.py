"""The number of executors that a step requests, and their memory overhead."""

from __future__ import annotations

import pytest

from rescale.execution.tasks.spark.executors import Executors, executors_for
from rescale.planning.task_sizes import SLICE_BYTES


@pytest.mark.parametrize(
    ("slices", "allowed", "expected"),
    [
        (0, (4, 2), (1, 1)),
        (0.01, (4, 2), (1, 1)),
        (1, (4, 2), (1, 1)),
        (1.01, (4, 2), (1, 2)),
        (3, (4, 2), (2, 2)),
        (3, (4, 4), (1, 3)),
        (5, (3, 4), (2, 3)),
        (8, (4, 2), (4, 2)),
        (8000, (4, 2), (4, 2)),
        (8000, (1, 1), (1, 1)),
    ],
)
def test_step_gets_one_core_for_each_slice_up_to_the_allowed_executors(
    slices: float, allowed: tuple[int, int], expected: tuple[int, int]
) -> None:
    executors = executors_for(int(slices * SLICE_BYTES), Executors(*allowed))
    assert executors == expected
    assert executors.slots <= Executors(*allowed).slots


def test_memory_overhead_of_an_executor_grows_with_its_cores() -> None:
    assert [Executors(9, cores).overhead_mib for cores in (1, 2, 4)] == [1024, 1664, 2944]
