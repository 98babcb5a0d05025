"""A job that already has the shape asked for is left alone, and an impossible shape is refused early."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from rescale.airflow.forms.form_advice import DISCARD_TITLE, reword_for_form
from rescale.airflow.job.job_shape import check_proof, check_shape, has_shape
from rescale.airflow.job.job_tasks import _check_places
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink_rest.client import SavepointFormat
from rescale.flink_rest.running_job import Job, Vertex
from rescale.plan.proof import Proof
from rescale.planning.request.request import Request, make_request, parse_uids
from rescale.planning.request.result_files import Format
from rescale.planning.request.surgery_request import parse_surgery
from rescale.text.errors import RequestError, UnsupportedError
from support.pipeline import claimed_plan, execute_without_spark
from support.snapshots import directory

SOURCE, VISITS, ALL = operator_id_of_uid("source"), operator_id_of_uid("visits"), "0" * 32

JOB = Job(
    "1" * 32,
    "clicks",
    "RUNNING",
    (
        Vertex(SOURCE, "Source", 4, 128, {"RUNNING": 4}),
        Vertex(VISITS, "visits -> sink", 8, 128, {"RUNNING": 8}),
        Vertex(ALL, "windowAll", 1, 1, {"RUNNING": 1}),
    ),
)


def test_parallelism_of_a_job_is_that_of_most_vertices_by_default() -> None:
    """Vertices that always run with one subtask do not count."""
    another = Vertex("2" * 32, "prices", 4, 128, {"RUNNING": 4})
    assert replace(JOB, vertices=(*JOB.vertices, another)).parallelism == 4


def request_for(parallelism: Sequence[str] = (), maximum: Sequence[str] = (), names: Sequence[str] = ()) -> Request:
    return make_request("/a", "/b", parallelism, uids=parse_uids(names), max_parallelism=maximum)


@pytest.mark.parametrize(
    ("request_", "is_same"),
    [
        (request_for(), False),  # no shape: the request is for a copy
        (request_for(["4", "visits=8"]), True),
        (request_for(["4", f"{VISITS}=8"]), True),
        (request_for(["4", "the visits=8"], names=[f"{VISITS} the visits"]), True),
        (request_for(["source=4"]), True),
        (request_for([], ["128"]), True),
        (request_for(["4", "visits=8"], ["128"]), True),
        (make_request("/a", "/b", ["4", "visits=8"], format=Format.ROCKSDB), True),
        (request_for(["4"]), False),
        (request_for(["4", "visits=4"]), False),
        (request_for(["4", "visits=8"], ["256"]), False),
        (request_for(["4", "visits=8"], ["source=256"]), False),
        (make_request("/a", "/b", ["4", "visits=8"], surgery=parse_surgery(renames=["visits=visitors"])), False),
        (make_request("/a", "/b", ["4", "visits=8"], surgery=parse_surgery(drops=["visits"])), False),
        (make_request("/a", "/b", ["4", "visits=8"], surgery=parse_surgery(state_drops=["visits:count"])), False),
        (request_for(["4", "visits=8", "sink=8"]), False),  # chained, so its shape is unknown
    ],
    ids=lambda value: f"{value.parallelism}{value.max_parallelism}" if isinstance(value, Request) else None,
)
def test_shape_is_compared_with_every_vertex(request_: Request, is_same: bool) -> None:
    assert has_shape(JOB, request_) is is_same
    check_shape(JOB, request_)


@pytest.mark.parametrize(
    ("request_", "operator", "most"),
    [
        (request_for(["200"]), "Source", 128),
        (request_for(["visits=129"]), "visits -> sink", 128),
        (request_for([], ["6"]), "visits -> sink", 6),
        (request_for(["200", "visits=8", "source=4"], ["visits=4"]), "visits -> sink", 4),
    ],
)
def test_parallelism_above_the_max_parallelism_is_refused(request_: Request, operator: str, most: int) -> None:
    with pytest.raises(RequestError, match="above the job's max parallelism") as caught:
        check_shape(JOB, request_)
    assert (caught.value.operator, caught.value.expected) == (operator, f"at most {most}")


def test_parallelism_above_the_old_max_parallelism_is_accepted_with_a_larger_one() -> None:
    check_shape(JOB, request_for(["200"], ["1000"]))


def test_parallelism_of_a_partially_finished_operator_cannot_change() -> None:
    source = JOB.vertices[0]
    job = replace(JOB, vertices=(replace(source, tasks={"RUNNING": 1, "FINISHED": 3}), *JOB.vertices[1:]))
    check_shape(job, request_for(["visits=4"]))
    with pytest.raises(UnsupportedError, match="some subtasks of this operator have finished") as caught:
        check_shape(job, request_for(["8"]))
    assert caught.value.operator == "Source"
    check_shape(replace(JOB, vertices=(replace(source, tasks={"FINISHED": 4}),)), request_for(["8"]))
    check_shape(job, make_request("/a", "/b", ["8"], surgery=parse_surgery(restarts=["source"])))


def test_parallelism_of_operators_chained_with_a_partially_finished_one_stays() -> None:
    visits = JOB.vertices[1]
    job = replace(JOB, vertices=(JOB.vertices[0], replace(visits, tasks={"RUNNING": 7, "FINISHED": 1})))
    for allowed in (request_for(["source=6"]), request_for(["8"]), request_for(["6", "visits=8", "sink=8"])):
        check_shape(job, allowed)
    with pytest.raises(UnsupportedError, match="some subtasks of this operator have finished") as caught:
        check_shape(job, request_for(["6", "visits=8"]))
    assert (caught.value.operator, caught.value.found) == ("visits -> sink", "6")


IN_S3, ELSEWHERE = ("s3://state/savepoint", "s3://state/rescaled"), ("/savepoint", "/rescaled")
CANONICAL, NATIVE = SavepointFormat.CANONICAL, SavepointFormat.NATIVE


@pytest.mark.parametrize(
    ("savepoint_format", "places", "result_format", "maximum", "in_vain"),
    [
        (NATIVE, ELSEWHERE, Format.KEEP, [], False),
        (NATIVE, ELSEWHERE, Format.CANONICAL, [], True),
        (NATIVE, ELSEWHERE, Format.KEEP, ["source=256", "visits=256"], False),  # windowAll stays
        (CANONICAL, IN_S3, Format.KEEP, [], False),
        (CANONICAL, IN_S3, Format.CANONICAL, [], False),
        (CANONICAL, IN_S3, Format.ROCKSDB, [], True),
        (CANONICAL, IN_S3, Format.KEEP, ["visits=256"], False),
        (CANONICAL, ELSEWHERE, Format.KEEP, [], True),
        (CANONICAL, (IN_S3[0], ELSEWHERE[1]), Format.KEEP, [], True),
    ],
)
def test_impossible_proof_by_files_is_refused_before_the_job_is_stopped(
    savepoint_format: SavepointFormat,
    places: tuple[str, str],
    result_format: Format,
    maximum: Sequence[str],
    in_vain: bool,
) -> None:
    request = make_request(*places, ["6"], format=result_format, max_parallelism=maximum)
    check_proof(JOB, request, Proof.RECORDS, may_hold_rocksdb_files=savepoint_format is NATIVE)
    if not in_vain:
        check_proof(JOB, request, Proof.FILES, may_hold_rocksdb_files=savepoint_format is NATIVE)
        return
    with pytest.raises(RequestError, match="no state of this plan can be proven by files"):
        check_proof(JOB, request, Proof.FILES, may_hold_rocksdb_files=savepoint_format is NATIVE)


@pytest.mark.parametrize(("savepoint_format", "places"), [(NATIVE, ELSEWHERE), (CANONICAL, IN_S3)])
def test_proof_by_files_is_refused_if_every_max_parallelism_changes(
    savepoint_format: SavepointFormat, places: tuple[str, str]
) -> None:
    job = replace(JOB, vertices=JOB.vertices[:2])
    with pytest.raises(RequestError, match="no state of this plan can be proven by files"):
        check_proof(
            job,
            make_request(*places, max_parallelism=["256"]),
            Proof.FILES,
            may_hold_rocksdb_files=savepoint_format is NATIVE,
        )
    further_on = make_request(*places, max_parallelism=["256", "sink=128"])  # it is unknown which operator that is
    check_proof(job, further_on, Proof.FILES, may_hold_rocksdb_files=savepoint_format is NATIVE)


def test_claimed_target_is_refused_before_the_job_is_stopped(tmp_path: Path) -> None:
    """The target is empty, but the plan of a new savepoint differs from the one that has claimed it."""
    target = str(tmp_path / "rescaled")
    free = make_request(str(tmp_path / "savepoint"), target, ["3"])
    _check_places(free)
    plan = claimed_plan(directory("2-clicks"), target, ["3"])
    assert DISCARD_TITLE in _advice_on(free)
    execute_without_spark(plan)
    assert _advice_on(free) == "name another target"  # a published result is never discarded


def test_target_that_is_a_file_is_refused_before_the_job_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "rescaled").write_bytes(b"x")
    with pytest.raises(RequestError, match="the target is a file"):
        _check_places(make_request(str(tmp_path / "savepoint"), str(tmp_path / "rescaled"), ["3"]))


def _advice_on(request: Request) -> str:
    """Return the advice to the user of a form whose target is refused."""
    with pytest.raises(RequestError, match="the target is occupied") as caught:
        _check_places(request)
    reword_for_form(caught.value)
    return caught.value.advice or ""
