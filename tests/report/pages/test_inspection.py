"""Inspection of snapshots of Flink."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode, IncrementalHandle, RelativeFileStream
from rescale.flink.release_line import RELEASE_LINES
from rescale.report.documents import InspectedOperator, InspectedState, Inspection
from rescale.report.pages.inspection import inspection, inspection_page
from rescale.report.renderers.markdown import render_markdown
from rescale.report.renderers.text import render_text
from rescale.snapshot.reading.opening import open_readable, open_snapshot
from support.edited import edit_databases, relocated
from support.snapshots import FIXTURES, directory, names, opened, uids
from support.synthetic import element_stream, operator, own_stream, snapshot


def inspection_of(name: str) -> Inspection:
    return inspection(opened(name))


def operator_of(document: Inspection, label: str) -> InspectedOperator:
    return next(operator for operator in document.operators if operator.label == label)


@pytest.mark.parametrize("name", names())
def test_inspection_is_json_with_every_operator_that_flink_lists(name: str) -> None:
    document = inspection_of(name)
    assert msgspec.json.decode(msgspec.json.encode(document), type=Inspection) == document
    expected = json.loads((FIXTURES / name / "expected.json").read_text())["metadata"]
    assert document.checkpoint_id == expected["checkpoint_id"]
    expected_shapes = {
        id_: (operator["parallelism"], operator["max_parallelism"]) for id_, operator in expected["operators"].items()
    }
    shapes = {operator.operator_id: (operator.parallelism, operator.max_parallelism) for operator in document.operators}
    assert shapes == expected_shapes


@pytest.mark.parametrize("name", names())
def test_text_of_an_inspection_has_every_operator_and_state(name: str) -> None:
    document = inspection_of(name)
    text = render_text(inspection_page(document))
    for shown_operator in document.operators:
        assert shown_operator.label in text
        assert all(state.name in text for state in shown_operator.states)
    assert all(warning in text for warning in document.warnings)


@pytest.mark.parametrize(
    ("name", "kind", "written_by"),
    [
        ("2-canonical-rocksdb", "canonical savepoint (canonical keyed state)", "Flink 2.1 to 2.3"),
        ("2.0.1-clicks", "canonical savepoint (canonical keyed state)", "Flink 2.0"),
        ("1.20-heap-native", "native savepoint (heap keyed state)", "Flink 1.18 to 1.20"),
        ("1.17.2-clicks", "canonical savepoint (canonical keyed state)", "Flink 1.16 or 1.17"),
        ("1.15.4-clicks", "savepoint (canonical keyed state)", "Flink 1.11 to 1.15"),
        ("1.20-rocksdb-native", "native savepoint (RocksDB keyed state)", "Flink 1.18 to 1.20"),
        ("1.20-changelog-over-heap", "checkpoint (changelog over heap keyed state)", "Flink 1.16 to 1.20"),
        ("2-changelog-over-rocksdb", "checkpoint (changelog over RocksDB keyed state)", "Flink 2.1 to 2.3"),
        ("2-heap-checkpoint", "checkpoint (heap keyed state)", "Flink 2.1 to 2.3"),
        ("2-source", "canonical savepoint (no keyed state)", "Flink 2.1 to 2.3"),
    ],
)
def test_inspection_has_the_kind_of_snapshot_and_the_flink_version(name: str, kind: str, written_by: str) -> None:
    document = inspection_of(name)
    assert (document.kind, document.written_by) == (kind, written_by)
    assert f"{kind}, written by {written_by}, checkpoint " in render_text(inspection_page(document))


@pytest.mark.parametrize(("known_uids", "is_asked_for"), [((), True), (uids("1.20-clicks"), False)])
def test_inspection_without_names_asks_for_a_list_of_uids(
    known_uids: tuple[tuple[str, str], ...], is_asked_for: bool
) -> None:
    text = render_text(inspection_page(inspection(open_snapshot(directory("1.20-clicks"), ids_and_labels=known_uids))))
    assert ("give a list of their uids" in text) == is_asked_for


@pytest.mark.parametrize("size", [None, 1])
def test_inspection_of_a_damaged_snapshot_estimates_no_restore(tmp_path: Path, size: int | None) -> None:
    """Flink restores no snapshot with a missing or truncated file, so its cost and its evenness would be wrong."""
    assert inspection_of("2-clicks").insight.restores
    source = relocated("2-clicks", tmp_path / "source")
    largest = max((file for file in source.iterdir() if file.name != "_metadata"), key=lambda file: file.stat().st_size)
    largest.unlink() if size is None else os.truncate(largest, size)
    document = inspection(open_readable(str(source)))
    assert not document.insight.restores
    assert bool(document.insight.shapes) == (size is not None)


def test_keyed_states_are_shown_with_their_types() -> None:
    states_operator = operator_of(inspection_of("2-lazy"), "states")
    assert states_operator.key == "String"
    types = {state.name: (state.type, state.content) for state in states_operator.states}
    assert types["sum"] == ("REDUCING", "Long")
    assert types["kinds"] == ("MAP", "Map<String, String>")
    assert types["average"] == ("AGGREGATING", "Tuple2<Long, Long>")
    assert types["kinds-for-a-while"] == ("MAP", "Map<String, TTL<Long>>")
    assert types["_timer_state/event_rounds"] == ("TIMERS", "Timer<String, String>")
    assert types["lazy-value"] == ("VALUE", "Long")


def test_operator_states_are_shown_with_their_distribution_modes() -> None:
    document = inspection_of("1.20-raw")
    types = {state.name: state.type for state in operator_of(document, "lists").states}
    assert types["offsets"] == "UNION"
    assert types["words"] == "SPLIT_DISTRIBUTE"
    assert types["rates"] == "BROADCAST"
    raw_operator = operator_of(document, "raw")
    assert raw_operator.remark == "raw keyed state"
    assert {state.type for state in raw_operator.states} == {"raw SPLIT_DISTRIBUTE"}


def test_timers_on_the_heap_are_shown_as_states() -> None:
    operator = operator_of(inspection_of("2-rocksdb-heap-timers"), "visits")
    assert operator.remark == "timers as raw keyed state"
    assert [state.name for state in operator.states if state.type == "TIMERS"] == [
        "_timer_state/processing_user-timers",
        "_timer_state/event_user-timers",
    ]


def test_heap_entries_that_cannot_be_delimited_are_remarked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert operator_of(inspection_of("2-heap-native"), "states").remark == ""
    monkeypatch.setattr("rescale.report.pages.inspection.can_delimit_entries", lambda _: False)
    remark = "heap entries that cannot be delimited"
    assert operator_of(inspection_of("2-heap-native"), "states").remark == remark


def test_elements_and_bytes_are_summed_over_subtasks() -> None:
    streams = tuple(element_stream(i, {"words": (DistributionMode.SPLIT_DISTRIBUTE, 2 - i)}) for i in range(2))
    (list_operator,) = inspection(snapshot(operator("lists", elements=streams))).operators
    assert list_operator.operator_bytes == 30
    assert list_operator.states == (InspectedState("words", "SPLIT_DISTRIBUTE", "3 elements, 30 bytes", 30),)


def test_broadcast_state_is_counted_in_copies() -> None:
    states = operator_of(inspection_of("2-clicks"), "revenue").states
    assert [state.content for state in states if state.type == "BROADCAST"] == ["4 copies, 292 bytes"]


@pytest.mark.parametrize(
    ("name", "label", "remark"),
    [
        ("2-finished", "short", "finished"),
        ("2-partially-finished", "short", "partly finished"),
        ("2-source", "numbers", "has a coordinator"),
    ],
)
def test_special_operator_has_a_remark(name: str, label: str, remark: str) -> None:
    document = inspection_of(name)
    assert remark in operator_of(document, label).remark.split(", ")
    assert remark in render_text(inspection_page(document))


def test_records_in_flight_are_remarked() -> None:
    assert any("in flight" in operator.remark for operator in inspection_of("1.20-unaligned").operators)


def test_checkpoint_gives_a_warning_and_savepoint_does_not() -> None:
    assert any("this is a checkpoint" in warning for warning in inspection_of("1.20-heap-checkpoint").warnings)
    assert inspection_of("1.20-heap-native").warnings == ()


@pytest.mark.parametrize("name", ["1.20-rocksdb-lost-timers", "2-rocksdb-lost-timers"])
def test_windows_by_time_without_timers_give_a_warning(name: str) -> None:
    """Windows by time need timers; windows that count elements do not."""
    document = inspection_of(name)
    (warning,) = document.warnings
    window_names, _, reason = warning.partition(": ")
    assert set(window_names.split(", ")) == {"tumbling", "session", "all"}
    assert "there are no timers" in reason
    assert "--type canonical" in reason
    assert warning in render_text(inspection_page(document))


@pytest.mark.parametrize("name", [name for name in names() if "-rocksdb-" in name and "lost" not in name])
def test_windows_with_timers_give_no_warning(name: str) -> None:
    assert [warning for warning in inspection_of(name).warnings if "this is a checkpoint" not in warning] == []


def test_files_that_flink_would_not_find_give_a_warning(tmp_path: Path) -> None:
    """After a restore in CLAIM mode, handles of files in the savepoint are relative to the checkpoint."""
    source = relocated("1.20-rocksdb-native-incremental", tmp_path / "job").rename(tmp_path / "job" / "chk-7")
    shared_names = [file.name for file in source.iterdir() if file.name in shared_files(source)]
    assert len(shared_names) > 2
    for name in shared_names[:2]:
        (source / name).rename(tmp_path / name)
    document = inspection(open_snapshot(str(source)))
    assert "CLAIM" in document.warnings[0]
    assert f"{min(shared_names[:2])}. Flink writes" in document.warnings[0]
    assert "such as" in document.warnings[0]
    assert all(any(name in warning for warning in document.warnings[1:]) for name in shared_names[:2])
    assert document.warnings[0] in render_text(inspection_page(document))
    (tmp_path / shared_names[0]).rename(source / shared_names[0])
    (tmp_path / shared_names[1]).rename(source / shared_names[1])
    assert not any("CLAIM" in warning for warning in inspection(open_snapshot(str(source))).warnings)


def shared_files(source: Path) -> set[str]:
    paths: set[str] = set()

    def collect_paths(handle: IncrementalHandle) -> IncrementalHandle:
        paths.update(file.stream.path for file in handle.shared if isinstance(file.stream, RelativeFileStream))
        return handle

    edit_databases(source, collect_paths)
    return paths


def test_rocksdb_directories_of_other_subtasks_give_a_warning(tmp_path: Path) -> None:
    """At the stored parallelism, Flink gives every subtask the handle with its number, without comparing key groups."""
    source = relocated("2-rocksdb-native", tmp_path)
    edit_databases(source, lambda handle: replace(handle, first_key_group=8 - handle.first_key_group))
    warnings = inspection(open_snapshot(str(source))).warnings
    assert any("subtask 0 of 2 owns key groups 0-7 but its keyed state holds 8-15" in warning for warning in warnings)
    edit_databases(source, lambda handle: replace(handle, first_key_group=0))
    warnings = inspection(open_snapshot(str(source))).warnings
    assert any("key group 0 lies in the keyed state of subtasks 0 and 1" in warning for warning in warnings)
    assert any("8 key groups lie in no subtask's keyed state, such as 8" in warning for warning in warnings)


def test_missing_files_of_a_snapshot_are_named() -> None:
    streams = tuple(own_stream(i, 2, 128, Framing.HEAP) for i in range(2))
    one_missing = inspection(snapshot(operator("counts", keyed=streams), missing=("/source/2",)))
    assert one_missing.warnings == ("files that the snapshot refers to are gone: /source/2",)
    many_missing = inspection(
        snapshot(operator("counts", keyed=streams), missing=tuple(f"/source/{i}" for i in range(2000)))
    )
    assert many_missing.warnings[0].endswith("/source/3, /source/4 and 1,995 more")
    assert len(many_missing.missing) == 2000


def test_bytes_of_an_inspection_add_up_and_cover_its_files() -> None:
    document = inspection_of("2-canonical-hashmap")
    files = {Path(uri) for uri, _ in opened("2-canonical-hashmap").files[1:]}
    assert document.files == len(files)
    assert sum(operator.keyed_bytes + operator.operator_bytes for operator in document.operators) == document.bytes
    assert document.bytes >= sum(path.stat().st_size for path in files)


def test_snapshot_without_a_valid_time_is_of_an_unknown_time() -> None:
    document = inspection_of("2-clicks")
    assert document.taken is not None
    assert document.taken in render_text(inspection_page(document))
    assert "its _metadata written at an unknown time\n" in render_text(
        inspection_page(structs.replace(document, taken=None))
    )


def test_inspection_for_another_flink_says_what_it_would_restore() -> None:
    assert inspection_of("1.20-clicks").for_flink is None
    consumer_snapshot = open_snapshot(str(FIXTURES / "kafka" / "1.20-consumer" / "snapshot"))
    (label,) = (operator.label for operator in consumer_snapshot.operators if operator.element_streams)
    document = inspection(consumer_snapshot, release_line=RELEASE_LINES[-1])
    for_flink = document.for_flink
    assert for_flink is not None
    assert (for_flink.release, for_flink.restores, for_flink.reason) == ("2.3", "no", None)
    (lost_operator,) = (operator for operator in for_flink.operators if operator.restores == "no")
    (state,) = lost_operator.states
    assert state.reason is not None
    assert (lost_operator.label, state.reason.flink_class) == (label, "FlinkKafkaConsumer")
    text = render_text(inspection_page(document))
    assert "What Flink 2.3 would restore" in text
    assert "1 operator of 2 as they are" in text
    assert f"no: {state.reason.why} (FlinkKafkaConsumer): {label} topic-partition-offset-states" in text
    assert f"{state.reason.way}: {label}" in text
    assert f"--target TARGET --drop {label}\n" in text
    assert "What Flink 2.3 would restore" in render_markdown(inspection_page(document))


def test_older_flink_restores_nothing_of_a_newer_snapshot() -> None:
    text = render_text(inspection_page(inspection(opened("2-clicks"), release_line=RELEASE_LINES[0])))
    assert "nothing: Flink 1.18 reads _metadata up to version 4, and this is version 6, of Flink 2.1 to 2.3" in text
    assert "--drop" not in text
