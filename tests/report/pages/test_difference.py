"""Text of a comparison."""

from __future__ import annotations

from rescale.execution.compare.diff.differences import amount, diffed_state
from rescale.report.differences import DiffDocument, DiffedOperator, DiffedState, ListedDifference, ListedShape
from rescale.report.pages.difference import difference_page
from rescale.report.renderers.text import render_text
from rescale.snapshot.surgery import NO_SURGERY

SHAPE_A, SHAPE_B = ListedShape(2, 128), ListedShape(3, 1000)


def comparison_text(*operators: DiffedOperator) -> str:
    is_equal = all(operator.equal for operator in operators)
    return render_text(
        difference_page(DiffDocument("equal" if is_equal else "different", is_equal, "/a", "/b", operators, NO_SURGERY))
    )


def operator(*states: DiffedState, differences: tuple[ListedDifference, ...] = ()) -> DiffedOperator:
    is_equal = not differences and all(state.equal for state in states)
    return DiffedOperator("0" * 32, "orders", is_equal, SHAPE_A, SHAPE_B, differences, states)


EQUAL_STATE = diffed_state("total", "VALUE Long", "records", amount(1234, 255 << 120), amount(1234, 255 << 120))


def test_equal_snapshots_are_reported_as_equal() -> None:
    lines = comparison_text(operator(EQUAL_STATE)).splitlines()
    assert lines[:3] == ["A: /a", "B: /b", "equal: 1 state compared"]
    assert lines[-1].split() == [
        "orders",
        "total",
        "VALUE",
        "Long",
        "records",
        *["1,234"] * 2,
        *["ff0000000000"] * 2,
        "equal",
    ]


def test_differences_are_listed_below_the_table_by_state() -> None:
    listed_differences = (
        ListedDifference("only in A", {"key": '"x"', "user_key": "7"}, "8 bytes 0x00", None),
        ListedDifference("other number", {"element": "5"}, "1 time", "2 times"),
    )
    unequal_state = diffed_state(
        "last", "MAP", "records", amount(3, 1), amount(2, 2), listed_differences, 12, "for a reason"
    )
    page = comparison_text(operator(EQUAL_STATE, unequal_state))
    assert "\ndifferent: 1 of 2 states\n" in page
    assert page.endswith(
        "\n\norders, last\n"
        '  only in A: key "x", user key 7: A: 8 bytes 0x00\n'
        "  other number: element 5: A: 1 time; B: 2 times\n"
        "  and at least 10 other differences\n"
        "  for a reason"
    )


def test_operator_on_one_side_only_is_listed_without_its_states() -> None:
    operator_difference = ListedDifference("only in A", {"operator": "orders"}, "5 bytes of state", None)
    page = comparison_text(
        operator(diffed_state("last", "VALUE", "records", amount(3, 1), amount()), differences=(operator_difference,))
    )
    assert "\ndifferent: 1 of 1 state, and 1 operator\n" in page
    assert page.endswith("\n\norders\n  only in A: operator orders: A: 5 bytes of state")


def test_state_that_was_not_searched_says_so() -> None:
    unequal_state = diffed_state("last", "VALUE", "records", amount(3, 1), amount())
    assert comparison_text(operator(unequal_state)).endswith(
        "orders, last\n  the differing entries were not searched for"
    )
