"""The new parallelism of every operator."""

from __future__ import annotations

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.request.operator_shapes import Shape, good_max_parallelism, new_shapes
from rescale.planning.request.request import Request
from rescale.text.errors import RequestError
from support.synthetic import header_of, keyed_stream, operator

COUNTS, SINK, SINGLE = operator("counts"), operator("sink", parallelism=3), operator("all", 1, 1)
OPERATORS = (COUNTS, SINK, SINGLE)


def new_parallelisms(**parallelism: int) -> list[int]:
    """Return the new parallelism of the three operators; `for_all` is the one for all of them."""
    numbers = {"" if name == "for_all" else name: n for name, n in parallelism.items()}
    shapes = new_shapes(OPERATORS, Request("/s", "/t", numbers))
    assert [shapes[operator.operator_id].max_parallelism for operator in OPERATORS] == [128, 128, 1]
    return [shapes[operator.operator_id].parallelism for operator in OPERATORS]


def test_empty_request_keeps_the_parallelism_of_all_operators() -> None:
    assert new_parallelisms() == [2, 3, 1]


def test_parallelism_for_all_leaves_out_operators_with_max_parallelism_1() -> None:
    assert new_parallelisms(for_all=5) == [5, 5, 1]


def test_parallelism_of_a_named_operator_overrides_the_one_for_all() -> None:
    assert new_parallelisms(for_all=5, sink=128) == [5, 128, 1]
    assert new_parallelisms(sink=1) == [2, 1, 1]


def test_operator_is_named_by_uid_id_or_label() -> None:
    labelled = operator("hidden", label="what people call it")
    for name in ("hidden", operator_id_of_uid("hidden"), operator_id_of_uid("hidden").upper(), "what people call it"):
        request = Request("/s", "/t", {name: 7})
        assert new_shapes((labelled,), request) == {labelled.operator_id: Shape(7, 128)}


def test_operator_with_max_parallelism_1_gets_no_second_subtask() -> None:
    assert new_parallelisms(all=1) == [2, 3, 1]
    with pytest.raises(RequestError, match="above the operator's max parallelism") as caught:
        new_parallelisms(all=2)
    assert caught.value.operator == "all"
    assert "out of the request" in str(caught.value)


def test_parallelism_above_the_max_parallelism_is_refused() -> None:
    with pytest.raises(RequestError, match="above the operator's max parallelism") as caught:
        new_parallelisms(for_all=129)
    assert (caught.value.operator, caught.value.expected, caught.value.found) == ("counts", "at most 128", "129")


def test_unknown_operator_is_refused_with_a_list_of_known_ones() -> None:
    with pytest.raises(RequestError, match="no operator 'cuonts'") as caught:
        new_parallelisms(cuonts=2)
    assert "all, counts, sink" in str(caught.value.expected)


def requested_shapes(parallelism: dict[str, int], **max_parallelism: int) -> list[tuple[int, int]]:
    """Return the new shapes of the three operators; `for_all` is the max parallelism of all of them."""
    numbers = {"" if name == "for_all" else name: n for name, n in max_parallelism.items()}
    shapes = new_shapes(OPERATORS, Request("/s", "/t", parallelism, max_parallelism=numbers))
    return [tuple(shapes[operator.operator_id]) for operator in OPERATORS]


def test_new_max_parallelism_is_for_all_operators_but_those_with_1() -> None:
    assert requested_shapes({}, for_all=1000) == [(2, 1000), (3, 1000), (1, 1)]
    assert requested_shapes({"": 200}, for_all=1000) == [(200, 1000), (200, 1000), (1, 1)]
    assert requested_shapes({}, sink=64) == [(2, 128), (3, 64), (1, 1)]


def test_max_parallelism_1_changes_only_where_the_operator_is_named() -> None:
    assert requested_shapes({}, all=1) == [(2, 128), (3, 128), (1, 1)]
    assert requested_shapes({"all": 4}, all=128) == [(2, 128), (3, 128), (4, 128)]


def test_refusal_of_subtasks_above_max_parallelism_1_advises_another_one() -> None:
    with pytest.raises(RequestError) as caught:
        requested_shapes({"all": 4})
    assert (caught.value.operator, caught.value.expected, caught.value.found) == ("all", "at most 1", "4")
    assert "--max-parallelism all=" in str(caught.value.advice)


def test_refusal_of_a_parallelism_advises_a_good_max_parallelism() -> None:
    with pytest.raises(RequestError, match="above the operator's max parallelism") as caught:
        new_parallelisms(for_all=200)
    assert "--max-parallelism 1800 " in str(caught.value.advice)


@pytest.mark.parametrize(
    ("keyed_maxima", "parallelism", "advised"),
    [((1000,), 200, 1000), ((1000, 1), 200, 1000), ((1000, 500), 200, 1800), ((150,), 200, 1800), ((), 200, 1800)],
)
def test_refusal_advises_the_max_parallelism_of_keyed_state_where_that_is_enough(
    keyed_maxima: tuple[int, ...], parallelism: int, advised: int
) -> None:
    """Jobs that set a max parallelism often set it for their keyed operators only."""
    keyed = [
        operator(
            f"keyed {maximum}",
            1,
            maximum,
            keyed=(keyed_stream(0, {0: 1}, Framing.CANONICAL, header_of("sum"), first=0, last=maximum - 1),),
        )
        for maximum in keyed_maxima
    ]
    with pytest.raises(RequestError, match="above the operator's max parallelism") as caught:
        new_shapes((COUNTS, *keyed), Request("/s", "/t", {"": parallelism}))
    assert caught.value.operator == "counts"
    assert caught.value.advice is not None
    assert f"--max-parallelism {advised}" in f"{caught.value.advice} ".split("is a good one")[0]


def test_max_parallelism_below_the_stored_parallelism_is_refused_with_advice() -> None:
    with pytest.raises(RequestError, match="above the operator's max parallelism") as caught:
        requested_shapes({}, for_all=2)
    assert (caught.value.operator, caught.value.found) == ("sink", "3")
    assert "also request --parallelism, at most 2" in str(caught.value.advice)


def test_max_parallelism_1_is_refused_for_operators_that_have_more() -> None:
    with pytest.raises(RequestError, match="an operator cannot get max parallelism 1") as caught:
        requested_shapes({"": 1}, for_all=1)
    assert caught.value.operator == "counts"


def test_request_for_a_snapshot_with_only_max_parallelism_1_is_refused() -> None:
    single_operators = (SINGLE, operator("one more", 1, 1))
    for request in (Request("/s", "/t", {"": 3}), Request("/s", "/t", {}, max_parallelism={"": 1000})):
        with pytest.raises(RequestError, match="every operator has max parallelism 1") as caught:
            new_shapes(single_operators, request)
        assert caught.value.found == "2 operators, all with max parallelism 1"
    for request in (Request("/s", "/t", {}), Request("/s", "/t", {"": 1}, max_parallelism={"": 1})):
        assert set(new_shapes(single_operators, request).values()) == {Shape(1, 1)}


def test_label_shared_by_two_operators_is_refused() -> None:
    same_label_operators = (operator("one", label="the map"), operator("other", label="the map"))
    with pytest.raises(RequestError, match="'the map' is the name of 2 operators") as caught:
        new_shapes(same_label_operators, Request("/s", "/t", {"the map": 2}))
    assert operator_id_of_uid("other") in str(caught.value.found)
    shapes = new_shapes(same_label_operators, Request("/s", "/t", {"other": 7}))
    assert [shape.parallelism for shape in shapes.values()] == [2, 7]


def test_operator_named_by_both_uid_and_id_is_refused() -> None:
    with pytest.raises(RequestError, match="the same operator is named twice") as caught:
        new_shapes(OPERATORS, Request("/s", "/t", {"counts": 2, operator_id_of_uid("counts"): 3}))
    assert caught.value.operator == "counts"


@pytest.mark.parametrize(
    ("parallelism", "stored", "expected"),
    [
        (6, 128, 360),  # 24 divisors, as many as 480 and 504
        (4, 128, 360),
        (3, 10, 48),
        (7, 128, 420),
        (100, 128, 1200),
        (100, 1000, 3600),
        (128, 128, 1920),
        (6, 360, 1260),
        (60, 720, 2520),
        (3000, 4096, 21000),
    ],
)
def test_good_max_parallelism_is_at_least_four_times_the_parallelism(
    parallelism: int, stored: int, expected: int
) -> None:
    proposed = good_max_parallelism(parallelism, stored)
    assert proposed == expected
    assert proposed % parallelism == 0
    assert max(4 * parallelism, stored) <= proposed <= 4 * max(4 * parallelism, stored)


@pytest.mark.parametrize(
    ("parallelism", "stored"),
    [(6, 27720), (7, 27720), (10, 27720), (20000, 32768), (7000, 30000), (32768, 32768)],
)
def test_good_max_parallelism_is_the_stored_one_if_none_is_better(parallelism: int, stored: int) -> None:
    assert good_max_parallelism(parallelism, stored) == stored


@pytest.mark.parametrize(("parallelism", "expected"), [(10000, 30000), (20000, 20000), (9000, 27000)])
def test_good_max_parallelism_near_the_limit_is_still_a_multiple(parallelism: int, expected: int) -> None:
    assert good_max_parallelism(parallelism, 128) == expected
