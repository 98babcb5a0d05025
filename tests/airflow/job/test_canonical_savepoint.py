"""Flink's answers about a job decide whether the job can be asked for a canonical savepoint."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from rescale.airflow.job.canonical_savepoint import refuse_canonical
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import Job, Vertex
from rescale.text.errors import RequestError

SOURCE, VISITS = "0" * 32, "1" * 32
JOB = Job(
    "2" * 32,
    "clicks",
    "RUNNING",
    (Vertex(SOURCE, "Source", 2, 128, {"RUNNING": 2}), Vertex(VISITS, "visits -> sink", 2, 128, {"RUNNING": 2})),
)
ASYNCHRONOUS = "visits.asyncStateProcessing.numInFlightRecords"


def flink(backend: str | None, *answers: Sequence[str]) -> Flink:
    """One whose job has this state backend; `answers` are the metrics of `visits`, from one question to the next."""
    remaining = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/checkpoints/config"):
            refused = httpx.Response(404, json={"errors": ["Checkpointing is not enabled for this job"]})
            return refused if backend is None else httpx.Response(200, json={"state_backend": backend})
        names = next(remaining, ()) if f"/{VISITS}/" in request.url.path else ["Source.numRecordsOut"]
        return httpx.Response(200, json=[{"id": name} for name in names])

    return Flink("http://flink", transport=httpx.MockTransport(answer))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits; the clock goes on by what would have been waited."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(slept))
    return slept


@pytest.mark.parametrize("backend", ["HashMapStateBackend", "EmbeddedRocksDBStateBackend", None])
def test_operators_with_asynchronous_state_are_named(backend: str | None) -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job") as caught:
        refuse_canonical(flink(backend, ["visits.numRecordsIn", ASYNCHRONOUS, "sink.numRecordsIn"]), JOB)
    assert (caught.value.operator, caught.value.found) == ("clicks", "asynchronous state of visits")
    assert caught.value.advice == 'choose "native" under "Format of the savepoint"'


def test_of_forst_there_is_none(pauses: list[float]) -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job") as caught:
        refuse_canonical(flink("ForStStateBackend"), JOB)
    assert caught.value.found == "its state backend is ForStStateBackend"
    assert "a retained checkpoint of the job" in str(caught.value.advice)
    assert not pauses


def test_other_jobs_are_asked_for_one(pauses: list[float]) -> None:
    refuse_canonical(flink("HashMapStateBackend", ["visits.numRecordsIn", "my.asyncStateProcessing"]), JOB)
    assert not pauses


def test_metrics_that_flink_has_yet_to_fetch_are_waited_for() -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job"):
        refuse_canonical(flink("HashMapStateBackend", [], [], [ASYNCHRONOUS]), JOB)


def test_a_flink_that_tells_no_metrics_is_not_waited_for_long(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    refuse_canonical(flink("HashMapStateBackend"), JOB)
    assert sum(pauses) < 20
    assert "no metrics of visits -> sink, so it is unknown whether the state is asynchronous" in caplog.text
