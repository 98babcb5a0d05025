"""Copies of committed snapshots: moved, with changed handles, or with changed content."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask
from rescale.flink.metadata.handles import (
    FileStream,
    IncrementalHandle,
    InlineStream,
    KeyedHandle,
    RelativeFileStream,
    RocksdbFile,
    SegmentStream,
)
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from support.snapshots import FIXTURES

STREAMS = (FileStream, InlineStream, RelativeFileStream, SegmentStream)


def relocated(name: str, folder: Path) -> Path:
    """Copy a fixture into `folder`, point its absolute handles to the copy, and return the snapshot's directory."""
    document = json.loads((FIXTURES / name / "expected.json").read_text())
    shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True)
    directory = folder / str(document["snapshot"])
    prefix = document["directory_prefix"]
    if prefix is not None:
        edit(directory, lambda metadata: repointed(metadata, lambda path: path.replace(prefix, str(folder))))
    return directory


def repointed(metadata: Metadata, place: Callable[[str], str]) -> Metadata:
    """Return the metadata with `place` applied to the paths of absolute handles."""

    def changed(stream: Any) -> Any:
        absolute = isinstance(stream, FileStream | SegmentStream)
        return replace(stream, path=place(stream.path)) if absolute else stream

    return with_streams(metadata, changed)


def with_streams(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with `change` applied to every stream handle in it."""
    if isinstance(value, STREAMS):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **{name: with_streams(part, change) for name, part in parts.items()})
    return tuple(with_streams(part, change) for part in value) if isinstance(value, tuple) else value


def edit(directory: Path, change: Callable[[Metadata], Metadata]) -> None:
    file = directory / "_metadata"
    file.write_bytes(write_metadata(change(read_metadata(file.read_bytes(), str(file)))))


def edit_databases(directory: Path, change: Callable[[IncrementalHandle], KeyedHandle]) -> None:
    """Change the handles of all RocksDB directories."""
    edit(directory, lambda metadata: with_databases(metadata, change))


def with_databases(metadata: Metadata, change: Callable[[IncrementalHandle], KeyedHandle]) -> Metadata:
    """Return the metadata with `change` applied to the handles of all RocksDB directories."""

    def changed_subtask(subtask: Subtask) -> Subtask:
        if subtask.state is None or not isinstance(handle := subtask.state.managed_keyed, IncrementalHandle):
            return subtask
        return replace(subtask, state=replace(subtask.state, managed_keyed=change(handle)))

    operators = (replace(entry, subtasks=tuple(map(changed_subtask, entry.subtasks))) for entry in metadata.operators)
    return replace(metadata, operators=tuple(operators))


def edit_operators(directory: Path, change: Callable[[OperatorState], OperatorState]) -> None:
    edit(directory, lambda metadata: replace(metadata, operators=tuple(map(change, metadata.operators))))


def edit_files(directory: Path, kind: str, change: Callable[[bytes], bytes]) -> list[Path]:
    """Change the files whose names start with `kind` in all RocksDB directories, and their sizes in handles.

    Return the paths of the changed files.
    """
    changed = []

    def changed_file(file: RocksdbFile) -> RocksdbFile:
        if not file.name.startswith(kind):
            return file
        assert isinstance(file.stream, RelativeFileStream)
        path = directory / file.stream.path
        data = change(path.read_bytes())
        path.write_bytes(data)
        changed.append(path)
        return replace(file, stream=replace(file.stream, size=len(data)))

    def changed_handle(handle: IncrementalHandle) -> IncrementalHandle:
        shared, private = (tuple(map(changed_file, files)) for files in (handle.shared, handle.private))
        return replace(handle, shared=shared, private=private)

    edit_databases(directory, changed_handle)
    return changed


def put_database(directory: Path, database: Path) -> None:
    """Replace the files of all RocksDB directories by the files in `database`."""
    files = []
    for path in sorted(database.iterdir()):
        name = f"other-{path.name}"
        shutil.copy(path, directory / name)
        files.append(RocksdbFile(path.name, RelativeFileStream(name, path.stat().st_size)))
    edit_databases(directory, lambda handle: replace(handle, shared=(), private=tuple(files)))
