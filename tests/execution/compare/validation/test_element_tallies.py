"""Comparison of element tallies made by hand: as bags for split and union states, as copies for broadcast states."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rescale.execution.compare.validation.compare import Tally
from rescale.execution.compare.validation.validation import _compare_bags, _compare_broadcasts
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.snapshot.model import Operator
from rescale.text.errors import IntegrityError
from support.synthetic import element_stream, operator

SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST
MODULUS = 1 << 128


def tally(
    in_result: bool,
    digest: int,
    *,
    item_count: int = 1,
    subtask: int = 0,
    state: str = "a",
    mode: DistributionMode = SPLIT,
) -> Tally:
    return Tally(0, Slot.OPERATOR, in_result, subtask, state, mode, item_count, 10, digest)


def compare_bags(*tallies: Tally) -> None:
    _compare_bags(operator("op"), tallies)


@pytest.mark.parametrize("mode", [SPLIT, UNION])
def test_elements_may_lie_in_other_subtasks(mode: DistributionMode) -> None:
    compare_bags(
        tally(False, 5, item_count=2, mode=mode),
        tally(False, MODULUS - 1, subtask=1, mode=mode),
        tally(True, 3, subtask=2, item_count=1, mode=mode),
        tally(True, 1, subtask=0, item_count=2, mode=mode),
    )


@pytest.mark.parametrize("mode", [SPLIT, UNION])
@pytest.mark.parametrize(
    "result",
    [
        [],
        [tally(True, 5)],
        [tally(True, 12)],
        [tally(True, 13, item_count=2)],
        [tally(True, 12, item_count=2), tally(True, 12, item_count=2)],
        [tally(True, 12, item_count=2, state="b")],
        [tally(True, 12, item_count=2), tally(True, 0, item_count=1)],
        [tally(True, 12, item_count=2), tally(True, 1, item_count=0)],
    ],
)
def test_lost_doubled_and_changed_elements_are_found(result: Sequence[Tally], mode: DistributionMode) -> None:
    source = [tally(False, 5), tally(False, 7, subtask=1)]
    with pytest.raises(IntegrityError, match="lost, doubled or changed") as caught:
        compare_bags(*(tally._replace(mode=mode) for tally in (*source, *result)))
    assert caught.value.state == "a"
    assert str(caught.value.expected).startswith("2 elements")


def test_state_that_only_the_result_has_is_found() -> None:
    with pytest.raises(IntegrityError, match="lost, doubled or changed") as caught:
        compare_bags(tally(False, 5), tally(True, 5), tally(True, 9, state="z"))
    assert caught.value.state == "z"


def test_broadcast_copies_are_not_summed_up() -> None:
    compare_bags(
        tally(False, 5, mode=BROADCAST), tally(True, 5, mode=BROADCAST), tally(True, 5, subtask=1, mode=BROADCAST)
    )


def operator_with_copies(parallelism: int, *subtasks: int) -> Operator:
    states = {"a": (BROADCAST, 1)}
    return operator("op", parallelism, elements=tuple(element_stream(i, states) for i in subtasks))


def compare_copies(source: dict[int, int], result: dict[int, int], *, compared: Operator, parallelism: int) -> None:
    tallies = [tally(False, digest, subtask=i, mode=BROADCAST) for i, digest in source.items()]
    tallies += [tally(True, digest, subtask=i, mode=BROADCAST) for i, digest in result.items()]
    _compare_broadcasts(compared, operator("op", parallelism), Slot.OPERATOR, tallies)


def test_broadcast_state_must_have_a_copy_in_every_subtask() -> None:
    """The copies in the source may differ; each copy in the result is one of them."""
    compared = operator_with_copies(2, 0, 1)
    compare_copies({0: 5, 1: 6}, {0: 5, 1: 6, 2: 5}, compared=compared, parallelism=3)
    compare_copies({0: 5, 1: 6}, {0: 6}, compared=compared, parallelism=1)
    for parallelism, result in ((3, {0: 5, 1: 6}), (3, {}), (1, {0: 5, 1: 6}), (3, {0: 5, 1: 6, 3: 5})):
        with pytest.raises(IntegrityError, match="missing in a subtask") as caught:
            compare_copies({0: 5, 1: 6}, result, compared=compared, parallelism=parallelism)
        assert caught.value.state == "a"


def test_broadcast_copies_at_same_parallelism_must_stay_in_their_subtasks() -> None:
    compare_copies({1: 5}, {1: 5}, compared=operator_with_copies(2, 1), parallelism=2)
    for result in ({0: 5}, {0: 5, 1: 5}, {}):
        with pytest.raises(IntegrityError, match="missing in a subtask"):
            compare_copies({1: 5}, result, compared=operator_with_copies(2, 1), parallelism=2)
    compare_copies({1: 5}, {0: 5, 1: 5, 2: 5}, compared=operator_with_copies(2, 1), parallelism=3)


def test_broadcast_copy_that_is_not_in_the_source_is_found() -> None:
    with pytest.raises(IntegrityError, match="differs from all copies in the source") as caught:
        compare_copies({0: 5, 1: 6}, {0: 5, 1: 6, 2: 7}, compared=operator_with_copies(2, 0, 1), parallelism=3)
    assert (caught.value.state, caught.value.found) == ("a", "another copy in subtask 2")


def test_broadcast_states_are_compared_by_slot() -> None:
    """Tallies of split and union states are ignored."""
    compared = operator("op", 1, raw_elements=(element_stream(0, {"a": (BROADCAST, 1)}),))
    _compare_broadcasts(compared, operator("op", 2), Slot.OPERATOR, [])
    with pytest.raises(IntegrityError, match="missing in a subtask"):
        _compare_broadcasts(compared, operator("op", 2), Slot.RAW_OPERATOR, [])
    equal_copies = [tally(side, 5, subtask=i, mode=BROADCAST) for side in (False, True) for i in range(2)]
    bag = tally(True, 99, subtask=1)
    _compare_broadcasts(operator_with_copies(2, 0, 1), operator("op", 2), Slot.OPERATOR, [*equal_copies, bag])
