"""Flink's answers about a job decide whether it can take a canonical savepoint."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from rescale.airflow.job.canonical_savepoint import refuse_canonical, refuse_timers_on_heap
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import Job, Vertex
from rescale.planning.request.request import Request, make_request
from rescale.planning.request.result_files import Format
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError
from support.snapshots import directory

SOURCE, VISITS = "0" * 32, "1" * 32
JOB = Job(
    "2" * 32,
    "clicks",
    "RUNNING",
    (Vertex(SOURCE, "Source", 2, 128, {"RUNNING": 2}), Vertex(VISITS, "visits -> sink", 2, 128, {"RUNNING": 2})),
)
ASYNCHRONOUS = "visits.asyncStateProcessing.numInFlightRecords"


def flink(backend: str | None, *answers: Sequence[str]) -> Flink:
    """Return a Flink whose job has this state backend; `answers` are the metrics of `visits`, in turn."""
    remaining = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/checkpoints/config"):
            refusal = httpx.Response(404, json={"errors": ["Checkpointing is not enabled for this job"]})
            return refusal if backend is None else httpx.Response(200, json={"state_backend": backend})
        names = next(remaining, ()) if f"/{VISITS}/" in request.url.path else ["Source.numRecordsOut"]
        return httpx.Response(200, json=[{"id": name} for name in names])

    return Flink("http://flink", transport=httpx.MockTransport(answer))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace sleeping: the clock goes on by the time that would have been slept."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(slept))
    return slept


@pytest.mark.parametrize("backend", ["HashMapStateBackend", "EmbeddedRocksDBStateBackend", None])
def test_operators_with_asynchronous_state_are_refused(backend: str | None) -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job") as caught:
        refuse_canonical(flink(backend, ["visits.numRecordsIn", ASYNCHRONOUS, "sink.numRecordsIn"]), JOB)
    assert (caught.value.operator, caught.value.found) == ("clicks", "asynchronous state of visits")
    assert caught.value.advice == 'choose "native" as the format of the savepoint'


def test_forst_backend_is_refused(pauses: list[float]) -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job") as caught:
        refuse_canonical(flink("ForStStateBackend"), JOB)
    assert caught.value.found == "its state backend is ForStStateBackend"
    assert "a retained checkpoint of the job" in str(caught.value.advice)
    assert not pauses


def test_other_jobs_are_accepted(pauses: list[float]) -> None:
    refuse_canonical(flink("HashMapStateBackend", ["visits.numRecordsIn", "my.asyncStateProcessing"]), JOB)
    assert not pauses


def test_metrics_that_flink_has_yet_to_fetch_are_waited_for() -> None:
    with pytest.raises(RequestError, match="Flink cannot take a canonical savepoint of this job"):
        refuse_canonical(flink("HashMapStateBackend", [], [], [ASYNCHRONOUS]), JOB)


def test_missing_metrics_are_waited_for_a_short_time_and_warned_of(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    refuse_canonical(flink("HashMapStateBackend"), JOB)
    assert sum(pauses) < 20
    assert "no metrics of visits -> sink, so it is unknown whether the state is asynchronous" in caplog.text


def of_format(name: Format) -> Request:
    return make_request("/source", "/target", ["3"], format=name)


@pytest.mark.parametrize("name", ["1.20-rocksdb-heap-timers", "2-rocksdb-heap-timers", "1.15.4-full-heap-timers"])
def test_timers_on_the_heap_do_not_move_into_rocksdb(name: str) -> None:
    latest = open_snapshot(directory(name))
    with pytest.raises(RequestError, match="the new job would lose its timers") as caught:
        refuse_timers_on_heap(latest, of_format(Format.ROCKSDB))
    assert caught.value.operator == ", ".join(o.label for o in latest.operators if o.raw_timers)
    assert caught.value.option == '"Format of the result"'
    for result_format in (Format.KEEP, Format.CANONICAL):
        refuse_timers_on_heap(latest, of_format(result_format))


@pytest.mark.parametrize("name", ["2-rocksdb-incremental", "2-heap-checkpoint", "2-raw"])
def test_other_timers_and_other_raw_state_may_move_into_rocksdb(name: str) -> None:
    refuse_timers_on_heap(open_snapshot(directory(name)), of_format(Format.ROCKSDB))
    refuse_timers_on_heap(UnreadableCheckpoint("nobody can read it"), of_format(Format.ROCKSDB))
