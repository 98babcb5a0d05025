"""A published result whose RocksDB directories have files of the source. Tests plant faults in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import IncrementalHandle, RelativeFileStream
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import RANGE_DELETION, LiveFile
from rescale.runstate.certificate import Certificate
from rescale.runstate.publication import publish
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.reading.opening import open_snapshot
from support.edited import edit, edit_operators, relocated, with_streams
from support.pipeline import certify, plan_rescale

NATIVE = "2-rocksdb-native"


@dataclass(frozen=True)
class SpoiltResult:
    """A published result without a certificate, with all state in files."""

    source: Path
    target: Path

    def validate(self, proof: Proof) -> Certificate:
        return validate_published(str(self.source), str(self.target), InProcessTasks(), proof)

    def databases(self) -> list[Database]:
        opened = open_snapshot(str(self.target), [str(self.source)])
        return [database for operator in opened.operators for database in operator.databases]

    def path(self, number: int, name: str) -> Path:
        """Return the path of a file in the directory with this number."""
        opened = open_snapshot(str(self.target), [str(self.source)])
        (extent,) = (file.extent for file in self.databases()[number].files if file.name == name)
        return Path(opened.files[extent.file][0])

    def manifest(self, number: int) -> tuple[Path, Manifest]:
        (name,) = (file.name for file in self.databases()[number].files if file.name.startswith("MANIFEST"))
        path = self.path(number, name)
        return path, read_manifest(path.read_bytes(), str(path))

    def state_with_tombstones(self, number: int) -> ColumnFamily:
        """Return the first state of directory `number` that has both files of the source and range tombstones."""
        families = self.manifest(number)[1].column_families
        return next(
            family
            for family in families
            if any(is_range(file) for file in family.files) and not all(is_range(file) for file in family.files)
        )

    def change(self, number: int, change: Callable[[LiveFile], LiveFile | None]) -> None:
        """Change the entries of files in the MANIFEST of directory `number`, and the handle accordingly.

        If `change` returns None for a file, the file is removed.
        """
        path, manifest = self.manifest(number)
        families = tuple(
            replace(family, files=tuple(sorted(filter(None, map(change, family.files)), key=_place)))
            for family in manifest.column_families
        )
        gone = manifest.files.keys() - {file.name for family in families for file in family.files}
        sizes = {path.name: self.put(path, write_manifest(replace(manifest, column_families=families), path.name))}
        self.resize(sizes)
        handle_id = number

        def without(operator: OperatorState) -> OperatorState:
            nonlocal handle_id
            subtasks = []
            for subtask in operator.subtasks:
                state = subtask.state
                if state is not None and isinstance(handle := state.managed_keyed, IncrementalHandle):
                    if handle_id == 0:
                        kept = tuple(file for file in handle.private if file.name not in gone)
                        assert len(kept) == len(handle.private) - len(gone)
                        state = replace(state, managed_keyed=replace(handle, private=kept))
                    handle_id -= 1
                subtasks.append(replace(subtask, state=state))
            return replace(operator, subtasks=tuple(subtasks))

        removed = [self.path(number, name) for name in gone]
        edit_operators(self.target, without)
        for file_path in removed:
            if file_path.parent == self.target:
                file_path.unlink()

    def resize(self, sizes: dict[str, int]) -> None:
        def resized(stream: Any) -> Any:
            resizes = isinstance(stream, RelativeFileStream) and stream.path in sizes
            return replace(stream, size=sizes[stream.path]) if resizes else stream

        edit(self.target, lambda metadata: with_streams(metadata, resized))

    @staticmethod
    def put(path: Path, data: bytes) -> int:
        path.write_bytes(data)
        return len(data)


def _place(file: LiveFile) -> tuple[int, int]:
    return file.level, file.number


def is_range(file: LiveFile) -> bool:
    return file.is_largest_exclusive and file.smallest_key.kind == RANGE_DELETION


def publish_result(folder: Path, files: str, name: str = NATIVE) -> Plan:
    """Publish a result at parallelism 3 whose directories hide foreign rows by range tombstones; return its plan."""
    source = relocated(name, folder / "source")
    with (
        patch("rescale.planning.streams.inline.INLINE_LIMIT", 0),
        patch("rescale.planning.streams.database_streams.MOST_FOREIGN_SHARE", 2),
    ):
        plan = plan_rescale(str(source), str(folder / "target"), ["3"], files=files)
    certify(plan, Proof.FILES)
    publish(plan)
    return plan


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def own_file(spoilt: SpoiltResult) -> LiveFile:
    """Return a file of the source from the last level of directory 0."""
    files = [file for file in spoilt.state_with_tombstones(0).files if not is_range(file)]
    return max(files, key=lambda file: file.level)


def range_file(spoilt: SpoiltResult) -> LiveFile:
    return next(file for file in spoilt.state_with_tombstones(0).files if is_range(file))
