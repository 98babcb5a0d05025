"""Flows between subtasks equal those counted key group by key group."""

from __future__ import annotations

import pytest

from rescale.flink.key_groups import key_group_range, subtask_of_key_group
from rescale.report.flows import KeyedShape, flow_matrix, flows, groups_stay_together, subtask_loads

SHAPES = [
    (KeyedShape(4, 128), KeyedShape(6, 128)),
    (KeyedShape(6, 128), KeyedShape(4, 128)),
    (KeyedShape(3, 10), KeyedShape(3, 10)),
    (KeyedShape(6, 128), KeyedShape(5, 64)),
    (KeyedShape(5, 12), KeyedShape(3, 4)),
    (KeyedShape(1, 2), KeyedShape(1, 2)),
]


def sizes_of(shape: KeyedShape) -> list[int]:
    return [1 + (7 * group) % 11 for group in range(shape.max_parallelism)]


def counted_matrix(old: KeyedShape, new: KeyedShape) -> list[list[float]]:
    """Return the bytes from each old subtask to each new one, key group by key group."""
    matrix = [[0.0] * new.parallelism for _ in range(old.parallelism)]
    for group, size in enumerate(sizes_of(old)):
        subtask = subtask_of_key_group(old.max_parallelism, old.parallelism, group)
        new_group = group % new.max_parallelism
        matrix[subtask][subtask_of_key_group(new.max_parallelism, new.parallelism, new_group)] += size
    return matrix


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_flow_matrix_has_the_bytes_from_each_old_to_each_new_subtask(old: KeyedShape, new: KeyedShape) -> None:
    matrix = flow_matrix(sizes_of(old), old, new, 64)
    for flows_found, expected in zip(matrix, counted_matrix(old, new), strict=True):
        assert list(flows_found) == pytest.approx(expected)


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_neighbouring_subtasks_share_a_line_if_there_are_many(old: KeyedShape, new: KeyedShape) -> None:
    matrix = flow_matrix(sizes_of(old), old, new, 2)
    assert matrix.shape == (min(2, old.parallelism), min(2, new.parallelism))
    assert matrix.sum() == pytest.approx(sum(sizes_of(old)))


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_flows_cover_every_key_group_with_its_old_and_new_subtask(old: KeyedShape, new: KeyedShape) -> None:
    found_flows = list(flows(old, new))
    group_moves = [
        (group, flow.new_first_group + group - flow.first_group, flow.subtask, flow.new_subtask)
        for flow in found_flows
        for group in range(flow.first_group, flow.last_group + 1)
    ]
    assert [move[0] for move in group_moves] == list(range(old.max_parallelism))
    for group, new_group, subtask, new_subtask in group_moves:
        assert new_group == group % new.max_parallelism
        assert (subtask, new_subtask) == (old.owner(group), new.owner(new_group))


def test_rehashed_key_groups_have_no_flows() -> None:
    old, new = KeyedShape(4, 128), KeyedShape(6, 1000)
    assert not groups_stay_together(old, new)
    assert list(flows(old, new)) == []


def test_loads_are_the_bytes_of_each_subtask() -> None:
    sizes = sizes_of(KeyedShape(3, 10))
    ranges = [key_group_range(10, 3, subtask) for subtask in range(3)]
    assert subtask_loads(sizes, 3) == [sum(sizes[group_range.first : group_range.last + 1]) for group_range in ranges]
