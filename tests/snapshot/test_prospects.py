"""Prospects of a snapshot on another release of Flink, by operator and state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.encoding.binary import ByteWriter
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader, read_operator_state_header
from rescale.flink.release_line import RELEASE_LINES, ReleaseLine, major_of_writer
from rescale.flink.serializers.release_rules import Restores
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.state_meta_info import StateKind, StateMetaInfo
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.prospects import ReleaseProspects, prospects
from rescale.snapshot.reading.opening import open_snapshot
from support.snapshot_bytes import operator_header
from support.snapshot_bytes import operator_list as operator_list_bytes
from support.snapshots import FIXTURES, names, opened
from support.synthetic import element_stream, operator, own_stream, snapshot

NEWEST = RELEASE_LINES[-1]
LONG = SerializerSnapshot("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot", 3, b"")
BYTES = SerializerSnapshot(
    "org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot",
    3,
    b"",
)
KRYO = SerializerSnapshot(
    "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot",
    2,
    b"",
    attributes=(("class", "java.util.ArrayList"),),
)
UNIT = SerializerSnapshot("org.apache.flink.api.scala.typeutils.UnitSerializer$UnitSerializerSnapshot", 3, b"")


def state(name: str, value: SerializerSnapshot) -> StateMetaInfo:
    return StateMetaInfo(name, StateKind.KEY_VALUE, (), (("VALUE_SERIALIZER", value),), b"")


def list_state(name: str) -> StateMetaInfo:
    return StateMetaInfo(name, StateKind.OPERATOR, (), (("VALUE_SERIALIZER", BYTES),), b"")


def keyed_operator(header: KeyedHeader | bytes, framing: Framing = Framing.CANONICAL) -> Operator:
    return operator("counts", keyed=tuple(own_stream(i, 2, 128, framing, header) for i in range(2)))


def flink_1_snapshot(*operators: Operator) -> Snapshot:
    flink_2_snapshot = snapshot(*operators)
    return replace(flink_2_snapshot, metadata=replace(flink_2_snapshot.metadata, version=4))


def restores_by_state(prospect: ReleaseProspects) -> dict[str, str]:
    (operator,) = prospect.operators
    return {state.name: state.restores for state in operator.states}


@pytest.mark.parametrize("line", RELEASE_LINES, ids=str)
def test_real_snapshots_have_the_expected_prospects(line: ReleaseLine) -> None:
    """A newer line restores all states except those of special types; an older line restores nothing."""
    unknown = {"raw keyed state", "raw", "raw operator state", "records in flight", "changelog"}
    unknown |= {"coordinator", "SourceReaderState"}
    assert len(names()) > 40
    for name in names():
        prospect = prospects(opened(name), line)
        version = opened(name).metadata.version
        states = [state for operator in prospect.operators for state in operator.states]
        assert states, name
        if version > line.metadata_version:
            assert prospect.reason is not None
            assert {state.restores for state in states} == {Restores.NO}
        elif major_of_writer(version) < line.major or line == NEWEST:
            assert prospect.reason is None
            if name == "1.18.1-types":
                assert {operator.restores for operator in prospect.operators} == (
                    set(Restores) if line.major == 2 else {Restores.YES}
                )
                continue
            assert {state.name for state in states if state.restores != Restores.YES} <= unknown, name


@pytest.mark.parametrize("line", RELEASE_LINES, ids=str)
def test_merged_files_are_restored_from_flink_1_20_on(line: ReleaseLine) -> None:
    """Older releases know no tag of a segment, and refuse the whole `_metadata`, although they read its version."""
    prospect = prospects(opened("1.20-file-merging"), line)
    reads_segments = line >= ReleaseLine(1, 20)
    assert (prospect.reason is None) is reads_segments
    assert prospect.restores == (Restores.YES if reads_segments else Restores.NO)


def test_prospects_list_every_state() -> None:
    for name in names():
        source = opened(name)
        for prospect, source_operator in zip(prospects(source, NEWEST).operators, source.operators, strict=True):
            state_names = {state.name for state in source_operator.keyed_states}
            state_names |= {state.name for stream in source_operator.element_streams for state in stream.states}
            assert state_names <= {state.name for state in prospect.states}, name


def test_unrestorable_state_affects_other_states_only_in_the_heap_format() -> None:
    header = KeyedHeader(False, LONG, (state("sum", LONG), state("pages", KRYO)))
    assert restores_by_state(prospects(flink_1_snapshot(keyed_operator(header)), NEWEST)) == {
        "sum": "yes",
        "pages": "no",
    }
    heap_prospects = prospects(flink_1_snapshot(keyed_operator(header, Framing.HEAP)), NEWEST)
    assert restores_by_state(heap_prospects) == {"sum": "unknown", "pages": "no"}
    assert heap_prospects.operators[0].states[0].reason is not None
    assert heap_prospects.operators[0].states[0].reason.why.startswith("its file also holds pages,")
    assert restores_by_state(prospects(flink_1_snapshot(keyed_operator(header)), ReleaseLine(1, 18))) == {
        "sum": "yes",
        "pages": "yes",
    }
    assert restores_by_state(prospects(snapshot(keyed_operator(header)), NEWEST)) == {"sum": "yes", "pages": "yes"}


def test_buffered_rows_of_an_unbounded_over_have_an_unknown_prospect() -> None:
    def over_header(*other_states: str) -> KeyedHeader:
        return KeyedHeader(False, LONG, tuple(state(name, LONG) for name in ("accState", "inputState", *other_states)))

    unbounded_prospects = prospects(flink_1_snapshot(keyed_operator(over_header("distinctAcc_0"))), NEWEST)
    assert restores_by_state(unbounded_prospects) == {
        "accState": "yes",
        "inputState": "unknown",
        "distinctAcc_0": "yes",
    }
    reason = unbounded_prospects.operators[0].states[1].reason
    assert reason is not None
    assert reason.way.endswith("table.exec.unbounded-over.version: 1")
    for other_state in ("lastTriggeringTsState", "cleanupTsState", "smallestTSState"):
        assert set(
            restores_by_state(prospects(flink_1_snapshot(keyed_operator(over_header(other_state))), NEWEST)).values()
        ) == {"yes"}
    assert set(
        restores_by_state(prospects(flink_1_snapshot(keyed_operator(over_header())), ReleaseLine(1, 20))).values()
    ) == {"yes"}
    assert set(restores_by_state(prospects(snapshot(keyed_operator(over_header())), NEWEST)).values()) == {"yes"}


def test_removed_class_fails_all_states_of_the_operator() -> None:
    header = KeyedHeader(False, LONG, (state("sum", LONG), state("nothing", UNIT)))
    assert restores_by_state(prospects(flink_1_snapshot(keyed_operator(header)), NEWEST)) == {
        "sum": "no",
        "nothing": "no",
    }


def test_unrestorable_key_fails_all_states() -> None:
    header = KeyedHeader(False, KRYO, (state("sum", LONG),))
    prospect = prospects(flink_1_snapshot(keyed_operator(header)), NEWEST)
    assert restores_by_state(prospect) == {"sum": "no"}
    assert prospect.operators[0].states[0].reason is not None
    assert prospect.operators[0].states[0].reason.why.startswith("its key: ")


def header_hidden_by(class_name: str) -> bytes:
    out = ByteWriter()
    out.i32(6)
    out.boolean(False)
    out.i32(2)
    out.utf(class_name)
    out.i32(1)
    return out.bytes()


@pytest.mark.parametrize(
    ("header", "restores", "message"),
    [
        (header_hidden_by("com.x.MySerializerSnapshot"), "unknown", "com.x.MySerializerSnapshot is no class of Flink"),
        (header_hidden_by("org.apache.flink.api.scala.typeutils.NewerSnapshot"), "no", "a class of an older Flink"),
        (b"", "unknown", "is missing"),
    ],
)
def test_unreadable_header_decides_the_prospect_of_all_keyed_state(header: bytes, restores: str, message: str) -> None:
    prospect = prospects(flink_1_snapshot(keyed_operator(header)), NEWEST)
    assert restores_by_state(prospect) == {"keyed state": restores}
    assert prospect.operators[0].states[0].reason is not None
    assert message in prospect.operators[0].states[0].reason.why


def test_prospects_of_sources_and_sinks_follow_from_state_names() -> None:
    restores_by_name_and_line = {}
    for name in ("1.17.2-consumer", "1.20-consumer", "1.20-source"):
        kafka_snapshot = open_snapshot(str(FIXTURES / "kafka" / name / "snapshot"))
        for line in ("1.20", "2.3"):
            (release,) = (release_line for release_line in RELEASE_LINES if str(release_line) == line)
            release_prospects = prospects(kafka_snapshot, release, kafka_offsets(kafka_snapshot))
            restores_by_name_and_line[name, line] = {
                s.name: s.restores for operator in release_prospects.operators for s in operator.states
            }
    for name in ("1.17.2-consumer", "1.20-consumer"):
        assert restores_by_name_and_line[name, "2.3"]["topic-partition-offset-states"] == "no"
        assert restores_by_name_and_line[name, "1.20"]["topic-partition-offset-states"] == "yes"
    assert restores_by_name_and_line["1.20-source", "2.3"] == {"SourceReaderState": "yes", "coordinator": "yes"}
    assert set(restores_by_name_and_line["1.20-source", "1.20"].values()) == {"unknown"}
    source = open_snapshot(str(FIXTURES / "kafka" / "1.20-source" / "snapshot"))
    assert {s.restores for operator in prospects(source, NEWEST).operators for s in operator.states} == {
        Restores.UNKNOWN
    }


@pytest.mark.parametrize(
    "name",
    [
        "writer_raw_states",
        "streaming_committer_raw_states",
        "remaining_compact_commit_raw_state",
        "remaining_requests_raw_state",
        "bucket-states",
    ],
)
def test_sink_state_in_a_format_of_its_own_has_an_unknown_prospect(name: str) -> None:
    """The operator has another state of the same type, which is the job's own and is restored."""
    split = DistributionMode.SPLIT_DISTRIBUTE
    header = OperatorStateHeader(6, False, tuple(list_state(state) for state in (name, "words")), ())
    elements = tuple(element_stream(i, {name: (split, 1), "words": (split, 1)}, header) for i in range(2))
    restores = restores_by_state(prospects(flink_1_snapshot(operator("sink", elements=elements)), NEWEST))
    assert restores == {name: "unknown", "words": "yes"}


def test_state_without_types_has_an_unknown_prospect() -> None:
    raw = tuple(own_stream(i, 2, 128, Framing.RAW) for i in range(2))
    elements_of_words = (element_stream(0, {"words": (DistributionMode.SPLIT_DISTRIBUTE, 2)}),)
    restores = restores_by_state(
        prospects(
            flink_1_snapshot(operator("a", raw_keyed=raw, raw_elements=elements_of_words, channel_bytes=9)), NEWEST
        )
    )
    assert restores == dict.fromkeys(("raw keyed state", "raw operator state", "records in flight"), "unknown")


@pytest.mark.parametrize(("line", "restores"), [((1, 18), "unknown"), ((1, 20), "no"), (NEWEST, "no")])
def test_compressed_elements_that_share_an_offset_are_misread(line: tuple[int, int], restores: str) -> None:
    header = read_operator_state_header(operator_header((operator_list_bytes("l"),), compressed=True), "a file")
    stream = element_stream(0, {"l": (DistributionMode.SPLIT_DISTRIBUTE, 2)}, header)
    lists_snapshot = flink_1_snapshot(operator("lists", elements=(stream,)))
    assert restores_by_state(prospects(lists_snapshot, ReleaseLine(*line))) == {"l": "yes"}
    (elements,) = stream.states
    sharing_stream = replace(stream, states=(replace(elements, elements=elements.elements[:1] * 2),))
    lists_snapshot = flink_1_snapshot(operator("lists", elements=(sharing_stream,)))
    assert restores_by_state(prospects(lists_snapshot, ReleaseLine(*line))) == {"l": restores}


def test_operator_has_the_prospect_of_its_worst_state() -> None:
    header = KeyedHeader(False, LONG, (state("sum", LONG), state("pages", KRYO)))
    prospect = prospects(flink_1_snapshot(keyed_operator(header), operator("map")), NEWEST)
    assert [operator.restores for operator in prospect.operators] == ["no", "yes"]
