"""Units of work are grouped into slices, one for each task."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.tasks.slices import SLICE_UNITS, slices_of
from rescale.planning.task_sizes import MOST_SLICES, SLICE_BYTES, UNIT_SIZE
from support.slow import slow


@given(st.lists(st.integers(0, 2 * SLICE_BYTES), min_size=1), st.integers(1, 20))
def test_slice_has_limited_bytes_and_units_or_a_single_unit(weights: list[int], parallelism: int) -> None:
    """A task fetches at most one slice or one large database at a time, even if its units run in parallel."""
    slices = slices_of(list(zip(weights, range(len(weights)), strict=True)), parallelism)
    assert [unit for task_slice in slices for _, unit in task_slice] == list(range(len(weights)))
    assert all(len(task_slice) == 1 or sum(weight for weight, _ in task_slice) <= SLICE_BYTES for task_slice in slices)
    assert all(len(task_slice) <= SLICE_UNITS for task_slice in slices)


@pytest.mark.parametrize("cores", [slow(8), 8000])
def test_number_of_slices_of_a_hundred_terabytes_is_limited(cores: int) -> None:
    for unit_size in (UNIT_SIZE, 3 << 30):
        units = [(unit_size, i) for i in range(10**14 // unit_size)]
        assert min(cores, len(units)) <= len(slices_of(units, cores)) <= 2 * MOST_SLICES
