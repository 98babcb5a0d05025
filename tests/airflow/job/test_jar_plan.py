"""A run stops if ids in a jar's plan leave state without its operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job import jar_plan
from rescale.airflow.job.jar_plan import refuse_other_ids
from rescale.flink_rest.client import Flink
from rescale.planning.request.request import make_request
from rescale.planning.request.resolution import resolve_request
from rescale.snapshot.model import Snapshot
from rescale.text.errors import RequestError, StoreError
from support.snapshots import opened

WITH_UIDS = opened("2-clicks")
FLINK = Flink("http://127.0.0.1:1")
JAR = RunJar("http://127.0.0.1:1", "job.jar")
NEW = "f" * 32

Plan = Mapping[str, str]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> dict[int, Plan | Exception]:
    answers: dict[int, Plan | Exception] = {}

    def answer(_flink: Flink, _hand_over: RunJar, parallelism: int) -> Plan:
        plan = answers[parallelism]
        if isinstance(plan, Exception):
            raise plan
        return plan

    monkeypatch.setattr(jar_plan, "planned_vertices", answer)
    return answers


def vertices_of(snapshot: Snapshot) -> dict[str, str]:
    return {operator.operator_id: operator.label for operator in snapshot.operators}


def without_uids(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as that of a job whose operators have other names than those of their uids."""
    operators = tuple(
        replace(operator, label=f"no uid {i}", entry=replace(operator.entry, uid=None))
        for i, operator in enumerate(snapshot.operators)
    )
    return replace(snapshot, operators=operators)


def refuse(snapshot: Snapshot, parallelism: int) -> None:
    refuse_other_ids(FLINK, JAR, resolve_request(snapshot, make_request("/a", "/b", [str(parallelism)])))


def test_an_unknown_vertex_is_refused_if_state_without_uid_is_no_vertex(plans: dict[int, Any]) -> None:
    snapshot = without_uids(WITH_UIDS)
    plans[4] = vertices_of(snapshot)
    plans[6] = {NEW: "sink"}
    with pytest.raises(
        RequestError, match="at parallelism 6 the job has operators that are not in its state"
    ) as caught:
        refuse(snapshot, 6)
    assert str(caught.value.found).startswith("sink; state that may have no operator then: no uid")


def test_unknown_vertex_is_accepted_if_all_state_has_uids(plans: dict[int, Any]) -> None:
    plans[4] = vertices_of(WITH_UIDS)
    plans[6] = {NEW: "sink"}
    refuse(WITH_UIDS, 6)


def test_unknown_vertex_is_accepted_if_all_state_without_uid_stays_a_vertex(plans: dict[int, Any]) -> None:
    snapshot = without_uids(WITH_UIDS)
    plans[4] = vertices_of(snapshot)
    plans[6] = {**vertices_of(snapshot), NEW: "sink"}
    refuse(snapshot, 6)


def test_a_jar_that_differs_at_the_old_parallelism_gets_a_warning(
    plans: dict[int, Any], caplog: pytest.LogCaptureFixture
) -> None:
    plans[4] = plans[6] = {NEW: "added"}
    refuse(without_uids(WITH_UIDS), 6)
    assert "operators that the job's latest checkpoint does not have" in caplog.text
    assert "added" in caplog.text


def test_a_jar_that_cannot_be_planned_gets_a_warning(plans: dict[int, Any], caplog: pytest.LogCaptureFixture) -> None:
    plans[4] = plans[6] = StoreError("main has failed")
    refuse(without_uids(WITH_UIDS), 6)
    assert "the ids of its operators are not checked: main has failed" in caplog.text


def test_flink_is_not_asked_where_the_parallelism_stays(plans: dict[int, Any]) -> None:
    assert not plans
    refuse(without_uids(WITH_UIDS), 4)
