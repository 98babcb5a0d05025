"""What Flink tells of a job, and what its latest checkpoint shows, decide whether a native savepoint is taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rescale.errors import RequestError, StoreError
from rescale.orchestration.flink.rest import Flink, SavepointFormat, Taking
from rescale.orchestration.flink.running_job import Job, Vertex
from rescale.orchestration.job.latest_checkpoint import latest_checkpoint
from rescale.orchestration.job.native_savepoint import why_nothing_is_lost
from rescale.planning.asked.request import Format, Request, make_request
from rescale.planning.asked.surgery_words import parse_surgery
from rescale.snapshot.opening import open_snapshot
from support.heap import without_longs
from support.snapshots import directory

JOB = Job("1" * 32, "clicks", "RUNNING", (Vertex("0" * 32, "visits", 2, 128, {"RUNNING": 2}),))


def flink(
    backend: str | None, checkpoint: str | None = None, *, changelog: bool = False, asynchronous: bool = False
) -> Flink:
    """One whose job has this state backend and latest checkpoint, and state that is `asynchronous` or is not."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/checkpoints/config"):
            config = {"state_backend": backend, "state_changelog_enabled": changelog}
            refused = httpx.Response(404, json={"errors": ["Checkpointing is not enabled for this job"]})
            return refused if backend is None else httpx.Response(200, json=config)
        if request.url.path.endswith("/metrics"):
            group = ".asyncStateProcessing" if asynchronous else ""
            return httpx.Response(200, json=[{"id": f"visits{group}.numRecordsIn"}])
        completed = checkpoint and {"external_path": checkpoint}
        return httpx.Response(200, json={"latest": {"completed": completed}})

    return Flink("http://flink", transport=httpx.MockTransport(answer))


def why(cluster: Flink, *maximum: str, wanted: Format = Format.KEEP) -> str:
    return told(cluster, make_request("/a", "/b", ["3"], max_parallelism=maximum, format=wanted))


def told(cluster: Flink, request: Request) -> str:
    return why_nothing_is_lost(cluster, JOB, request, latest_checkpoint(cluster, JOB, request))


ROCKSDB = "EmbeddedRocksDBStateBackend"


@pytest.mark.parametrize("line", ["1.20", "2"])
@pytest.mark.parametrize("backend", [ROCKSDB, "RocksDBStateBackend"])
def test_timers_in_rocksdb_are_named(backend: str, line: str) -> None:
    place = directory(f"{line}-rocksdb-checkpoint")
    clause = why(flink(backend, place), "256")
    assert clause.startswith(f"{backend} has no timers on the heap, those of ")
    assert clause.endswith(f" are in RocksDB, as {place} shows")


@pytest.mark.parametrize("line", ["1.15.4-full-heap-timers", "1.20-rocksdb-heap-timers", "2-rocksdb-heap-timers"])
def test_timers_on_the_heap_are_refused(line: str) -> None:
    with pytest.raises(RequestError, match="they are kept on the heap, beside RocksDB") as caught:
        why(flink(ROCKSDB, directory(line)))
    assert caught.value.operator
    assert caught.value.advice == 'say "canonical" under "Format of the savepoint": it has them all'


def test_timers_of_what_is_dropped_are_nobodys() -> None:
    place = directory("2-rocksdb-heap-timers")
    with_timers = [one.label for one in open_snapshot(place).operators if one.raw_keyed]
    request = make_request("/a", "/b", ["3"], surgery=parse_surgery(drops=with_timers))
    assert "no timers on the heap" in told(flink(ROCKSDB, place), request)
    misspelt = make_request("/a", "/b", ["3"], surgery=parse_surgery(drops=["nobody"]))
    with pytest.raises(RequestError, match="no operator 'nobody'"):
        told(flink(ROCKSDB, place), misspelt)


def test_raw_keyed_state_that_is_not_known_may_be_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.snapshot.stream_reader.read_services", lambda _: None)
    with pytest.raises(RequestError, match="they are kept on the heap, beside RocksDB"):
        why(flink(ROCKSDB, directory("2-rocksdb-heap-timers")))


def test_an_operator_that_asked_for_no_timers_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.snapshot.stream_reader.read_services", lambda _: ())
    assert "no operator has any" in why(flink(ROCKSDB, directory("2-rocksdb-heap-timers")))


HEAP = "HashMapStateBackend"
RECORDS: dict[str, Callable[[Flink], str]] = {
    "another max parallelism": lambda cluster: why(cluster, "256"),
    "perhaps another one": lambda cluster: why(cluster, "states=128"),
    "canonical": lambda cluster: why(cluster, wanted=Format.CANONICAL),
    "RocksDB": lambda cluster: why(cluster, wanted=Format.ROCKSDB),
}
"""What takes a look at records, or may: of an operator further on in a chain no max parallelism is told."""


@pytest.mark.parametrize("maximum", [(), ("128",)])
def test_the_hashmap_backend_needs_no_checkpoint_where_key_groups_stay(maximum: tuple[str, ...]) -> None:
    assert why(flink(HEAP), *maximum) == f"{HEAP} writes timers as it writes all other state"


@pytest.mark.parametrize("asked", RECORDS)
def test_of_the_hashmap_backend_a_checkpoint_shows_that_records_can_be_read(asked: str) -> None:
    place = directory("2-heap-checkpoint")
    assert RECORDS[asked](flink(HEAP, place)).endswith(f"other state, and its records can be read, as {place} shows")
    with pytest.raises(RequestError, match="nobody can tell"):
        RECORDS[asked](flink(HEAP))


@pytest.mark.parametrize("asked", [one for one in RECORDS if one != "perhaps another one"])
def test_records_of_the_hashmap_backend_that_nothing_tells_apart_are_refused(asked: str) -> None:
    place = directory("2-heap-checkpoint")
    with without_longs(), pytest.raises(RequestError, match="could not be read record by record") as caught:
        RECORDS[asked](flink(HEAP, place))
    assert caught.value.path == f"{place}/_metadata"
    assert caught.value.operator
    assert caught.value.state
    assert "LongSerializerSnapshot" in str(caught.value.found)
    assert 'say "canonical"' in str(caught.value.advice)


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
def test_no_canonical_one_is_advised_where_flink_takes_none(cluster: Flink) -> None:
    with pytest.raises(RequestError) as caught:
        why(cluster, "256")
    advice = str(caught.value.advice)
    assert advice.startswith("Flink can take no canonical one either: ")
    assert 'say "canonical"' not in advice


@pytest.mark.parametrize(
    ("backend", "changelog"),
    [("ForStStateBackend", False), ("", False), (ROCKSDB, True), ("HashMapStateBackend", True)],
)
def test_another_state_backend_is_refused(backend: str, changelog: bool) -> None:
    with pytest.raises(RequestError, match="of this job's state backend is not taken") as caught:
        why(flink(backend, changelog=changelog))
    assert caught.value.found == f"{backend or 'none is told'}{' with a changelog' if changelog else ''}"


@pytest.mark.parametrize(
    ("cluster", "found"),
    [
        (flink(None), "Flink makes no checkpoints of it"),
        (flink(ROCKSDB), "it has made no checkpoint since it was started"),
        (flink(ROCKSDB, "<checkpoint-not-externally-addressable>"), "its latest checkpoint cannot be read: "),
        (flink(ROCKSDB, "hdfs://state/chk-1"), "its latest checkpoint cannot be read: "),
        (flink(ROCKSDB, "/nothing/chk-1"), "its latest checkpoint cannot be read: there is no snapshot"),
        (flink(ROCKSDB, directory("2-rocksdb-native")), "what Flink calls its latest checkpoint is a native savepoint"),
    ],
    ids=["off", "none yet", "in memory", "elsewhere", "gone", "a savepoint"],
)
def test_where_nobody_can_tell_it_is_refused(cluster: Flink, found: str) -> None:
    with pytest.raises(RequestError, match="nobody can tell whether") as caught:
        why(cluster)
    assert str(caught.value.found).startswith(found)
    assert str(caught.value.advice).startswith('say "canonical"')


def test_files_of_the_checkpoint_that_lie_elsewhere_are_not_guessed() -> None:
    with pytest.raises(RequestError, match="nobody can tell whether") as caught:
        why(flink(ROCKSDB, directory("2-rocksdb-incremental")))
    assert "a handle points outside the snapshot (" in str(caught.value.found)
    assert '"More places of state"' in str(caught.value.advice)


def test_a_checkpoint_that_went_is_looked_for_in_the_directory_of_the_job(tmp_path: Path) -> None:
    newest = tmp_path / JOB.job_id / "chk-9"
    shutil.copytree(directory("2-rocksdb-checkpoint"), newest)
    assert str(newest) in why(flink(ROCKSDB, str(newest.with_name("chk-7"))))
    shutil.move(tmp_path / JOB.job_id, tmp_path / "of others")
    with pytest.raises(RequestError, match="nobody can tell whether"):
        why(flink(ROCKSDB, str(tmp_path / "of others" / "chk-7")))


def test_a_store_that_has_trouble_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreError("S3 cannot be reached")

    monkeypatch.setattr("rescale.orchestration.job.latest_checkpoint.open_snapshot", fails)
    with pytest.raises(StoreError, match="S3 cannot be reached"):
        why(flink(ROCKSDB, "/state/chk-7"))
    assert why(flink(HEAP, "/state/chk-7")) == f"{HEAP} writes timers as it writes all other state"


def test_a_checkpoint_that_lacks_files_tells_nothing(tmp_path: Path) -> None:
    place = tmp_path / "chk-9"
    shutil.copytree(directory("2-rocksdb-checkpoint"), place)
    next(file for file in place.iterdir() if file.name != "_metadata").unlink()
    with pytest.raises(RequestError, match="nobody can tell whether") as caught:
        why(flink(ROCKSDB, str(place)))
    assert "files that the snapshot refers to are gone" in str(caught.value.found)


@pytest.mark.parametrize(("wanted", "said"), [("canonical", "CANONICAL"), ("native", "NATIVE")])
@pytest.mark.parametrize("taking", ["run on", "stop", "cancel"])
def test_flink_is_asked_for_the_format(wanted: str, said: str, taking: str) -> None:
    seen: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return httpx.Response(202, json={"request-id": "2" * 32})

    cluster = Flink("http://flink", transport=httpx.MockTransport(answer))
    cluster.trigger_savepoint(JOB.job_id, "2" * 32, "/save", Taking(taking), SavepointFormat(wanted))
    assert [body["formatType"] for body in seen] == [said]
