"""Write a native RocksDB savepoint of any size: the state of `big_savepoint.write_savepoint` in RocksDB directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import tests_path  # noqa: F401
from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import IncrementalHandle, RelativeFileStream, RocksdbFile
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from support.rocksdb_writer import Writer, written


def write_databases(canonical: Path, directory: Path) -> None:
    """Write the state of a canonical savepoint with one operator as a fully compacted database for each subtask."""
    directory.mkdir()
    snapshot = open_snapshot(str(canonical))
    (operator,) = snapshot.operators
    max_parallelism = operator.max_parallelism
    subtasks = []
    for stream in operator.keyed:
        assert stream.parsed is not None
        key_groups = operator.key_groups_of(stream.subtask)
        scratch = directory / "scratch"
        scratch.mkdir()
        states = [state.name for state in stream.parsed.states]
        with written(scratch / "open", states) as writer:
            _put_all(writer, max_parallelism, stream, stream.parsed, snapshot.contents)
            writer.flush()
            for state in states:
                writer.compact(state)
            files = []
            for file in writer.checkpoint(scratch / "taken"):
                name = f"{stream.subtask}-{file.name}"
                shutil.move(scratch / "taken" / file.name, directory / name)
                files.append(RocksdbFile(file.name, RelativeFileStream(name, file.length)))
        shutil.rmtree(scratch)
        meta_name = f"{stream.subtask}-meta"
        (directory / meta_name).write_bytes(stream.header)
        handle = IncrementalHandle(
            tag=11,
            checkpoint_id=1,
            backend_id="00000000-0000-0000-0000-000000000000",
            first_key_group=key_groups.first,
            key_group_count=len(key_groups),
            checkpointed_size=0,
            meta=RelativeFileStream(meta_name, len(stream.header)),
            shared=(),
            private=tuple(files),
            handle_id="00000000-0000-0000-0000-000000000000",
        )
        subtasks.append(Subtask(stream.subtask, False, SubtaskState(managed_keyed=handle)))
    entry = operator.entry
    operator_state = OperatorState(
        entry.operator_id, "", "", entry.parallelism, entry.max_parallelism, None, tuple(subtasks)
    )
    metadata = Metadata(4, 1, (), (operator_state,), savepoint_properties(is_canonical=False))
    (directory / "_metadata").write_bytes(write_metadata(metadata))


def _put_all(
    writer: Writer, max_parallelism: int, stream: KeyedStream, header: KeyedHeader, files: SnapshotFiles
) -> None:
    reader = SourceReader(files)
    prefix_length = prefix_size(max_parallelism)
    for source in sources_of(stream, max_parallelism):
        for records in reader.batches(source):
            columns = zip(
                records.key_starts, records.key_ends, records.ends, records.state_ids, records.groups, strict=True
            )
            for start, key_end, end, state, group in columns:
                key = int(group).to_bytes(prefix_length, "big") + records.data[start:key_end].tobytes()
                writer.put(header.states[state].name, key, records.data[key_end + 4 : end].tobytes())
            for model in writer.model.values():  # only tests need these rows in memory
                model.clear()
