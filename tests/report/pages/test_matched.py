"""The page of a match: each operator in the list of its kind, and the options for the certain matches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rescale.planning.match_document import MatchDocument
from rescale.planning.matching import Counterpart, StateSignature, match
from rescale.report.pages.matched import matched_page
from rescale.report.renderers.text import render_text

COUNTS, SUMS = (frozenset({StateSignature(name, "VALUE Long", b"")}) for name in ("counts", "sums"))


def operator(label: str, states: frozenset[StateSignature] | None = COUNTS, chain: str = "") -> Counterpart:
    """Return an operator whose name is its label; its id is generated."""
    return Counterpart(
        f"{label:0<32}", "", label, label, states, is_stateful=states is None or bool(states), chain=chain
    )


def document(old: Sequence[Counterpart], new: Sequence[Counterpart], *, is_of_plan: bool = False) -> MatchDocument:
    return match("/savepoint", "/job", old, new, is_of_plan=is_of_plan)


def test_sure_match_says_so_and_proposes_all_options() -> None:
    same_operator, stateless_operator = operator("a"), operator("d", frozenset())
    renamed_operator = Counterpart(stateless_operator.operator_id, "", "c", "c", SUMS)
    page = render_text(
        matched_page(
            document([same_operator, operator("b", SUMS), stateless_operator], [same_operator, renamed_operator])
        )
    )
    assert "every operator with state has its counterpart, after 1 rename" in page
    assert "b → c, by its states" in page
    assert f"--rename {operator('b').operator_id}={stateless_operator.operator_id} \\\n" in page
    assert f"--drop {stateless_operator.operator_id}" in page


@pytest.mark.parametrize(
    ("new", "line"),
    [
        ([Counterpart("", "", "a", "a", None, chain="head")], "a: a in the chain that begins with head, by its name"),
        ([operator("b"), operator("c")], "a: counts (VALUE Long); may be b or c"),
        ([], "a: counts (VALUE Long)"),
    ],
)
def test_operators_without_a_sure_counterpart_are_counted_and_get_no_option(new: list[Counterpart], line: str) -> None:
    page = render_text(matched_page(document([operator("a")], new)))
    assert "1 operator with state without a certain counterpart" in page
    assert line in page
    assert "Options for a plan" not in page


def test_new_operators_do_not_make_a_match_unsure() -> None:
    page = render_text(matched_page(document([operator("a")], [operator("a"), operator("b", SUMS)])))
    assert "every operator with state has its counterpart\n" in page
    assert "In the job only: these start without state" in page


@pytest.mark.parametrize("is_of_plan", [False, True])
def test_remark_on_names_is_made_for_a_plan_and_a_snapshot_without_any(is_of_plan: bool) -> None:
    nameless_operator = Counterpart("a" * 32, "", "a" * 32, "", COUNTS)
    for old, expected in ((nameless_operator, is_of_plan), (operator("a"), False)):
        page = render_text(matched_page(document([old], [old], is_of_plan=is_of_plan)))
        assert ("The snapshot holds no names of operators" in page) is expected


def test_states_are_listed_once_by_name_and_type() -> None:
    equally_named_states = frozenset(
        {StateSignature("counts", "VALUE Long", b"x"), StateSignature("counts", "VALUE Long", b"y")}
    )
    (unmatched_operator,) = document([operator("a", equally_named_states)], []).only_in_snapshot
    assert unmatched_operator.states is not None
    assert [(state.name, state.type) for state in unmatched_operator.states] == [("counts", "VALUE Long")]
