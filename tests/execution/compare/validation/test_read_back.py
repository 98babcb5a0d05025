"""Errors of the source are passed on; errors of the result say that the result is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rescale.execution.compare.validation.read_back import read_side, unreadable_result_error
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError, StoreError, UnsupportedError


def failing_reader(*errors: RescaleError) -> Callable[[], int]:
    """Return a reader that raises these errors in turn, and then reads 5."""
    remaining = list(errors)

    def read() -> int:
        if remaining:
            raise remaining.pop(0)
        return 5

    return read


def damage_error() -> SnapshotError:
    return SnapshotError("the data ends too early", path="/f", offset=7, state="count", expected=4, found=3)


def test_fault_of_the_source_names_the_operator() -> None:
    with pytest.raises(SnapshotError) as caught:
        read_side(failing_reader(damage_error(), damage_error()), "counts", in_result=False, advice="unused")
    assert (caught.value.operator, caught.value.advice) == ("counts", None)


def test_fault_of_the_result_is_a_wrong_result_at_the_same_place() -> None:
    with pytest.raises(IntegrityError) as caught:
        read_side(failing_reader(damage_error(), damage_error()), "counts", in_result=True, advice="plan again")
    error = caught.value
    assert error.what == "the result cannot be read back: the data ends too early"
    assert (error.path, error.offset, error.operator, error.state) == ("/f", 7, "counts", "count")
    assert (error.expected, error.found, error.advice) == ("4", "3", "plan again")


@pytest.mark.parametrize("in_result", [False, True])
def test_other_errors_keep_their_kind(*, in_result: bool) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_side(failing_reader(*[UnsupportedError("no")] * 2), "counts", in_result=in_result)
    assert caught.value.operator == "counts"


@pytest.mark.parametrize(("in_result", "side"), [(False, "source"), (True, "result")])
def test_error_that_does_not_repeat_is_a_store_error_of_its_side(*, in_result: bool, side: str) -> None:
    error = IntegrityError("a record differs") if in_result else damage_error()
    with pytest.raises(StoreError, match=f"two reads of the {side} differ"):
        read_side(failing_reader(error), "counts", in_result=in_result)


def test_sound_side_is_read_once() -> None:
    assert read_side(failing_reader(), "counts", in_result=True) == 5


def test_error_keeps_the_operator_that_it_names() -> None:
    assert unreadable_result_error(damage_error().located(operator="sums")).operator == "sums"
