"""The line that starts a job."""

from __future__ import annotations

import pytest

from rescale.flink.start import common_parallelism, start_of


@pytest.mark.parametrize(
    ("parallelisms", "said"),
    [
        ([2, 2, 6], 2),
        ([2, 6], 6),
        ([4, 2, 4, 2, 8], 4),
        ([1, 1, 3], 3),
        ([8, 8, 1, 1, 1], 8),
        ([1, 1], 1),
        ([5], 5),
        ([], 1),
    ],
)
def test_it_says_the_parallelism_of_most_operators(parallelisms: list[int], said: int) -> None:
    """One that has another has it from the job's code, and the line is for all that have none from there."""
    shapes = [(parallelism, 128) for parallelism in parallelisms]
    start = start_of("/result", shapes, shapes)
    assert start.command == f"flink run -s /result -p {said} <your-job.jar>"


def test_a_result_that_refers_to_files_is_not_claimed() -> None:
    start = start_of("/result", [(2, 128)], [(3, 128)])._replace(refers=True)
    assert start.command == "flink run -s /result -restoreMode no_claim -p 3 <your-job.jar>"


def test_what_always_runs_with_one_subtask_does_not_count() -> None:
    assert common_parallelism([(1, 1), (1, 1), (4, 128)]) == 4
    assert common_parallelism([(1, 1)]) == 1
