"""Refusals of `rescale run` have exit code 3, a reason and advice, and write nothing; similar snapshots run."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.cli.main import main
from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    HandleTag,
    IncrementalHandle,
    KeyGroupsHandle,
    RelativeFileStream,
    RocksdbFile,
)
from rescale.flink.state_meta_info import StateKind
from rescale.rocksdb.manifest.log_framing import read_log
from rescale.snapshot.reading.opening import open_snapshot
from support import edited, snapshots
from support.databases import databases
from support.heap import without_longs
from support.java_values import varint
from support.manifests import log, new_file, number, text
from support.pipeline import execute_without_spark, plan_rescale
from support.rekeyed import contents
from support.rocksdb_writer import MERGE, written

NATIVE = "2-rocksdb-native"
CANONICAL = "--type canonical"

Captured = pytest.CaptureFixture[str]
Change = Callable[[Path], object]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a native savepoint of RocksDB to change."""
    return edited.relocated(NATIVE, tmp_path / "source")


def refusal(capsys: Captured, source: Path | str, target: Path, *more: str) -> Any:
    """Return the error that a run ends with, after checking that nothing was written."""
    code = main(["run", str(source), "--target", str(target), *more, "--output", "json"])
    error = json.loads(capsys.readouterr().out)
    assert code == error["exit_code"] == 3, error
    assert error["advice"]
    assert not list(target.parent.glob(f"{target.name}*"))
    return error


@pytest.mark.parametrize("size", [0, 1000])
def test_truncated_metadata_is_refused(capsys: Captured, source: Path, size: int, tmp_path: Path) -> None:
    metadata = source / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:size])
    error = refusal(capsys, source, tmp_path / "target")
    assert error["what"] == "the data ends too early"
    assert "another snapshot" in error["advice"]


@pytest.mark.parametrize("name", ["1.20-unaligned", "2-unaligned"])
def test_unaligned_checkpoint_is_refused(capsys: Captured, name: str, tmp_path: Path) -> None:
    error = refusal(capsys, snapshots.directory(name), tmp_path / "target")
    assert "records in flight" in error["what"]
    assert "take a savepoint or an aligned checkpoint" in error["advice"]
    assert "If the job no longer runs, first start it from this checkpoint at its old parallelism" in error["advice"]
    assert "execution.checkpointing.aligned-checkpoint-timeout" in error["advice"]


@pytest.mark.parametrize("name", ["1.20-unaligned", "2-unaligned"])
def test_unaligned_checkpoint_is_refused_though_its_handles_give_no_size(
    capsys: Captured, name: str, tmp_path: Path
) -> None:
    source = edited.relocated(name, tmp_path / "source")
    edited.edit_operators(source, lambda entry: _with_channels(entry, lambda channel: replace(channel, state_size=0)))
    assert "records in flight" in refusal(capsys, source, tmp_path / "target")["what"]


@pytest.mark.parametrize("name", ["1.20-unaligned", "2-unaligned"])
def test_unaligned_checkpoint_without_records_in_flight_is_rescaled(name: str, tmp_path: Path) -> None:
    source = edited.relocated(name, tmp_path / "source")
    edited.edit_operators(source, lambda entry: _with_channels(entry, None))
    assert execute_without_spark(plan_rescale(str(source), str(tmp_path / "target"), ["3"]))


def _with_channels(entry: OperatorState, change: Callable[[Any], Any] | None) -> OperatorState:
    def changed(subtask: Any) -> Any:
        if subtask.state is None:
            return subtask
        both = {
            side: tuple(map(change, getattr(subtask.state, side))) if change else ()
            for side in ("input_channels", "output_channels")
        }
        return replace(subtask, state=replace(subtask.state, **both))

    return replace(entry, subtasks=tuple(map(changed, entry.subtasks)))


@pytest.mark.parametrize("name", ["1.20-changelog", "2-changelog"])
def test_keeping_the_format_of_a_changelog_with_changes_is_refused(capsys: Captured, name: str, tmp_path: Path) -> None:
    source = edited.relocated(name, tmp_path / "source")
    assert "--allow-prefix" in refusal(capsys, source, tmp_path / "target")["advice"]
    error = refusal(capsys, source, tmp_path / "target", "--allow-prefix", str(tmp_path / "source" / "changelog"))
    assert "kept in a changelog, which Rescale cannot write" in error["what"]
    assert "--format canonical" in error["advice"]


def test_changelog_whose_file_is_gone_is_refused_for_this_file(capsys: Captured, tmp_path: Path) -> None:
    """Without the file, the serializer of the keys is unknown, too, but the error names the missing file."""
    source = edited.relocated("2-changelog", tmp_path / "source")
    for file in (tmp_path / "source" / "changelog").rglob("*"):
        file.unlink() if file.is_file() else None
    allowed = str(tmp_path / "source" / "changelog")
    error = refusal(capsys, source, tmp_path / "target", "--format", "canonical", "--allow-prefix", allowed)
    assert error["what"] == "files that the snapshot refers to are gone"
    assert allowed in error["found"]


@pytest.mark.parametrize("result_format", ["keep", "canonical"])
def test_changelog_without_changes_is_rescaled(source: Path, result_format: str, tmp_path: Path) -> None:
    def wrapped(handle: IncrementalHandle) -> ChangelogHandle:
        ids = {"materialization_id": 1, "handle_id": "a", "checkpoint_id": 1}
        return ChangelogHandle(
            HandleTag.CHANGELOG_V2, handle.first_key_group, handle.key_group_count, 0, (handle,), (), **ids
        )

    edited.edit_databases(source, wrapped)
    execute_without_spark(plan_rescale(str(source), str(tmp_path / "target"), format=result_format))
    if result_format == "canonical":
        plain = tmp_path / "plain"
        execute_without_spark(plan_rescale(snapshots.directory(NATIVE), str(plain), format=result_format))
        assert keyed_state(tmp_path / "target") == keyed_state(plain) != []


def keyed_state(directory: Path) -> list[tuple[int, bytes]]:
    snapshot = open_snapshot(str(directory))
    return [group for operator in snapshot.operators for s in operator.keyed for group in contents(snapshot, s)]


@pytest.mark.parametrize("result_format", ["keep", "canonical"])
def test_state_of_the_forst_backend_is_refused(
    capsys: Captured, source: Path, result_format: str, tmp_path: Path
) -> None:
    """ForSt writes the same handles as RocksDB, but its states have another kind (`KEY_VALUE_V2`)."""

    def of_forst(stream: Any) -> Any:
        path = source / stream.path if isinstance(stream, RelativeFileStream) else None
        if path is not None and b"clicks" in (data := path.read_bytes()) and path.name != "_metadata":
            name = struct.pack(">H", len(b"clicks")) + b"clicks"
            kinds = (struct.pack(">i", kind) for kind in (StateKind.KEY_VALUE, StateKind.KEY_VALUE_V2))
            old, new = (name + kind for kind in kinds)
            path.write_bytes(data.replace(old, new))
        return stream

    edited.edit(source, lambda metadata: edited.with_streams(metadata, of_forst))
    error = refusal(capsys, source, tmp_path / "target", "--format", result_format)
    assert "ForSt" in error["what"]
    assert error["state"] == "clicks"
    assert "Flink itself" in error["advice"]


def with_written(options: str) -> Change:
    """Return a change that replaces every RocksDB directory by one that RocksDB wrote with these options."""

    def change(source: Path) -> None:
        states = databases(NATIVE)[0].states
        with written(source.parent / "written", states, options) as writer:
            for state in states:
                writer.put(state, b"\1key", b"value" * 100)
            writer.flush()
            writer.checkpoint(source.parent / "checkpoint")
        edited.put_database(source, source.parent / "checkpoint")

    return change


def with_edit(payload: bytes) -> Change:
    """Return a change that adds a record to every MANIFEST."""

    def extended(data: bytes) -> bytes:
        return log(*(record.payload for record in read_log(data, "")), payload)

    return lambda source: edited.edit_files(source, "MANIFEST", extended)


def with_file(name: str) -> Change:
    """Return a change that adds a file to every directory."""

    def change(source: Path) -> None:
        (source / "more").write_bytes(b"x")
        more = RocksdbFile(name, RelativeFileStream("more", 1))
        edited.edit_databases(source, lambda handle: replace(handle, private=(*handle.private, more)))

    return change


def without_file(kind: str) -> Change:
    """Return a change that removes the files with this suffix from the handles."""

    def left(files: tuple[RocksdbFile, ...]) -> tuple[RocksdbFile, ...]:
        return tuple(file for file in files if not file.name.endswith(kind))

    return lambda source: edited.edit_databases(
        source, lambda handle: replace(handle, shared=left(handle.shared), private=left(handle.private))
    )


def with_content(kind: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda source: edited.edit_files(source, kind, change)


def with_a_stream(source: Path) -> None:
    """Replace the RocksDB directory of the first subtask by a stream of key groups."""

    def changed(handle: IncrementalHandle) -> Any:
        if handle.first_key_group:
            return handle
        offsets = (0,) * handle.key_group_count
        return KeyGroupsHandle(HandleTag.SAVEPOINT_KEY_GROUPS, 0, offsets, handle.meta)

    edited.edit_databases(source, changed)


def with_a_finished_subtask(source: Path) -> None:
    def changed(subtask: Subtask) -> Subtask:
        return replace(subtask, finished=True, state=None) if subtask.index else subtask

    edited.edit_operators(source, lambda entry: replace(entry, subtasks=tuple(map(changed, entry.subtasks))))


def with_more_subtasks_than_key_groups(source: Path) -> None:
    edited.edit_operators(source, lambda entry: replace(entry, parallelism=entry.max_parallelism + 1))


def with_other_headers(old: bytes, new: bytes) -> Change:
    """Return a change that replaces `old` by `new` in the descriptions of the first subtask's states."""

    def change(source: Path) -> None:
        metas: list[Path] = []

        def seen(handle: IncrementalHandle) -> IncrementalHandle:
            assert isinstance(handle.meta, RelativeFileStream)
            metas.append(source / handle.meta.path)
            return handle

        edited.edit_databases(source, seen)
        data = metas[0].read_bytes()
        assert old in data
        metas[0].write_bytes(data.replace(old, new, 1))

    return change


def flipped(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


STRING, DOUBLE, LONG, DATE = (
    f"base.{name}Serializer${name}SerializerSnapshot".encode() for name in ("String", "Double", "Long", "Date")
)

REFUSED: dict[str, tuple[Change, str, str]] = {
    "blob files": (with_written(f"enable_blob_files=1;min_blob_size=0;{MERGE}"), "blob files", CANONICAL),
    "another comparator": (
        with_written(f"comparator=rocksdb.ReverseBytewiseComparator;{MERGE}"),
        "a comparator other than Flink's",
        CANONICAL,
    ),
    "another delimiter": (
        with_written("merge_operator={id=StringAppendTESTOperator;delimiter=|}"),
        "a merge operator other than Flink's",
        CANONICAL,
    ),
    "another merge operator": (with_written("merge_operator=uint64add"), "a merge operator other than", CANONICAL),
    "files elsewhere": (
        with_edit(new_file(40, tag=102, path_id=varint(1)) + number(200, 1)),
        "several directories",
        CANONICAL,
    ),
    "timestamps": (with_edit(text(8198, b"\1")), "keys with timestamps", CANONICAL),
    "timestamps that are not kept": (with_edit(text(8201, b"\0")), "keys with timestamps", CANONICAL),
    "blob files in the history": (with_edit(number(400, 1)), "blob files", CANONICAL),
    **{
        f"tag {tag}": (with_edit(number(tag, 1)), "an unknown field", CANONICAL)
        for tag in (7, 11, 8196, 8197, 8202, 9000)
    },
    "tag 66 of a file": (
        with_edit(new_file(40, custom=text(66, b"x")) + number(200, 1)),
        "an unknown field",
        CANONICAL,
    ),
    "a write-ahead log": (with_file("000099.log"), "write-ahead log", CANONICAL),
    "a file of blobs": (with_file("000099.blob"), "blob files", CANONICAL),
    "an unknown file": (with_file("LOG"), "a file of an unknown kind", CANONICAL),
    "a torn history": (with_content("MANIFEST", lambda data: data[:-3]), "ends inside a record", "another snapshot"),
    "a damaged history": (with_content("MANIFEST", flipped), "checksum", "another snapshot"),
    "two histories": (with_file("MANIFEST-000099"), "one CURRENT and one MANIFEST", "another snapshot"),
    "no history": (without_file("MANIFEST-000005"), "one CURRENT and one MANIFEST", "another snapshot"),
    "no CURRENT": (without_file("CURRENT"), "one CURRENT and one MANIFEST", "another snapshot"),
    "CURRENT names another MANIFEST": (
        with_content("CURRENT", lambda _: b"MANIFEST-000099\n"),
        "names another MANIFEST",
        "another snapshot",
    ),
    "an SST file is missing": (without_file("000020.sst"), "list different SST files", "another snapshot"),
    "an SST file too many": (with_file("000099.sst"), "list different SST files", "another snapshot"),
    "an SST file was cut": (
        with_content("000020.sst", lambda data: data[:-1]),
        "differs from the MANIFEST",
        "another snapshot",
    ),
    "kinds are mixed": (with_a_stream, "keyed state of different kinds", "another snapshot"),
    "finished subtasks": (with_a_finished_subtask, "some subtasks of this operator have finished", "before subtasks"),
    "parallelism": (with_more_subtasks_than_key_groups, "an impossible parallelism", "another snapshot"),
    "key serializers differ": (with_other_headers(STRING, DOUBLE), "key serializers", "another snapshot"),
    "states differ": (with_other_headers(LONG, DATE), "registered the same state in different ways", "same types"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unsupported_or_damaged_rocksdb_directory_is_refused(
    capsys: Captured, source: Path, what: str, tmp_path: Path
) -> None:
    change, message, advised = REFUSED[what]
    change(source)
    error = refusal(capsys, source, tmp_path / "target", "--format", "canonical")
    assert message in error["what"], error
    assert advised in error["advice"], error
    if what != "parallelism":
        assert error["operator"], error


@pytest.mark.parametrize("what", ["kinds are mixed", "key serializers differ", "states differ"])
def test_inspection_says_beforehand_what_a_run_refuses(
    capsys: Captured, source: Path, what: str, tmp_path: Path
) -> None:
    REFUSED[what][0](source)
    error = refusal(capsys, source, tmp_path / "target", "--format", "canonical")
    assert main(["inspect", str(source), "--output", "json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.startswith(f"{error['operator']}: {error['what']}")
    assert error["found"] in warning
    assert warning.endswith(error["advice"])


@pytest.mark.parametrize(
    "arguments", [("--format", "canonical"), ("--format", "rocksdb"), ("--max-parallelism", "256")]
)
def test_heap_state_whose_entries_cannot_be_told_apart_is_refused(
    capsys: Captured, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    with without_longs():
        error = refusal(capsys, snapshots.directory("2-heap-native"), tmp_path / "target", *arguments)
    assert "entries of the heap's format have no lengths" in error["what"]
    assert "LongSerializerSnapshot" in error["what"]
    assert error["operator"]
    assert error["state"]
    assert CANONICAL in error["advice"]
