"""Refusal of new shapes for operators of which some subtasks have finished, and the request that avoids it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.request.finished_operators import refuse_finished, selector
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Format
from rescale.snapshot.model import Operator
from rescale.text.errors import UnsupportedError
from support.synthetic import header_of, operator, own_stream

HEADER = header_of("count")


def keyed(uid: str, finished: tuple[int, ...] = ()) -> Operator:
    streams = tuple(own_stream(subtask, 2, 128, Framing.CANONICAL, HEADER) for subtask in range(2))
    return operator(uid, keyed=streams, finished=finished)


def refusal(operators: list[Operator], *shapes: Shape, result_format: Format = Format.KEEP) -> UnsupportedError | None:
    request = make_request("/source", "/target", ["3"], format=result_format)
    try:
        refuse_finished(operators, {o.operator_id: s for o, s in zip(operators, shapes, strict=True)}, request)
    except UnsupportedError as error:
        return error
    return None


def test_operators_that_run_or_have_finished_as_a_whole_get_any_shape() -> None:
    running_operator = operator("a")
    entry = replace(running_operator.entry, subtasks=(), fully_finished=True)
    assert refusal([running_operator, replace(running_operator, entry=entry)], Shape(3, 128), Shape(3, 128)) is None


@pytest.mark.parametrize("shape", [Shape(2, 128), Shape(2, 256)])
def test_partly_finished_operator_without_keyed_state_may_change_only_its_max_parallelism(shape: Shape) -> None:
    assert refusal([operator("a", finished=(0,))], shape) is None
    assert refusal([operator("a", finished=(0,))], shape._replace(parallelism=3)) is not None


def test_partly_finished_keyed_operator_keeps_its_max_parallelism_and_format() -> None:
    assert refusal([keyed("a", (0,))], Shape(2, 128)) is None
    error = refusal([keyed("a", (0,))], Shape(2, 256))
    assert error is not None
    assert error.expected == "parallelism 2, max parallelism 128"
    assert error.found == "parallelism 2, max parallelism 256"
    error = refusal([keyed("a", (0,))], Shape(2, 128), result_format=Format.ROCKSDB)
    assert error is not None
    assert "the format of the source" in str(error.expected)
    assert "leave --format out, too" in str(error.advice)


def test_advice_asks_for_the_new_shape_of_the_other_operators() -> None:
    error = refusal([operator("a", finished=(0,)), operator("b"), operator("c", finished=(1,))], *[Shape(3, 128)] * 3)
    assert error is not None
    assert error.operator == "a and 1 more"
    advice = str(error.advice)
    assert advice.startswith("name only the other operators: --parallelism b=3; or run them again")
    assert "--restart a" in advice
    assert "let Flink itself change the parallelism" in advice


def test_advice_names_a_rescale_by_flink_only_if_flink_can_do_it() -> None:
    error = refusal([operator("a", finished=(0,)), keyed("b")], Shape(3, 256), Shape(2, 256))
    assert error is not None
    assert "--max-parallelism 256" in str(error.advice)
    assert "Flink itself" not in str(error.advice)


def test_operator_is_named_by_uid_only_if_the_uid_hashes_to_its_id() -> None:
    counts = operator("counts")
    assert selector(counts) == "counts"
    assert selector(replace(counts, label="a label that is no uid")) == counts.operator_id
    assert selector(replace(counts, entry=replace(counts.entry, uid="counts"), label="x")) == "counts"
