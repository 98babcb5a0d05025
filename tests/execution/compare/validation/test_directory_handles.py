"""The validator finds faults planted in what `_metadata` says of RocksDB directories, by records and by files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.execution.compare.validation.validation import compare_snapshots, open_result, validate_result
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask
from rescale.flink.metadata.handles import IncrementalHandle, RelativeFileStream
from rescale.plan.proof import Proof
from rescale.runstate.places import places_of
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support import snapshots
from support.pipeline import certify, plan_rescale
from support.planting import Result

NATIVE = "2-rocksdb-native"
PARALLELISM_BY_KIND = {"as they were": (), "of whole files": ("3",)}


@dataclass(frozen=True)
class Spoilt(Result):
    """A result that is compared by a given proof."""

    def compare(self, proof: Proof) -> None:
        result = open_result(str(self.candidate), str(self.target))
        validate_result(compare_snapshots(open_snapshot(self.source), result, {}, proof), InProcessTasks())

    def handles(self) -> list[IncrementalHandle]:
        subtasks = (subtask for entry in self.opened().metadata.operators for subtask in entry.subtasks)
        return [handle for subtask in subtasks if (handle := handle_of(subtask))]

    def change_subtasks(self, change: Callable[[list[Subtask]], list[Subtask]]) -> None:
        """Change the subtasks of the first operator whose state lies in directories."""

        def with_changed_subtasks(metadata: Metadata) -> Metadata:
            operators = list(metadata.operators)
            i = next(i for i, entry in enumerate(operators) if any(handle_of(subtask) for subtask in entry.subtasks))
            operators[i] = replace(operators[i], subtasks=tuple(change(list(operators[i].subtasks))))
            return replace(metadata, operators=tuple(operators))

        self.edit(with_changed_subtasks)

    def change_shape(self, **increments: int) -> None:
        def with_changed_shape(entry: OperatorState) -> OperatorState:
            if not any(handle_of(subtask) for subtask in entry.subtasks):
                return entry
            return replace(
                entry, **{field: getattr(entry, field) + increment for field, increment in increments.items()}
            )

        self.edit(lambda metadata: replace(metadata, operators=tuple(map(with_changed_shape, metadata.operators))))


def handle_of(subtask: Subtask) -> IncrementalHandle | None:
    handle = subtask.state.managed_keyed if subtask.state is not None else None
    return handle if isinstance(handle, IncrementalHandle) else None


def with_handle(subtask: Subtask, handle: IncrementalHandle | None) -> Subtask:
    assert subtask.state is not None
    return replace(subtask, state=replace(subtask.state, managed_keyed=handle))


def change_of_first_handle(
    change: Callable[[IncrementalHandle], IncrementalHandle | None],
) -> Callable[[list[Subtask]], list[Subtask]]:
    def with_changed_handle(subtasks: list[Subtask]) -> list[Subtask]:
        handle = handle_of(subtasks[0])
        assert handle is not None
        return [with_handle(subtasks[0], change(handle)), *subtasks[1:]]

    return with_changed_handle


def exchange_handles(subtasks: list[Subtask]) -> list[Subtask]:
    first, other, *rest = subtasks
    return [with_handle(first, handle_of(other)), with_handle(other, handle_of(first)), *rest]


def double_files(subtasks: list[Subtask]) -> list[Subtask]:
    """Give the second subtask the files of the first under its own key groups."""
    first, other, *rest = subtasks
    source, own = handle_of(first), handle_of(other)
    assert source is not None
    assert own is not None
    copy = replace(source, first_key_group=own.first_key_group, key_group_count=own.key_group_count)
    return [first, with_handle(other, copy), *rest]


HANDLE_FAULTS: dict[str, Callable[[list[Subtask]], list[Subtask]]] = {
    "two handles exchanged": exchange_handles,
    "another directory's files under its own key groups": double_files,
    "a handle lost": change_of_first_handle(lambda _: None),
    "another first key group": change_of_first_handle(
        lambda handle: replace(handle, first_key_group=handle.first_key_group + 1)
    ),
    "fewer key groups": change_of_first_handle(
        lambda handle: replace(handle, key_group_count=handle.key_group_count - 1)
    ),
    "more key groups": change_of_first_handle(
        lambda handle: replace(handle, key_group_count=handle.key_group_count + 1)
    ),
    "no SST files": change_of_first_handle(
        lambda handle: replace(
            handle,
            shared=(),
            private=tuple(file for file in handle.private if not file.name.endswith(".sst")),
        )
    ),
    "a file under another name": change_of_first_handle(
        lambda handle: replace(
            handle,
            private=tuple(
                replace(file, name="000999.sst") if file.name.endswith(".sst") else file for file in handle.private
            ),
        )
    ),
}
SHAPE_FAULTS = {
    "parallelism larger": {"parallelism": 1},
    "max parallelism larger": {"max_parallelism": 128},
    "max parallelism smaller": {"max_parallelism": -1},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Spoilt]:
    """Return a result per entry of `PARALLELISM_BY_KIND`, with no state inline."""
    results = {}
    for kind, parallelism in PARALLELISM_BY_KIND.items():
        target = tmp_path_factory.mktemp("finished") / "target"
        with (
            patch("rescale.planning.streams.inline.INLINE_LIMIT", 0),
            patch("rescale.planning.streams.database_streams.MOST_FOREIGN_SHARE", 2),
        ):
            plan = plan_rescale(snapshots.directory(NATIVE), str(target), parallelism)
        certify(plan)
        results[kind] = Spoilt(plan.source, target, Path(places_of(plan).candidate))
    return results


@pytest.fixture(params=PARALLELISM_BY_KIND)
def spoilt(finished: dict[str, Spoilt], tmp_path: Path, request: pytest.FixtureRequest) -> Spoilt:
    original = finished[request.param]
    shutil.copytree(original.target, tmp_path / "target")
    shutil.copy(original.candidate, tmp_path / "candidate")
    return Spoilt(original.source, tmp_path / "target", tmp_path / "candidate")


def assert_found(spoilt: Spoilt) -> None:
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError) as caught:
            spoilt.compare(proof)
        assert caught.value.exit_code == 4


def test_sound_directories_pass(spoilt: Spoilt) -> None:
    for proof in (Proof.RECORDS, Proof.FILES):
        spoilt.compare(proof)


@pytest.mark.parametrize("fault", HANDLE_FAULTS)
def test_a_fault_in_handles_is_found(fault: str, spoilt: Spoilt) -> None:
    spoilt.change_subtasks(HANDLE_FAULTS[fault])
    assert_found(spoilt)


@pytest.mark.parametrize("fault", SHAPE_FAULTS)
def test_changed_shape_in_metadata_is_found(fault: str, spoilt: Spoilt) -> None:
    spoilt.change_shape(**SHAPE_FAULTS[fault])
    assert_found(spoilt)


@pytest.mark.parametrize("position", [0.0, 0.5, 1.0])
def test_flipped_byte_in_description_of_states_is_found(position: float, spoilt: Spoilt) -> None:
    handles = spoilt.handles()
    meta = handles[0].meta
    assert isinstance(meta, RelativeFileStream)
    path = spoilt.target / meta.path
    data = bytearray(path.read_bytes())
    data[int(position * (len(data) - 1))] ^= 1
    path.write_bytes(data)
    assert_found(spoilt)


@pytest.mark.parametrize("kind", ["CURRENT", "MANIFEST", "OPTIONS", ".sst"])
def test_cut_file_and_missing_file_are_found(kind: str, spoilt: Spoilt) -> None:
    handles = spoilt.handles()
    file = next(file for handle in handles for file in (*handle.private, *handle.shared) if kind in file.name)
    assert isinstance(file.stream, RelativeFileStream)
    path = spoilt.target / file.stream.path
    path.write_bytes(path.read_bytes()[:-1])
    assert_found(spoilt)
    path.unlink()
    assert_found(spoilt)
