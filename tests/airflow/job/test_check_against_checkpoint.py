"""Requests that contradict the job's latest checkpoint are refused while it runs, if no savepoint can allow them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescale.airflow.job.check_against_checkpoint import check_against_checkpoint
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.airflow.job.sampled_keys import _key_sample
from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink_rest.running_job import Job, Vertex
from rescale.planning.prepare import prepare
from rescale.planning.request.request import Request, make_request, parse_uids
from rescale.planning.request.result_files import Format
from rescale.planning.request.surgery_request import parse_surgery
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, RescaleError, SnapshotError, UnsupportedError
from support import synthetic
from support.canonical import Record
from support.java_composites import Pojo
from support.java_values import HASHABLE_LEAVES
from support.kafka_state import enumerator, reader_element, source_savepoint
from support.slow import slow
from support.snapshot_bytes import CUSTOM, keyed_header, keyed_state, operator_header
from support.snapshots import directory, names, opened
from support.written import UID, write_savepoint

CHECKPOINTS = [name for name in names() if opened(name).type is SnapshotType.CHECKPOINT]


def job_of(snapshot: Snapshot, finished: int = 0) -> Job:
    """Return a job with a vertex for each operator; `finished` subtasks of partially finished operators have ended."""
    vertices = []
    for operator in snapshot.operators:
        entry = operator.entry
        ended = finished if operator.is_partially_finished else 0
        tasks = {"RUNNING": entry.parallelism - ended, "FINISHED": ended}
        vertices.append(Vertex(entry.operator_id, operator.label, entry.parallelism, entry.max_parallelism, tasks))
    return Job("1" * 32, "clicks", "RUNNING", tuple(vertices))


def request_for(parallelism: list[str] | None = None, maximum: list[str] | None = None, **more: Any) -> Request:
    return make_request("/a", "/b", parallelism or [], max_parallelism=maximum or [], **more)


def look(name: str, request: Request) -> bool:
    return check_against_checkpoint(job_of(opened(name)), request, opened(name))


REQUESTS_WITH_UNKNOWN_OPERATORS: dict[str, Request] = {
    "parallelism": request_for(["nobody=3"]),
    "max parallelism": request_for([], ["nobody=256"]),
    "rename": request_for(["3"], surgery=parse_surgery(renames=["nobody=somebody"])),
    "drop": request_for(["3"], surgery=parse_surgery(drops=["nobody"])),
    "state": request_for(["3"], surgery=parse_surgery(state_drops=["nobody:count"])),
    "old rows": request_for(["3"], surgery=parse_surgery(ages=["nobody:count=30d"])),
    "hash": request_for([], ["1000"], key_hash=["nobody=java"]),
    "Kafka offsets": request_for(
        ["3"], surgery=parse_surgery(kafka_offsets="operator,topic,partition,offset\nnobody,t,0,1")
    ),
    "Kafka source": request_for(["3"], surgery=parse_surgery(kafka_sources=["nobody=source"])),
}


@pytest.mark.parametrize("name", ["1.20-unaligned", *CHECKPOINTS[-5:]])
@pytest.mark.parametrize("case", REQUESTS_WITH_UNKNOWN_OPERATORS)
def test_unknown_operator_is_refused_before_the_job_is_stopped(case: str, name: str) -> None:
    with pytest.raises(
        RequestError, match=r"no operator 'nobody'.*latest checkpoint; the job was not stopped"
    ) as caught:
        look(name, REQUESTS_WITH_UNKNOWN_OPERATORS[case])
    assert caught.value.path == f"{directory(name)}/_metadata"
    assert opened(name).operators[0].label in str(caught.value.expected)
    assert "rescale inspect" not in str(caught.value)


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (request_for(["200"]), "above the operator's max parallelism"),
        (request_for(["3"], ["1"]), "an operator cannot get max parallelism 1"),
        (request_for(["3"], surgery=parse_surgery(renames=["clicks=shards"])), "two operators would get the same id"),
        (
            request_for(["clicks=3"], surgery=parse_surgery(drops=["clicks"])),
            "an operator is dropped, but the request also changes it",
        ),
        (
            request_for([], ["1000"], key_hash=["clicks-per-user=record(a)"]),
            "does not define a hash for keys of the type",
        ),
        (request_for(["3"], surgery=parse_surgery(state_drops=["clicks-per-user:clcks"])), "no state 'clcks'"),
        (request_for(["3"], surgery=parse_surgery(ages=["clicks-per-user:pages=30d"])), "has no time to live"),
    ],
)
def test_invalid_request_is_refused_before_the_job_is_stopped(request_: Request, what: str) -> None:
    with pytest.raises(RequestError, match=f"{what}.*the job was not stopped"):
        look("2-rocksdb-checkpoint", request_)


def test_operators_are_named_by_uids_ids_and_given_names() -> None:
    names_ = parse_uids([f"{operator_id_of_uid('clicks')} the clicks"])
    parallelism = ["the clicks=3", "shards=3", f"{operator_id_of_uid('clicks-per-user')}=3"]
    snapshot = open_snapshot(directory("1.20-rocksdb-checkpoint"), ids_and_labels=names_)
    assert check_against_checkpoint(job_of(snapshot), request_for(parallelism, uids=names_), snapshot) is False


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("result_format", Format)
@pytest.mark.parametrize("maximum", [[], ["256"], ["4"]])
def test_request_that_a_savepoint_would_allow_is_accepted(name: str, result_format: Format, maximum: list[str]) -> None:
    assert look(name, request_for(["4"], maximum, format=result_format)) is False


SAME_JOB = [
    (f"{line}-{checkpoint}", f"{line}-{savepoint}")
    for line in ("1.20", "2")
    for checkpoint, savepoint in [
        ("heap-checkpoint", "canonical-hashmap"),
        ("heap-checkpoint", "canonical-rocksdb"),
        ("rocksdb-checkpoint", "rocksdb-native"),
        ("changelog-over-heap", "rocksdb-3to2"),
        ("changelog-over-rocksdb", "rocksdb-3to2"),
    ]
]
"""Checkpoints, and savepoints of the same job in the same shape."""


def _slow_on_the_older_line(pair: tuple[str, str]) -> Any:
    return slow(*pair) if pair[0].startswith("1.20") else pair


def requests(snapshot: Snapshot) -> Iterator[Request]:
    """Yield valid requests, invalid requests, and requests that only a savepoint can decide."""
    labels = [operator.label for operator in snapshot.operators]
    states = [
        f"{operator.label}:{state.name}"
        for operator in snapshot.operators
        for header in operator.keyed_headers[:1]
        for state in (header.states if header is not None else ())
    ]
    surgery = [
        *({"drops": [label]} for label in labels),
        *({"renames": [f"{label}=another"]} for label in labels),
        *({"state_drops": [state + end]} for state in states for end in ("", "s")),
        {"state_drops": states},
        {"drops": labels},
        {"drops": ["nobody"]},
        {},
    ]
    shapes = [(["3"], []), ([f"{labels[0]}=3"], ["200"]), (["129"], []), ([], ["1"])]
    for surgery_arguments, (parallelism, maximum) in product(surgery, shapes):
        yield request_for(parallelism, maximum, surgery=parse_surgery(**surgery_arguments))
    for key_hash in ("java", "record(a)", "nobody=java", f"{labels[-1]}=java"):
        yield request_for(["3"], ["200"], key_hash=[key_hash])
        yield request_for(["3"], [], key_hash=[key_hash])


@pytest.mark.parametrize(("checkpoint", "savepoint"), [*map(_slow_on_the_older_line, SAME_JOB)])
def test_requests_that_are_refused_would_be_refused_by_the_plan_of_a_savepoint(checkpoint: str, savepoint: str) -> None:
    """The errors have the same class; a plan may notice something else first."""
    source, refusals = directory(savepoint), 0
    for request in requests(opened(savepoint)):
        try:
            look(checkpoint, request)
        except RescaleError as error:
            refusals += 1
            with pytest.raises(type(error)):
                prepare(replace(request, source=source, target="/nowhere"))
    assert refusals > 10


def messages(caplog: pytest.LogCaptureFixture) -> str:
    """Return the messages of the log on one line, however they are wrapped."""
    return " ".join(word for record in caplog.records for word in record.getMessage().split())


def test_drop_of_a_state_that_may_be_registered_late_is_left_to_the_plan(caplog: pytest.LogCaptureFixture) -> None:
    """A subtask of the operator `rules` has registered a state that another has not yet."""
    request = request_for(["3"], surgery=parse_surgery(state_drops=["rules:event"]))
    assert look("2-heap-checkpoint", request) is False
    assert "warning: rules: no state 'event' in the operator" in caplog.text
    assert "the plan will refuse the savepoint unless" in messages(caplog)
    caplog.clear()
    without_keys = request_for(["3"], surgery=parse_surgery(state_drops=["shards:owner"]))
    assert look("2-rocksdb-checkpoint", without_keys) is False
    assert "warning: shards: " in caplog.text
    caplog.clear()
    assert look("2-heap-checkpoint", request_for(["4"], surgery=parse_surgery(state_drops=["rules:events"]))) is False
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", ["2-rocksdb-heap-timers", "2-changelog-over-heap", "2-changelog-over-rocksdb"])
def test_drop_of_a_state_that_only_a_savepoint_shows_is_left_to_the_plan(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a canonical savepoint has heap timers as state, and states without changes in the changelog."""
    (operator,) = (operator for operator in opened(name).operators if operator.keyed_headers)
    for state in ("_timer_state/event_user-timers", "unheard-of"):
        look(name, request_for(["3"], surgery=parse_surgery(state_drops=[f"{operator.label}:{state}"])))
    assert "the plan will refuse the savepoint" in messages(caplog)


def test_offsets_of_a_partition_that_may_be_discovered_late_are_left_to_the_plan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    readers = [[reader_element("orders", 0, 5)], []]
    source = open_snapshot(source_savepoint(tmp_path / "chk", readers, enumerator([("orders", 0, 0)])))
    offsets = "operator,topic,partition,offset\norders,orders,1,7"
    request = request_for(["3"], surgery=parse_surgery(kafka_offsets=offsets))
    uids = parse_uids(["orders"])
    assert check_against_checkpoint(job_of(source), replace(request, uids=uids), source) is False
    assert "a partition for which no Kafka source has an offset" in " ".join(map(str.strip, caplog.messages))


TEXT = HASHABLE_LEAVES["String"]
TOWNS = [(tuple(f"town {number}".encode()),) for number in range(40)]
KNOWN_FOLD, OWN_FOLD = Pojo({"town": TEXT}, 1, 31, ["town"]), Pojo({"town": TEXT}, 77, 12345, ["town"])


def of_towns(directory: Path, key: Pojo, number: int) -> Snapshot:
    """Return a snapshot with this number of keys."""
    groups: dict[int, list[Record]] = {}
    for town in TOWNS[:number]:
        groups.setdefault(key_group_of_hash(key.code(town), 128), []).append(Record(0, key.write(town) + b"\0", b"\0"))
    header = keyed_header(keyed_state("total"), key=key.snapshot)
    return open_snapshot(write_savepoint(directory / "chk", header, groups, 2, 128))


def test_keys_that_no_formula_fits_are_refused(tmp_path: Path) -> None:
    checkpoint = of_towns(tmp_path, OWN_FOLD, 40)
    with pytest.raises(UnsupportedError, match=r"no formula fits.*the job was not stopped") as caught:
        check_against_checkpoint(job_of(checkpoint), request_for([], ["1000"]), checkpoint)
    assert (caught.value.path, caught.value.operator) == (checkpoint.metadata_uri, operator_id_of_uid(UID))
    for divisor in ("64", "128"):
        check_against_checkpoint(job_of(checkpoint), request_for([], [divisor]), checkpoint)
    request = request_for([], ["1000"], key_hash=["keys_of_mine:hash_code"])
    assert check_against_checkpoint(job_of(checkpoint), request, checkpoint) is False


@pytest.mark.parametrize(("key", "number"), [(KNOWN_FOLD, 40), (KNOWN_FOLD, 0), (KNOWN_FOLD, 2), (OWN_FOLD, 0)])
def test_keys_that_fit_a_formula_or_are_too_few_are_left_to_the_plan(tmp_path: Path, key: Pojo, number: int) -> None:
    checkpoint = of_towns(tmp_path, key, number)
    assert check_against_checkpoint(job_of(checkpoint), request_for([], ["1000"]), checkpoint) is False


def test_keys_of_states_that_may_be_dropped_are_left_to_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = of_towns(tmp_path, OWN_FOLD, 40)
    dropped = request_for([], ["1000"], surgery=parse_surgery(state_drops=[f"{UID}:total"]))
    assert check_against_checkpoint(job_of(checkpoint), dropped, checkpoint) is False
    monkeypatch.setattr("rescale.airflow.job.check_against_checkpoint._is_settled", lambda _: False)
    assert check_against_checkpoint(job_of(checkpoint), dropped, checkpoint) is False


def test_keys_with_a_custom_serializer_are_refused(tmp_path: Path) -> None:
    header = keyed_header(keyed_state("total"), key=CUSTOM)
    checkpoint = open_snapshot(write_savepoint(tmp_path / "chk", header, {}, 2, 128))
    with pytest.raises(UnsupportedError, match="the job was not stopped"):
        check_against_checkpoint(job_of(checkpoint), request_for([], ["1000"]), checkpoint)


def test_files_that_vanish_while_keys_are_read_are_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = of_towns(tmp_path, OWN_FOLD, 40)
    for file in (tmp_path / "chk").glob("keyed-*"):
        file.unlink()
    assert check_against_checkpoint(job_of(checkpoint), request_for([], ["1000"]), checkpoint) is False
    assert "in the checkpoint cannot be read: a file is gone" in caplog.text


@pytest.mark.parametrize("name", ["2-heap-checkpoint", "2-rocksdb-checkpoint", "2-changelog-over-heap"])
def test_keys_are_sampled_from_every_kind_of_keyed_state(name: str) -> None:
    for operator in opened(name).operators:
        assert bool(operator.managed_keyed) == (len(_key_sample(opened(name), operator).starts) > 0)


@pytest.mark.parametrize("name", ["1.20-partially-finished", "2-partially-finished"])
def test_parallelism_of_partially_finished_operator_is_refused_unless_all_may_finish(name: str) -> None:
    snapshot, request = opened(name), request_for(["short=3"])
    with pytest.raises(UnsupportedError, match=r"have finished.*the job was not stopped"):
        check_against_checkpoint(job_of(snapshot, finished=1), request, snapshot)
    assert check_against_checkpoint(job_of(snapshot, finished=2), request, snapshot) is False
    chained = msgspec.structs.replace(
        job_of(snapshot, finished=1),
        vertices=tuple(vertex for vertex in job_of(snapshot).vertices if vertex.name != "short"),
    )
    assert check_against_checkpoint(chained, request, snapshot) is False


def test_partially_finished_operator_in_a_chain_may_have_ended_with_its_chain() -> None:
    """Flink does not list the operator. It may be in a vertex that has partially finished, or in one that has ended."""
    snapshot = opened("2-partially-finished")
    others = [vertex for vertex in job_of(snapshot).vertices if vertex.name != "short"]
    tasks = {"RUNNING": others[0].parallelism - 1, "FINISHED": 1}
    for tasks_of_chain, is_refused in (({"FINISHED": others[1].parallelism}, False), (others[1].tasks, True)):
        changed = (
            msgspec.structs.replace(others[0], tasks=tasks),
            msgspec.structs.replace(others[1], tasks=tasks_of_chain),
        )
        job = msgspec.structs.replace(job_of(snapshot), vertices=(*changed, *others[2:]))
        with pytest.raises(UnsupportedError, match="have finished") if is_refused else nullcontext():
            assert check_against_checkpoint(job, request_for(["short=3"]), snapshot) is False


def test_unreadable_header_is_left_to_the_plan(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(*_: object) -> None:
        raise SnapshotError("a state lacks a serializer")

    monkeypatch.setattr("rescale.airflow.job.check_against_checkpoint.resolve_request", damaged)
    assert look("2-clicks", request_for(["3"])) is False
    assert "cannot be read: a state lacks a serializer" in caplog.text


@pytest.mark.parametrize(
    ("request_", "has_shape"),
    [
        (request_for(["2"]), True),
        (request_for(["2"], ["16"]), True),
        (request_for(["clicks-per-user=2"]), True),
        (request_for(["3"]), False),
        (request_for(["2", "shards=3"]), False),
        (request_for(["2"], ["32"]), False),
        (request_for(), False),
        (request_for(["2"], format=Format.CANONICAL), True),
        (request_for(["2"], surgery=parse_surgery(renames=["clicks=clacks"])), False),
    ],
)
def test_request_for_the_present_shape_is_recognised(request_: Request, has_shape: bool) -> None:
    """Operators that are chained behind the first operator of a vertex count as well."""
    snapshot = opened("2-rocksdb-checkpoint")
    job = job_of(snapshot)
    alone = msgspec.structs.replace(job, vertices=job.vertices[1:2])
    assert check_against_checkpoint(alone, request_, snapshot) is has_shape


def test_checkpoint_of_another_job_graph_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    snapshot = opened("2-rocksdb-checkpoint")
    job = job_of(snapshot)
    for changed in ({"parallelism": 4}, {"max_parallelism": 32}, {"operator_id": "0" * 32}):
        vertex = msgspec.structs.replace(job.vertices[0], **changed)
        other = msgspec.structs.replace(job, vertices=(vertex, *job.vertices[1:]))
        assert check_against_checkpoint(other, REQUESTS_WITH_UNKNOWN_OPERATORS["drop"], snapshot) is False
        assert "have changed since its latest checkpoint" in caplog.text
        caplog.clear()


def test_request_is_accepted_without_a_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    unread = UnreadableCheckpoint("the latest checkpoint cannot be read: there is no snapshot", "/state/chk-7")
    assert (
        check_against_checkpoint(job_of(opened("2-clicks")), REQUESTS_WITH_UNKNOWN_OPERATORS["drop"], unread) is False
    )
    assert "there is no snapshot (/state/chk-7)" in caplog.text


def test_different_max_parallelisms_need_an_approval_before_the_job_is_stopped() -> None:
    snapshot = opened("2-clicks")
    request = request_for([], ["visits=64"])
    with pytest.raises(RequestError, match=r"without an approval .*was not stopped") as caught:
        check_against_checkpoint(job_of(snapshot), request, snapshot, asks_for_approval=False)
    assert "Flink restores all operators of a chain" in str(caught.value.found)
    assert check_against_checkpoint(job_of(snapshot), request, snapshot, asks_for_approval=True) is False
    assert (
        check_against_checkpoint(job_of(snapshot), request_for([], ["64"]), snapshot, asks_for_approval=False) is False
    )


def test_generated_ids_that_may_change_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    elements = (synthetic.element_stream(0, {"numbers": (DistributionMode.UNION, 2)}, operator_header()),)
    alone = synthetic.snapshot(synthetic.operator("generated", 1, elements=elements, label="map"))
    with caplog.at_level("INFO"):
        assert check_against_checkpoint(job_of(alone), request_for(["2"]), alone) is False
    assert "warning: the job leaves parallelism 1" in " ".join(" ".join(caplog.messages).split())
