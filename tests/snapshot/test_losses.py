"""Warnings about state that Flink itself lost or mislaid when it wrote a snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.checkpoint_metadata import Subtask, SubtaskState
from rescale.flink.metadata.handles import FileStream, IncrementalHandle, RelativeFileStream, RocksdbFile, Stream
from rescale.snapshot.losses import lost_timer_warnings, mislaid_file_warnings
from rescale.snapshot.model import Operator, Snapshot
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header, state
from support.snapshot_bytes import snapshot as serializer
from support.synthetic import database, operator, own_stream, snapshot

WINDOWS = "org.apache.flink.streaming.api.windowing.windows."
TIME_WINDOW = serializer(f"{WINDOWS}TimeWindow$Serializer$TimeWindowSerializerSnapshot")
GLOBAL_WINDOW = serializer(f"{WINDOWS}GlobalWindow$Serializer$GlobalWindowSerializerSnapshot")


def header_of(name: str, namespace: bytes, kind: int = 0) -> KeyedHeader:
    options = {"KEYED_STATE_TYPE": "VALUE"}
    serializers = {"VALUE_SERIALIZER": LONG, "NAMESPACE_SERIALIZER": namespace}
    return read_keyed_header(keyed_header(state(name, kind, options, serializers)), "")


def rocksdb_operator(header: KeyedHeader, *, with_timers: bool = False) -> Operator:
    raw = (own_stream(0, 1, 128, Framing.RAW),) if with_timers else ()
    parsed_database = replace(database(0, 1, 128, 100), parsed=header)
    return operator("windows", 1, databases=(parsed_database,), raw_keyed=raw)


@pytest.mark.parametrize(
    ("name", "namespace", "is_warned"),
    [
        ("window-contents", TIME_WINDOW, True),
        ("window-contents", GLOBAL_WINDOW, False),
        ("count", VOID_NAMESPACE, False),
        ("nfaStateName", VOID_NAMESPACE, True),
        ("eventQueuesStateName", VOID_NAMESPACE, True),
    ],
)
def test_state_that_needs_timers_and_has_none_is_reported(name: str, namespace: bytes, *, is_warned: bool) -> None:
    warnings = list(lost_timer_warnings(snapshot(rocksdb_operator(header_of(name, namespace)))))
    assert bool(warnings) is is_warned
    assert all(warning.startswith("windows: ") for warning in warnings)


def test_state_with_timers_on_the_heap_or_in_rocksdb_is_not_reported() -> None:
    contents_header = header_of("window-contents", TIME_WINDOW)
    assert not list(lost_timer_warnings(snapshot(rocksdb_operator(contents_header, with_timers=True))))
    timer_header = header_of("_timer_state/event_window-timers", TIME_WINDOW, kind=3)
    joint_header = replace(contents_header, states=(*contents_header.states, *timer_header.states))
    assert not list(lost_timer_warnings(snapshot(rocksdb_operator(joint_header))))


def test_heap_streams_without_timers_are_not_reported() -> None:
    stream = own_stream(0, 1, 128, Framing.HEAP, header_of("window-contents", TIME_WINDOW))
    assert not list(lost_timer_warnings(snapshot(operator("windows", 1, keyed=(stream,)))))


def snapshot_with_shared_file(stream: Stream, directory: str, missing: tuple[str, ...]) -> Snapshot:
    file = RocksdbFile("000009.sst", stream)
    handle = IncrementalHandle(5, 1, "backend", 0, 128, None, FileStream("/meta", 1), (file,), (), None)
    plain = operator("counts", 1)
    subtasks = (Subtask(0, False, SubtaskState(managed_keyed=handle)),)
    entry = replace(plain.entry, subtasks=subtasks)
    return snapshot(replace(plain, entry=entry), missing=missing, directory=directory)


def test_missing_files_beside_the_metadata_of_a_checkpoint_are_reported() -> None:
    relative_stream, missing = RelativeFileStream("shared-1", 5), ("/jobs/chk-7/shared-1",)
    (warning,) = mislaid_file_warnings(snapshot_with_shared_file(relative_stream, "/jobs/chk-7", missing))
    assert warning.startswith(
        "1 files of RocksDB directories should be in /jobs/chk-7 and are not, such as /jobs/chk-7"
    )
    assert not list(mislaid_file_warnings(snapshot_with_shared_file(relative_stream, "/jobs/chk-7", ())))
    assert not list(
        mislaid_file_warnings(
            snapshot_with_shared_file(relative_stream, "/jobs/savepoint-7", ("/jobs/savepoint-7/shared-1",))
        )
    )
    assert not list(mislaid_file_warnings(snapshot_with_shared_file(FileStream(missing[0], 5), "/jobs/chk-7", missing)))
