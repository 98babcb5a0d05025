"""Figures of key groups before and after: where bytes stay and go, and when moves are drawn as a matrix."""

from __future__ import annotations

import pytest

from rescale.insight.shapes import HotKeyGroup
from rescale.report.detail import DETAIL_LEVELS
from rescale.report.figures import KeyGroupMap, Matrix
from rescale.report.flows import KeyedShape
from rescale.report.sections.key_group_moves import key_group_map, moves_matrix, needs_matrix
from rescale.report.sections.keyed_operator import KeyedOperator, KeyedSide

MOST_DETAIL = DETAIL_LEVELS[0]
TWO_SUBTASKS, FOUR_SUBTASKS = KeyedShape(2, 4), KeyedShape(4, 4)
SIZES = (10, 20, 30, 40)


def side(name: str, shape: KeyedShape, *, is_exact: bool = True) -> KeyedSide:
    return KeyedSide(name, shape, (SIZES * shape.max_parallelism)[: shape.max_parallelism], is_exact)


def operator(old: KeyedShape, new: KeyedShape | None, hot_groups: tuple[HotKeyGroup, ...] = ()) -> KeyedOperator:
    return KeyedOperator("counts", side("before", old), None if new is None else side("after", new), hot_groups)


def map_of(keyed_operator: KeyedOperator, most_ribbons: int = 100) -> KeyGroupMap:
    figure = key_group_map(keyed_operator, MOST_DETAIL._replace(most_ribbons=most_ribbons)).drawing
    assert isinstance(figure, KeyGroupMap)
    return figure


def test_each_move_is_a_ribbon_between_the_shares_of_its_subtasks() -> None:
    figure = map_of(operator(TWO_SUBTASKS, FOUR_SUBTASKS))
    moves = [(ribbon.tooltip, ribbon.keeps_subtask) for ribbon in figure.ribbons]
    assert moves == [
        ("subtask 0 to 0: 1 key group, 10 bytes", True),
        ("subtask 0 to 1: 1 key group, 20 bytes", False),
        ("subtask 1 to 2: 1 key group, 30 bytes", False),
        ("subtask 1 to 3: 1 key group, 40 bytes", False),
    ]
    assert [share.label for share in figure.before.owners] == ["0", "1"]


def test_caption_counts_the_bytes_that_change_their_subtask() -> None:
    assert (
        "90 bytes of 100 bytes go to another subtask"
        in key_group_map(operator(TWO_SUBTASKS, FOUR_SUBTASKS), MOST_DETAIL).caption
    )
    assert (
        "Every key group stays with its subtask"
        in key_group_map(operator(TWO_SUBTASKS, TWO_SUBTASKS), MOST_DETAIL).caption
    )
    rehashed_figure = key_group_map(operator(TWO_SUBTASKS, KeyedShape(2, 6)), MOST_DETAIL)
    assert "Every key is hashed again" in rehashed_figure.caption
    assert map_of(operator(TWO_SUBTASKS, KeyedShape(2, 6))).ribbons == ()


def test_too_many_ribbons_are_left_out() -> None:
    assert map_of(operator(TWO_SUBTASKS, FOUR_SUBTASKS), most_ribbons=3).ribbons == ()
    assert len(map_of(operator(TWO_SUBTASKS, FOUR_SUBTASKS), most_ribbons=4).ribbons) == 4


@pytest.mark.parametrize(
    ("old", "new", "most_ribbons", "is_needed"),
    [
        (TWO_SUBTASKS, FOUR_SUBTASKS, 4, False),
        (TWO_SUBTASKS, FOUR_SUBTASKS, 3, True),
        (KeyedShape(2, 128), KeyedShape(128, 128), 1000, True),
        (KeyedShape(2, 128), KeyedShape(3, 100), 0, False),
    ],
)
def test_matrix_is_for_moves_that_ribbons_cannot_show(
    old: KeyedShape, new: KeyedShape, most_ribbons: int, *, is_needed: bool
) -> None:
    assert (
        needs_matrix(side("before", old), side("after", new), MOST_DETAIL._replace(most_ribbons=most_ribbons))
        is is_needed
    )


def test_matrix_lists_the_largest_moves_first() -> None:
    figure = moves_matrix(side("before", TWO_SUBTASKS), side("after", FOUR_SUBTASKS), MOST_DETAIL._replace(most_rows=2))
    assert isinstance(figure.drawing, Matrix)
    assert [len(row) for row in figure.drawing.shades] == [4, 4]
    assert figure.numbers.rows == (("1", "3", "40 bytes"), ("1", "2", "30 bytes"))


def test_darkest_cell_is_the_largest_move_and_small_ones_are_visible() -> None:
    side_with_one_giant = KeyedSide("before", TWO_SUBTASKS, (1, 0, 0, 10**6), is_exact=True)
    figure = moves_matrix(side_with_one_giant, side("after", FOUR_SUBTASKS), MOST_DETAIL)
    assert isinstance(figure.drawing, Matrix)
    assert figure.drawing.shades[1][3] == 255
    assert 0 < figure.drawing.shades[0][0] < 20
    assert figure.drawing.shades[0][1] == 0


def test_hot_key_groups_are_marked_where_they_keep_their_numbers() -> None:
    hot_groups = (HotKeyGroup(3, SIZES[3], 0.4),)
    aligned_map, rehashed_map = (
        map_of(operator(TWO_SUBTASKS, FOUR_SUBTASKS, hot_groups)),
        map_of(operator(TWO_SUBTASKS, KeyedShape(2, 8), hot_groups)),
    )
    assert [mark.at for mark in aligned_map.before.hot] == [3.5 / 4]
    assert aligned_map.after is not None
    assert aligned_map.after.hot == aligned_map.before.hot
    assert rehashed_map.after is not None
    assert rehashed_map.after.hot == ()


def test_estimated_bytes_are_said_to_be_expected() -> None:
    estimated_operator = KeyedOperator(
        "counts", side("before", TWO_SUBTASKS), side("after", FOUR_SUBTASKS, is_exact=False), ()
    )
    assert "key groups, 4 in all, bytes expected" in key_group_map(estimated_operator, MOST_DETAIL).caption
