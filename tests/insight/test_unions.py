"""Union list states that grow."""

from __future__ import annotations

from rescale.flink.metadata.handles import DistributionMode
from rescale.insight.unions import UnionList, union_lists
from support.synthetic import GROUP_SIZE, element_stream, operator


def unions(*elements: int) -> list[UnionList]:
    """Of an operator whose subtasks wrote so many elements, all of one length."""
    streams = tuple(
        element_stream(
            i, {"offsets": (DistributionMode.UNION, number), "words": (DistributionMode.SPLIT_DISTRIBUTE, 3)}
        )
        for i, number in enumerate(elements)
    )
    return union_lists(operator("lists", len(elements), elements=streams), 6)


def test_every_subtask_gets_all_of_it() -> None:
    (one,) = unions(2, 1)
    assert (one.state, one.elements, one.bytes) == ("offsets", 3, 3 * GROUP_SIZE)
    assert one.bytes_at_restore == 6 * 3 * GROUP_SIZE
    assert not one.repeated


def test_as_many_elements_everywhere_as_there_are_subtasks_look_repeated() -> None:
    assert unions(3, 3, 3)[0].repeated
    assert not unions(1, 1, 1)[0].repeated  # one of each subtask's own
    assert not unions(3, 3, 4)[0].repeated
    assert not unions(3)[0].repeated


def test_an_empty_one_is_not_worth_a_word() -> None:
    assert unions(0, 0) == []
