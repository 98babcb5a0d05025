"""How many executors a step asks for."""

from __future__ import annotations

import pytest

from rescale.execution.tasks.spark.executors import Executors, executors_for
from rescale.planning.task_sizes import SLICE_BYTES


@pytest.mark.parametrize(
    ("slices", "most", "expected"),
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
def test_as_many_cores_as_there_are_slices_within_what_is_allowed(
    slices: float, most: tuple[int, int], expected: tuple[int, int]
) -> None:
    executors = executors_for(int(slices * SLICE_BYTES), Executors(*most))
    assert executors == expected
    assert executors.slots <= Executors(*most).slots


def test_every_core_has_memory_for_its_python_worker() -> None:
    assert [Executors(9, cores).overhead_mib for cores in (1, 2, 4)] == [1024, 1664, 2944]
