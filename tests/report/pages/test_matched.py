"""The page of a match: each operator in the list of its kind, and the options that the sure ones need."""

from __future__ import annotations

import pytest

from rescale.planning.matching import Counterpart, Match, Matching, StateSignature, Unmatched
from rescale.report.pages.matched import match_document, matched_text

COUNTS = frozenset({StateSignature("counts", "VALUE Long", b"")})


def operator(label: str, states: frozenset[StateSignature] | None = COUNTS, chain: str = "") -> Counterpart:
    return Counterpart(f"{label:0<32}", label, label, label, states, chain=chain)


A, B, C, D = (operator(label) for label in "abcd")


def text(matching: Matching, *, of_plan: bool = False) -> str:
    return matched_text(match_document("/savepoint", "/job", matching, of_plan=of_plan))


def test_sure_match_says_so_and_proposes_all_options() -> None:
    page = text(Matching((Match(A, A, ""),), (Match(B, C, "states"),), (D,), (), (), (), ()))
    assert "every operator with state has its counterpart, after 1 rename" in page
    assert "b → c, by its states" in page
    assert "--rename b=c \\\n" in page
    assert "--drop d" in page


@pytest.mark.parametrize(
    ("matching", "line"),
    [
        (Matching((), (), (), (Match(A, operator("b", None, "head"), "name"),), (), (), ()), "a: b in the chain that"),
        (Matching((), (), (), (), (Unmatched(A, (B, C)),), (), ()), "a: counts (VALUE Long); may be b or c"),
        (Matching((), (), (), (), (), (A,), ()), "a: counts (VALUE Long)"),
    ],
)
def test_operators_without_a_sure_counterpart_are_counted_and_get_no_option(matching: Matching, line: str) -> None:
    page = text(matching)
    assert "1 operator with state without a certain counterpart" in page
    assert line in page
    assert "Options for a plan" not in page


def test_new_operators_do_not_make_a_match_unsure() -> None:
    page = text(Matching((Match(A, A, ""),), (), (), (), (), (), (B,)))
    assert "every operator with state has its counterpart\n" in page
    assert "In the job only: these start without state" in page


@pytest.mark.parametrize("of_plan", [False, True])
def test_remark_on_names_is_made_for_a_plan_and_a_snapshot_without_any(of_plan: bool) -> None:
    nameless = Counterpart("a" * 32, "", "a" * 32, "", COUNTS)
    for old, expected in ((nameless, of_plan), (A, False)):
        page = text(Matching((Match(old, A, ""),), (), (), (), (), (), ()), of_plan=of_plan)
        assert ("The snapshot holds no names of operators" in page) is expected


def test_states_are_listed_once_by_name_and_type() -> None:
    twice = frozenset({StateSignature("counts", "VALUE Long", b"x"), StateSignature("counts", "VALUE Long", b"y")})
    document = match_document("/a", "/b", Matching((), (), (), (), (), (operator("a", twice),), ()), of_plan=False)
    (alone,) = document.only_in_snapshot
    assert alone.states is not None
    assert [(state.name, state.type) for state in alone.states] == [("counts", "VALUE Long")]
