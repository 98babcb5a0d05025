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
CANONICAL_ADVICE = "--type canonical"

Captured = pytest.CaptureFixture[str]
Change = Callable[[Path], object]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a native savepoint of RocksDB to change."""
    return edited.relocated(NATIVE, tmp_path / "source")


def refusal(capsys: Captured, source: Path | str, target: Path, *options: str) -> Any:
    """Return the error that a run ends with, after checking that nothing was written."""
    code = main(["run", str(source), "--target", str(target), *options, "--output", "json"])
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
    edited.edit_operators(
        source, lambda entry: _with_changed_channels(entry, lambda channel: replace(channel, state_size=0))
    )
    assert "records in flight" in refusal(capsys, source, tmp_path / "target")["what"]


@pytest.mark.parametrize("name", ["1.20-unaligned", "2-unaligned"])
def test_unaligned_checkpoint_without_records_in_flight_is_rescaled(name: str, tmp_path: Path) -> None:
    source = edited.relocated(name, tmp_path / "source")
    edited.edit_operators(source, lambda entry: _with_changed_channels(entry, None))
    assert execute_without_spark(plan_rescale(str(source), str(tmp_path / "target"), ["3"]))


def _with_changed_channels(entry: OperatorState, change: Callable[[Any], Any] | None) -> OperatorState:
    def change_subtask(subtask: Any) -> Any:
        if subtask.state is None:
            return subtask
        channels_by_side = {
            side: tuple(map(change, getattr(subtask.state, side))) if change else ()
            for side in ("input_channels", "output_channels")
        }
        return replace(subtask, state=replace(subtask.state, **channels_by_side))

    return replace(entry, subtasks=tuple(map(change_subtask, entry.subtasks)))


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
    allowed_prefix = str(tmp_path / "source" / "changelog")
    error = refusal(capsys, source, tmp_path / "target", "--format", "canonical", "--allow-prefix", allowed_prefix)
    assert error["what"] == "files that the snapshot refers to are gone"
    assert allowed_prefix in error["found"]


@pytest.mark.parametrize("result_format", ["keep", "canonical"])
def test_changelog_without_changes_is_rescaled(source: Path, result_format: str, tmp_path: Path) -> None:
    def wrap_in_changelog(handle: IncrementalHandle) -> ChangelogHandle:
        ids = {"materialization_id": 1, "handle_id": "a", "checkpoint_id": 1}
        return ChangelogHandle(
            HandleTag.CHANGELOG_V2, handle.first_key_group, handle.key_group_count, 0, (handle,), (), **ids
        )

    edited.edit_databases(source, wrap_in_changelog)
    execute_without_spark(plan_rescale(str(source), str(tmp_path / "target"), format=result_format))
    if result_format == "canonical":
        plain_target = tmp_path / "plain"
        execute_without_spark(plan_rescale(snapshots.directory(NATIVE), str(plain_target), format=result_format))
        assert keyed_state(tmp_path / "target") == keyed_state(plain_target) != []


def keyed_state(directory: Path) -> list[tuple[int, bytes]]:
    snapshot = open_snapshot(str(directory))
    return [group for operator in snapshot.operators for s in operator.keyed for group in contents(snapshot, s)]


@pytest.mark.parametrize("result_format", ["keep", "canonical"])
def test_state_of_the_forst_backend_is_refused(
    capsys: Captured, source: Path, result_format: str, tmp_path: Path
) -> None:
    """ForSt writes the same handles as RocksDB, but its states have another kind (`KEY_VALUE_V2`)."""

    def change_to_forst(stream: Any) -> Any:
        path = source / stream.path if isinstance(stream, RelativeFileStream) else None
        if path is not None and b"clicks" in (data := path.read_bytes()) and path.name != "_metadata":
            name = struct.pack(">H", len(b"clicks")) + b"clicks"
            kinds = (struct.pack(">i", kind) for kind in (StateKind.KEY_VALUE, StateKind.KEY_VALUE_V2))
            old, new = (name + kind for kind in kinds)
            path.write_bytes(data.replace(old, new))
        return stream

    edited.edit(source, lambda metadata: edited.with_streams(metadata, change_to_forst))
    error = refusal(capsys, source, tmp_path / "target", "--format", result_format)
    assert "ForSt" in error["what"]
    assert error["state"] == "clicks"
    assert "Flink itself" in error["advice"]


def rocksdb_rewrite(options: str) -> Change:
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


def manifest_addition(payload: bytes) -> Change:
    """Return a change that adds a record to every MANIFEST."""

    def extend(data: bytes) -> bytes:
        return log(*(record.payload for record in read_log(data, "")), payload)

    return lambda source: edited.edit_files(source, "MANIFEST", extend)


def file_addition(name: str) -> Change:
    """Return a change that adds a file to every directory."""

    def change(source: Path) -> None:
        (source / "more").write_bytes(b"x")
        added_file = RocksdbFile(name, RelativeFileStream("more", 1))
        edited.edit_databases(source, lambda handle: replace(handle, private=(*handle.private, added_file)))

    return change


def file_removal(suffix: str) -> Change:
    """Return a change that removes the files with this suffix from the handles."""

    def remaining_files(files: tuple[RocksdbFile, ...]) -> tuple[RocksdbFile, ...]:
        return tuple(file for file in files if not file.name.endswith(suffix))

    return lambda source: edited.edit_databases(
        source,
        lambda handle: replace(handle, shared=remaining_files(handle.shared), private=remaining_files(handle.private)),
    )


def content_change(name_start: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda source: edited.edit_files(source, name_start, change)


def mix_kinds_of_keyed_state(source: Path) -> None:
    """Replace the RocksDB directory of the first subtask by a stream of key groups."""

    def replace_handle(handle: IncrementalHandle) -> Any:
        if handle.first_key_group:
            return handle
        offsets = (0,) * handle.key_group_count
        return KeyGroupsHandle(HandleTag.SAVEPOINT_KEY_GROUPS, 0, offsets, handle.meta)

    edited.edit_databases(source, replace_handle)


def finish_all_but_first_subtask(source: Path) -> None:
    def finish(subtask: Subtask) -> Subtask:
        return replace(subtask, finished=True, state=None) if subtask.index else subtask

    edited.edit_operators(source, lambda entry: replace(entry, subtasks=tuple(map(finish, entry.subtasks))))


def raise_parallelism_above_key_groups(source: Path) -> None:
    edited.edit_operators(source, lambda entry: replace(entry, parallelism=entry.max_parallelism + 1))


def header_change(old: bytes, new: bytes) -> Change:
    """Return a change that replaces `old` by `new` in the descriptions of the first subtask's states."""

    def change(source: Path) -> None:
        meta_paths: list[Path] = []

        def collect_meta(handle: IncrementalHandle) -> IncrementalHandle:
            assert isinstance(handle.meta, RelativeFileStream)
            meta_paths.append(source / handle.meta.path)
            return handle

        edited.edit_databases(source, collect_meta)
        data = meta_paths[0].read_bytes()
        assert old in data
        meta_paths[0].write_bytes(data.replace(old, new, 1))

    return change


def with_flipped_bit(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


STRING, DOUBLE, LONG, DATE = (
    f"base.{name}Serializer${name}SerializerSnapshot".encode() for name in ("String", "Double", "Long", "Date")
)

REFUSED_CHANGES: dict[str, tuple[Change, str, str]] = {
    "blob files": (rocksdb_rewrite(f"enable_blob_files=1;min_blob_size=0;{MERGE}"), "blob files", CANONICAL_ADVICE),
    "another comparator": (
        rocksdb_rewrite(f"comparator=rocksdb.ReverseBytewiseComparator;{MERGE}"),
        "a comparator other than Flink's",
        CANONICAL_ADVICE,
    ),
    "another delimiter": (
        rocksdb_rewrite("merge_operator={id=StringAppendTESTOperator;delimiter=|}"),
        "a merge operator other than Flink's",
        CANONICAL_ADVICE,
    ),
    "another merge operator": (
        rocksdb_rewrite("merge_operator=uint64add"),
        "a merge operator other than",
        CANONICAL_ADVICE,
    ),
    "files elsewhere": (
        manifest_addition(new_file(40, tag=102, path_id=varint(1)) + number(200, 1)),
        "several directories",
        CANONICAL_ADVICE,
    ),
    "timestamps": (manifest_addition(text(8198, b"\1")), "keys with timestamps", CANONICAL_ADVICE),
    "timestamps that are not kept": (manifest_addition(text(8201, b"\0")), "keys with timestamps", CANONICAL_ADVICE),
    "blob files in the history": (manifest_addition(number(400, 1)), "blob files", CANONICAL_ADVICE),
    **{
        f"tag {tag}": (manifest_addition(number(tag, 1)), "an unknown field", CANONICAL_ADVICE)
        for tag in (7, 11, 8196, 8197, 8202, 9000)
    },
    "tag 66 of a file": (
        manifest_addition(new_file(40, custom=text(66, b"x")) + number(200, 1)),
        "an unknown field",
        CANONICAL_ADVICE,
    ),
    "a write-ahead log": (file_addition("000099.log"), "write-ahead log", CANONICAL_ADVICE),
    "a file of blobs": (file_addition("000099.blob"), "blob files", CANONICAL_ADVICE),
    "an unknown file": (file_addition("LOG"), "a file of an unknown kind", CANONICAL_ADVICE),
    "a torn history": (content_change("MANIFEST", lambda data: data[:-3]), "ends inside a record", "another snapshot"),
    "a damaged history": (content_change("MANIFEST", with_flipped_bit), "checksum", "another snapshot"),
    "two histories": (file_addition("MANIFEST-000099"), "one CURRENT and one MANIFEST", "another snapshot"),
    "no history": (file_removal("MANIFEST-000005"), "one CURRENT and one MANIFEST", "another snapshot"),
    "no CURRENT": (file_removal("CURRENT"), "one CURRENT and one MANIFEST", "another snapshot"),
    "CURRENT names another MANIFEST": (
        content_change("CURRENT", lambda _: b"MANIFEST-000099\n"),
        "names another MANIFEST",
        "another snapshot",
    ),
    "an SST file is missing": (file_removal("000020.sst"), "list different SST files", "another snapshot"),
    "an SST file too many": (file_addition("000099.sst"), "list different SST files", "another snapshot"),
    "an SST file was cut": (
        content_change("000020.sst", lambda data: data[:-1]),
        "differs from the MANIFEST",
        "another snapshot",
    ),
    "kinds are mixed": (mix_kinds_of_keyed_state, "keyed state of different kinds", "another snapshot"),
    "finished subtasks": (
        finish_all_but_first_subtask,
        "some subtasks of this operator have finished",
        "before subtasks",
    ),
    "parallelism": (raise_parallelism_above_key_groups, "an impossible parallelism", "another snapshot"),
    "key serializers differ": (header_change(STRING, DOUBLE), "key serializers", "another snapshot"),
    "states differ": (header_change(LONG, DATE), "registered the same state in different ways", "same types"),
}


@pytest.mark.parametrize("change_name", REFUSED_CHANGES)
def test_unsupported_or_damaged_rocksdb_directory_is_refused(
    capsys: Captured, source: Path, change_name: str, tmp_path: Path
) -> None:
    change, message, advice = REFUSED_CHANGES[change_name]
    change(source)
    error = refusal(capsys, source, tmp_path / "target", "--format", "canonical")
    assert message in error["what"], error
    assert advice in error["advice"], error
    if change_name != "parallelism":
        assert error["operator"], error


@pytest.mark.parametrize("change_name", ["kinds are mixed", "key serializers differ", "states differ"])
def test_inspection_says_beforehand_what_a_run_refuses(
    capsys: Captured, source: Path, change_name: str, tmp_path: Path
) -> None:
    REFUSED_CHANGES[change_name][0](source)
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
    assert CANONICAL_ADVICE in error["advice"]
