"""Summaries between tasks stay small, however large the snapshot is, and begin with the most important."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rescale.airflow.summaries import (
    LARGEST_SUMMARY_BYTES,
    as_output,
    certificate_summary,
    plan_summary,
    snapshot_summary,
)
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.pages.inspection import inspection
from rescale.report.pages.planned import plan_document
from rescale.runstate.places import places_of
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import Dropped, LostState, Surgery
from support.reports import certificate_of
from support.synthetic import element_stream, operator, own_stream, snapshot

OPERATORS = 50


def large_snapshot(label: str) -> Snapshot:
    """Return a snapshot of operators with 1 to 50 subtasks, whose names begin with `label`."""

    def large_operator(number: int) -> Operator:
        keyed = tuple(own_stream(subtask, number, 128, Framing.HEAP) for subtask in range(number))
        lists = (element_stream(0, {f"list-{i}": (DistributionMode.UNION, 3) for i in range(20)}),)
        return operator(f"{label}-{number}", number, keyed=keyed, elements=lists, finished=())

    return snapshot(*(large_operator(number) for number in range(1, OPERATORS + 1)))


@pytest.mark.parametrize("label", ["operator", "a long name " * 100, "Überläufe 漢字 " * 100])
def test_summaries_of_fifty_operators_are_within_the_limit(label: str) -> None:
    source = large_snapshot(label)
    plan = make_plan(source, make_request("/source", "/target", ["7"]))
    documents = [
        snapshot_summary(source, inspection(source)),
        plan_summary(plan, plan_document(plan, source), is_published=False),
        certificate_summary(certificate_of(plan_document(plan, source)), places_of(plan).certificate),
    ]
    assert LARGEST_SUMMARY_BYTES == 8192
    assert all(len(json.dumps(as_output(document)).encode()) <= LARGEST_SUMMARY_BYTES for document in documents)
    assert [document.operators for document in documents] == [OPERATORS] * 3


def test_largest_operators_come_first() -> None:
    source = large_snapshot("operator")
    largest = snapshot_summary(source, inspection(source)).largest_operators
    sizes = [line.bytes_in_source for line in largest]
    assert sizes == sorted((operator.bytes for operator in source.operators), reverse=True)[:10]


def test_summary_of_a_plan_has_its_place_and_the_number_of_changed_operators() -> None:
    source = snapshot(operator("a"), operator("b"), operator("global", 1, 1))
    plan = make_plan(source, make_request("/source", "/target", ["a=3"]))
    shown = plan_document(plan, source)
    summary = plan_summary(plan, shown, is_published=True)
    assert (summary.plan, summary.published) == (places_of(plan).plan, True)
    assert (summary.operators, summary.operators_changed) == (3, 1)


def test_evenness_is_that_of_the_log() -> None:
    source = large_snapshot("operator")
    plan = make_plan(source, make_request("/source", "/target", ["7"]))
    shown = plan_document(plan, source)
    evenness = {
        operator.label: (round(operator.evenness, 2), round(operator.new_evenness, 2)) for operator in shown.operators
    }
    for line in plan_summary(plan, shown, is_published=False).largest_operators:
        assert line.worst_by_mean == evenness[line.operator]


def test_warnings_are_those_of_the_log() -> None:
    """The log has warnings of unused names and of the cluster, which are no part of the plan."""
    source = replace(snapshot(operator("a")), unused_names=("visits",))
    plan = make_plan(source, make_request("/source", "/target", ["3"]))
    shown = plan_document(plan, source)
    assert any("visits" in warning for warning in shown.warnings)
    assert plan_summary(plan, shown, is_published=False).warnings == list(shown.warnings)


def test_declared_losses_stand_beside_the_verdict() -> None:
    lost = Dropped("ab" * 16, "totals", 1234, (LostState("sum", "VALUE", None),))
    source = snapshot(operator("a"))
    plan = plan_document(make_plan(source, make_request("/source", "/target", ["3"])), source)
    certificate = replace(certificate_of(plan), surgery=Surgery(dropped=(lost,)))
    summary = certificate_summary(certificate, "/certificate")
    assert summary.declared == [f"totals ({'ab' * 16}) is dropped: 1.23 kB of state are lost: sum (VALUE)"]
