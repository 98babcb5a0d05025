"""Reports of reads that fail once, twice with one error, or with two different errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rescale.storage.rereads import changed_sides, read_again_on_failure
from rescale.text.errors import IntegrityError, RequestError, RescaleError, SnapshotError, StoreError

DAMAGE_ERROR = SnapshotError(
    "a block is damaged", path="/source/1", offset=7, expected="checksum 1", found="checksum 2"
)
DIFFERENCE_ERROR = IntegrityError("records differ", path="/target/1")
BUSY_ERROR = StoreError("the store is busy")


def work_with_results(*results: RescaleError | int) -> tuple[Callable[[], int], list[int]]:
    """Return work with these results or errors, in turn, and a list of its calls."""
    calls: list[int] = []
    turns: Iterator[RescaleError | int] = iter(results)

    def work() -> int:
        calls.append(len(calls))
        result = next(turns)
        if isinstance(result, RescaleError):
            raise result
        return result

    return work, calls


def test_reads_that_succeed_are_not_repeated() -> None:
    work, calls = work_with_results(3)
    assert read_again_on_failure(work) == 3
    assert len(calls) == 1


def test_transient_error_of_the_first_read_is_raised_at_once() -> None:
    work, calls = work_with_results(BUSY_ERROR)
    with pytest.raises(StoreError, match="the store is busy"):
        read_again_on_failure(work)
    assert len(calls) == 1


@pytest.mark.parametrize("error", [DAMAGE_ERROR, DIFFERENCE_ERROR])
def test_an_error_of_both_reads_is_raised(error: RescaleError) -> None:
    work, calls = work_with_results(error, error)
    with pytest.raises(type(error)) as caught:
        read_again_on_failure(work)
    assert caught.value is error
    assert len(calls) == 2


@pytest.mark.parametrize("second_result", [1, DIFFERENCE_ERROR])
@pytest.mark.parametrize(
    ("first_error", "side", "named_side"),
    [(DAMAGE_ERROR, None, "source"), (IntegrityError("sums differ"), None, "result"), (DAMAGE_ERROR, "plan", "plan")],
)
def test_two_reads_that_differ_are_a_store_error(
    first_error: RescaleError, side: str | None, named_side: str, second_result: RescaleError | int
) -> None:
    work, _ = work_with_results(first_error, second_result)
    with pytest.raises(StoreError, match=f"two reads of the {named_side} differ") as caught:
        read_again_on_failure(work, side)
    assert not caught.value.is_final
    assert (caught.value.path, caught.value.offset, caught.value.expected) == (
        first_error.path,
        first_error.offset,
        first_error.expected,
    )
    assert caught.value.found == f"in the first read: {first_error.what}; in the second read, something else"


def test_transient_error_of_the_second_read_is_raised() -> None:
    work, _ = work_with_results(DAMAGE_ERROR, BUSY_ERROR)
    with pytest.raises(StoreError, match="the store is busy"):
        read_again_on_failure(work)


def test_refusals_of_different_files_for_one_reason_count_as_the_same_error() -> None:
    work, _ = work_with_results(
        RequestError("access denied", path="/1", found="403"), RequestError("access denied", found="403")
    )
    with pytest.raises(RequestError, match="access denied") as caught:
        read_again_on_failure(work)
    assert caught.value.path == "/1"


def test_sides_that_changed_are_named() -> None:
    assert changed_sides((1, 2), (1, 2)) == []
    assert changed_sides((1, 2), (1, 3)) == ["result"]
    assert changed_sides((1, 2), (4, 3)) == ["source", "result"]
