"""Command line that starts a job."""

from __future__ import annotations

import pytest

from rescale.flink.start import common_parallelism, start_of


@pytest.mark.parametrize(
    ("parallelisms", "command_parallelism"),
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
def test_start_command_has_the_parallelism_of_most_operators(parallelisms: list[int], command_parallelism: int) -> None:
    """The command line sets the parallelism of most operators, and the job's code those of the others."""
    shapes = [(parallelism, 128) for parallelism in parallelisms]
    start = start_of("/result", shapes, shapes)
    assert start.command == f"flink run -s /result -p {command_parallelism} <your-job.jar>"


def test_start_command_does_not_claim_a_result_that_refers_to_other_files() -> None:
    start = start_of("/result", [(2, 128)], [(3, 128)])._replace(refers=True)
    assert start.command == "flink run -s /result -restoreMode no_claim -p 3 <your-job.jar>"


def test_operators_of_parallelism_1_count_only_if_all_operators_have_it() -> None:
    assert common_parallelism([(1, 1), (1, 1), (4, 128)]) == 4
    assert common_parallelism([(1, 1)]) == 1
