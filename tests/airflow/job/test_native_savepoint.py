"""Flink's answers about a job and its latest checkpoint decide whether a native savepoint is taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rescale.airflow.job.latest_checkpoint import open_latest_checkpoint
from rescale.airflow.job.native_savepoint import check_native_savepoint
from rescale.flink_rest.client import Flink, SavepointFormat, StopMode
from rescale.flink_rest.running_job import Job, Vertex
from rescale.planning.request.request import Request, make_request
from rescale.planning.request.result_files import Format
from rescale.planning.request.surgery_request import parse_surgery
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, StoreError
from support.heap import without_longs
from support.snapshots import directory

JOB = Job("1" * 32, "clicks", "RUNNING", (Vertex("0" * 32, "visits", 2, 128, {"RUNNING": 2}),))


def flink(
    backend: str | None, checkpoint: str | None = None, *, changelog: bool = False, asynchronous: bool = False
) -> Flink:
    """Return a Flink whose job has this state backend, latest checkpoint, and kind of state."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/checkpoints/config"):
            config = {"state_backend": backend, "state_changelog_enabled": changelog}
            refusal = httpx.Response(404, json={"errors": ["Checkpointing is not enabled for this job"]})
            return refusal if backend is None else httpx.Response(200, json=config)
        if request.url.path.endswith("/metrics"):
            group = ".asyncStateProcessing" if asynchronous else ""
            return httpx.Response(200, json=[{"id": f"visits{group}.numRecordsIn"}])
        completed = checkpoint and {"external_path": checkpoint}
        return httpx.Response(200, json={"latest": {"completed": completed}})

    return Flink("http://flink", transport=httpx.MockTransport(answer))


def why(cluster: Flink, *maximum: str, result_format: Format = Format.KEEP) -> str:
    return why_native(cluster, make_request("/a", "/b", ["3"], max_parallelism=maximum, format=result_format))


def why_native(cluster: Flink, request: Request) -> str:
    return check_native_savepoint(cluster, JOB, request, open_latest_checkpoint(cluster, JOB, request))


ROCKSDB = "EmbeddedRocksDBStateBackend"


@pytest.mark.parametrize("line", ["1.20", "2"])
@pytest.mark.parametrize("backend", [ROCKSDB, "RocksDBStateBackend"])
def test_timers_in_rocksdb_are_accepted(backend: str, line: str) -> None:
    place = directory(f"{line}-rocksdb-checkpoint")
    clause = why(flink(backend, place), "256")
    assert clause.startswith(f"{backend} has no timers on the heap, those of ")
    assert clause.endswith(f" are in RocksDB, as {place} shows")


@pytest.mark.parametrize("line", ["1.15.4-full-heap-timers", "1.20-rocksdb-heap-timers", "2-rocksdb-heap-timers"])
def test_timers_on_the_heap_are_refused(line: str) -> None:
    with pytest.raises(RequestError, match="which keeps them on the heap, outside RocksDB") as caught:
        why(flink(ROCKSDB, directory(line)))
    assert caught.value.operator
    assert caught.value.advice == 'choose "canonical" as the format of the savepoint: it holds all timers'


def test_timers_of_a_dropped_operator_are_ignored() -> None:
    place = directory("2-rocksdb-heap-timers")
    with_timers = [operator.label for operator in open_snapshot(place).operators if operator.raw_keyed]
    request = make_request("/a", "/b", ["3"], surgery=parse_surgery(drops=with_timers))
    assert "no timers on the heap" in why_native(flink(ROCKSDB, place), request)
    misspelt = make_request("/a", "/b", ["3"], surgery=parse_surgery(drops=["nobody"]))
    with pytest.raises(RequestError, match="no operator 'nobody'"):
        why_native(flink(ROCKSDB, place), misspelt)


def test_unknown_raw_keyed_state_is_refused_as_possible_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.snapshot.reading.stream_reader.read_services", lambda *_: None)
    with pytest.raises(RequestError, match="which keeps them on the heap, outside RocksDB"):
        why(flink(ROCKSDB, directory("2-rocksdb-heap-timers")))


def test_raw_keyed_state_without_timer_services_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.snapshot.reading.stream_reader.read_services", lambda *_: ())
    assert "no operator has any" in why(flink(ROCKSDB, directory("2-rocksdb-heap-timers")))


HEAP = "HashMapStateBackend"
RECORDS: dict[str, Callable[[Flink], str]] = {
    "another max parallelism": lambda cluster: why(cluster, "256"),
    "perhaps another max parallelism": lambda cluster: why(cluster, "states=128"),
    "canonical": lambda cluster: why(cluster, result_format=Format.CANONICAL),
    "RocksDB": lambda cluster: why(cluster, result_format=Format.ROCKSDB),
}
"""Requests that need the records, or may need them: Flink gives no max parallelism of later operators in a chain."""


@pytest.mark.parametrize("maximum", [(), ("128",)])
def test_hashmap_backend_needs_no_checkpoint_if_key_groups_stay(maximum: tuple[str, ...]) -> None:
    assert why(flink(HEAP), *maximum) == f"{HEAP} writes timers like all other state"


@pytest.mark.parametrize("request_name", RECORDS)
def test_hashmap_backend_needs_a_checkpoint_that_shows_that_records_can_be_read(request_name: str) -> None:
    place = directory("2-heap-checkpoint")
    assert RECORDS[request_name](flink(HEAP, place)).endswith(
        f"other state, and its records can be read, as {place} shows"
    )
    with pytest.raises(RequestError, match="it is unknown"):
        RECORDS[request_name](flink(HEAP))


@pytest.mark.parametrize("request_name", [name for name in RECORDS if name != "perhaps another max parallelism"])
def test_records_of_the_hashmap_backend_that_cannot_be_told_apart_are_refused(request_name: str) -> None:
    place = directory("2-heap-checkpoint")
    with without_longs(), pytest.raises(RequestError, match="the request needs every record of the state") as caught:
        RECORDS[request_name](flink(HEAP, place))
    assert caught.value.path == f"{place}/_metadata"
    assert caught.value.operator
    assert caught.value.state
    assert "LongSerializerSnapshot" in str(caught.value.found)
    assert 'choose "canonical"' in str(caught.value.advice)


@pytest.mark.parametrize(
    "cluster",
    [
        flink(ROCKSDB, directory("2-rocksdb-heap-timers"), asynchronous=True),
        flink("HashMapStateBackend", asynchronous=True),
        flink("ForStStateBackend"),
        flink(ROCKSDB, asynchronous=True),
    ],
    ids=["timers on the heap", "hashmap", "ForSt", "no checkpoint"],
)
def test_canonical_savepoint_is_not_advised_if_flink_cannot_take_one(cluster: Flink) -> None:
    with pytest.raises(RequestError) as caught:
        why(cluster, "256")
    advice = str(caught.value.advice)
    assert advice.startswith("Flink cannot take a canonical one either: ")
    assert 'choose "canonical"' not in advice


@pytest.mark.parametrize(
    ("backend", "changelog"),
    [("ForStStateBackend", False), ("", False), (ROCKSDB, True), ("HashMapStateBackend", True)],
)
def test_other_state_backends_are_refused(backend: str, changelog: bool) -> None:
    with pytest.raises(RequestError, match="native savepoints of this state backend are not supported") as caught:
        why(flink(backend, changelog=changelog))
    assert caught.value.found == f"{backend or 'an unknown backend'}{' with a changelog' if changelog else ''}"


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (flink(None), "the job has no checkpoints"),
        (flink(ROCKSDB), "the job has made no checkpoint since it was started"),
        (flink(ROCKSDB, "<checkpoint-not-externally-addressable>"), "the latest checkpoint cannot be read: "),
        (flink(ROCKSDB, "hdfs://state/chk-1"), "the latest checkpoint cannot be read: "),
        (flink(ROCKSDB, "/nothing/chk-1"), "the latest checkpoint cannot be read: there is no snapshot"),
        (flink(ROCKSDB, directory("2-rocksdb-native")), "Flink reports a native savepoint"),
    ],
    ids=["off", "none yet", "in memory", "elsewhere", "gone", "a savepoint"],
)
def test_native_savepoint_is_refused_without_a_usable_checkpoint(cluster: Flink, reason: str) -> None:
    with pytest.raises(RequestError, match="it is unknown whether") as caught:
        why(cluster)
    assert str(caught.value.found).startswith(reason)
    assert str(caught.value.advice).startswith('choose "canonical"')


def test_checkpoint_with_files_elsewhere_is_refused(tmp_path: Path) -> None:
    alone = shutil.copytree(directory("2-rocksdb-incremental"), tmp_path / JOB.job_id / "chk-9")
    with pytest.raises(RequestError, match="it is unknown whether"):
        why(flink(ROCKSDB, str(alone)))


def test_newest_checkpoint_of_the_job_replaces_one_that_is_gone(tmp_path: Path) -> None:
    newest = tmp_path / JOB.job_id / "chk-9"
    shutil.copytree(directory("2-rocksdb-checkpoint"), newest)
    assert str(newest) in why(flink(ROCKSDB, str(newest.with_name("chk-7"))))
    shutil.move(tmp_path / JOB.job_id, tmp_path / "of others")
    with pytest.raises(RequestError, match="it is unknown whether"):
        why(flink(ROCKSDB, str(tmp_path / "of others" / "chk-7")))


def test_store_error_is_raised_if_the_checkpoint_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreError("S3 cannot be reached")

    monkeypatch.setattr("rescale.airflow.job.latest_checkpoint.open_snapshot", fails)
    with pytest.raises(StoreError, match="S3 cannot be reached"):
        why(flink(ROCKSDB, "/state/chk-7"))
    assert why(flink(HEAP, "/state/chk-7")) == f"{HEAP} writes timers like all other state"


def test_checkpoint_with_missing_files_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "chk-9"
    shutil.copytree(directory("2-rocksdb-checkpoint"), place)
    next(file for file in place.iterdir() if file.name != "_metadata").unlink()
    with pytest.raises(RequestError, match="it is unknown whether") as caught:
        why(flink(ROCKSDB, str(place)))
    assert "files that the snapshot refers to are gone" in str(caught.value.found)


@pytest.mark.parametrize(("savepoint_format", "format_type"), [("canonical", "CANONICAL"), ("native", "NATIVE")])
@pytest.mark.parametrize("taking", ["run on", "stop", "cancel"])
def test_savepoint_is_triggered_in_the_format_asked_for(savepoint_format: str, format_type: str, taking: str) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(202, json={"request-id": "2" * 32})

    cluster = Flink("http://flink", transport=httpx.MockTransport(answer))
    cluster.trigger_savepoint(JOB.job_id, "2" * 32, "/save", StopMode(taking), SavepointFormat(savepoint_format))
    assert [body["formatType"] for body in bodies] == [format_type]
