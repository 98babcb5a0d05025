"""Warnings about operator chains, which a snapshot does not store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.snapshot.model import Operator
from support.snapshot_bytes import operator_header
from support.synthetic import element_stream, operator, snapshot

_STATE = {"numbers": (DistributionMode.UNION, 2)}


def _operator(uid: str, parallelism: int, *, is_generated: bool, has_state: bool = True) -> Operator:
    """Return an operator with the id of this uid. A "generated" one has another label, so its id is no uid's."""
    streams = tuple(element_stream(i, _STATE, operator_header()) for i in range(parallelism)) if has_state else ()
    return operator(uid, parallelism, elements=streams, label="map" if is_generated else None)


def _warnings(parallelism: int, *operators: Operator, version: int = 6) -> str:
    source = snapshot(*operators)
    source = replace(source, metadata=replace(source.metadata, version=version))
    return "\n".join(make_plan(source, make_request("/source", "/target", [str(parallelism)])).warnings)


@pytest.mark.parametrize(
    ("old_parallelism", "new_parallelism", "is_warned"),
    [(1, 2, True), (2, 1, True), (1, 1, False), (2, 3, False), (3, 2, False)],
)
def test_leaving_or_reaching_parallelism_1_warns_of_new_generated_ids(
    old_parallelism: int, new_parallelism: int, is_warned: bool
) -> None:
    named_operator = _operator("named", old_parallelism, is_generated=False)
    warnings = _warnings(new_parallelism, named_operator, _operator("generated", old_parallelism, is_generated=True))
    assert ("Flink then generates other ids for operators without a uid" in warnings) is is_warned
    assert ("have state in it: map." in warnings) is is_warned


def test_operator_with_more_subtasks_ends_the_warning_about_chains() -> None:
    operators = _operator("one", 1, is_generated=True), _operator("more", 2, is_generated=True)
    assert "generates other ids" not in _warnings(4, *operators)


def test_operators_with_a_uid_or_without_state_get_no_warning_about_chains() -> None:
    warnings = _warnings(
        2, _operator("named", 1, is_generated=False), _operator("sink", 1, is_generated=True, has_state=False)
    )
    assert "generates other ids" not in warnings


def test_warning_about_chains_says_that_flink_1_stores_no_uids() -> None:
    assert "without a uid, which Flink 1 does not store" in _warnings(
        2, _operator("generated", 1, is_generated=True), version=4
    )
