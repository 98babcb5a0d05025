"""A proof by files passes what is sound, says of what it is, reads no row, and finds each fault that it is about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.errors import IntegrityError, RequestError, SnapshotError
from rescale.execution.loop import Loop
from rescale.execution.steps import validate_coverage, validate_published
from rescale.execution.validation.compare import FileCheck
from rescale.execution.validation.record_compare import RecordCheck
from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import FileStream, IncrementalHandle, RelativeFileStream
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import RANGE_DELETION, LiveFile
from rescale.rocksdb.sst.tombstone import write_tombstone
from rescale.snapshot.model import Database
from rescale.snapshot.opening import open_snapshot
from rescale.target.places import places_of
from rescale.target.publication import publish
from support import snapshots
from support.edited import edit, edit_operators, relocated, with_streams
from support.pipeline import move, plan_rescale
from support.slow import slow_but

NATIVE = "2-rocksdb-native"
ELSEWHERE = tuple(
    f"{line}-{name}" for line in ("1.20", "2") for name in ("rocksdb-incremental", "rocksdb-changing", "file-merging")
)
"""Snapshots with absolute paths."""

CASES = list(zip((*snapshots.with_databases(), *ELSEWHERE), cycle(("refer", "copy")), strict=False))
QUICK = [("1.20-rocksdb-heap-timers", "copy"), ("2-file-merging", "refer")]


@dataclass(frozen=True)
class Watched(Loop):
    """Remembers what there was to do."""

    seen: list[Any] = field(default_factory=list)

    def run(self, work: Any, units: Any, progress: Any, **options: Any) -> list[Any]:
        self.seen.extend(unit for _, unit in units)
        return super().run(work, units, progress, **options)


@pytest.mark.parametrize("case", slow_but(lambda case: case in QUICK, CASES), ids="-".join)
def test_what_is_sound_is_proven_to_either_depth(case: tuple[str, str], tmp_path: Path) -> None:
    """What the plan takes as files goes by files, and what RocksDB has rewritten by records."""
    name, files = case
    source = relocated(name, tmp_path / "source")
    for parallelism in (1, 2, 3, 5, 8):
        plan = plan_rescale(str(source), str(tmp_path / f"target-{parallelism}"), [str(parallelism)], files=files)
        move(plan, Loop())
        tasks = Watched()
        certificate = validate_coverage(plan, tasks, Proof.FILES)
        publish(plan)
        expected = [
            (len(operator.databases), len(operator.compacted)) if operator.databases else None
            for operator in plan.operators
        ]
        found = [operator["directories"] for operator in certificate["operators"]]
        assert [one and (one["by_files"], one["by_records"]) for one in found] == expected
        assert certificate["proof"] == ("files" if any(expected) else "records")
        copied = sum(one["files_copied"] for one in found if one)
        assert sum(isinstance(unit, FileCheck) for unit in tasks.seen) == copied
        compacted = any(operator.compacted for operator in plan.operators)
        assert any(isinstance(unit, RecordCheck) for unit in tasks.seen) is compacted
        assert ("no row was read" in str(certificate["does_not_prove"])) is any(expected)
        referred = sum(one["files_referred_to"] for one in found if one)
        assert ("were not read" in str(certificate["does_not_prove"])) is (referred > 0)
        again = validate_published(plan.source, plan.target, [], [], Loop(), Proof.FILES)
        assert again["operators"] == certificate["operators"]
        deeper = validate_published(plan.source, plan.target, [], [], Loop(), Proof.RECORDS)
        assert (deeper["proof"], deeper["does_not_prove"]) != ("files", certificate["does_not_prove"])
        assert not [one for one in deeper["operators"] if one["directories"]]


def test_where_all_files_are_referred_to_nothing_is_left_for_tasks(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")

    def of_rocksdb(operator: OperatorState) -> bool:
        return any(
            isinstance(subtask.state.managed_keyed, IncrementalHandle) for subtask in operator.subtasks if subtask.state
        )

    edit(source, lambda read: replace(read, operators=tuple(filter(of_rocksdb, read.operators))))
    plan = plan_rescale(str(source), str(tmp_path / "target"), ["3"], files="refer")
    move(plan, Loop())
    tasks = Watched()
    assert validate_coverage(plan, tasks, Proof.FILES)["proof"] == "files"
    assert tasks.seen == []


@pytest.mark.parametrize("name", ["2-canonical-rocksdb", "2-heap-native"])
def test_a_proof_by_files_of_what_has_none_is_refused(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), ["3"])
    move(plan, Loop())
    with pytest.raises(RequestError, match="nothing to prove by files"):
        validate_coverage(plan, Loop(), Proof.FILES)
    validate_coverage(plan, Loop())
    publish(plan)
    with pytest.raises(RequestError, match="nothing to prove by files"):
        validate_published(plan.source, plan.target, [], [], Loop(), Proof.FILES)


@dataclass(frozen=True)
class Spoilt:
    """A published result without a certificate, all in files, that faults are planted in."""

    source: Path
    target: Path

    def validate(self, proof: Proof) -> dict[str, Any]:
        return validate_published(str(self.source), str(self.target), [], [], Loop(), proof)

    def databases(self) -> list[Database]:
        opened = open_snapshot(str(self.target), [str(self.source)])
        return [database for operator in opened.operators for database in operator.databases]

    def path(self, number: int, name: str) -> Path:
        """Of a file in the directory of that number."""
        opened = open_snapshot(str(self.target), [str(self.source)])
        (extent,) = (file.extent for file in self.databases()[number].files if file.name == name)
        return Path(opened.files[extent.file][0])

    def manifest(self, number: int) -> tuple[Path, Manifest]:
        (name,) = (file.name for file in self.databases()[number].files if file.name.startswith("MANIFEST"))
        path = self.path(number, name)
        return path, read_manifest(path.read_bytes(), str(path))

    def state(self, number: int) -> ColumnFamily:
        """Of those that have both files of the source and deleted ranges, the first."""
        families = self.manifest(number)[1].column_families
        return next(
            family
            for family in families
            if any(is_range(file) for file in family.files) and not all(is_range(file) for file in family.files)
        )

    def change(self, number: int, change: Callable[[LiveFile], LiveFile | None]) -> None:
        """Of the files that a MANIFEST names, and a handle with it."""
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
        for one in removed:
            if one.parent == self.target:
                one.unlink()

    def resize(self, sizes: dict[str, int]) -> None:
        def resized(stream: Any) -> Any:
            found = isinstance(stream, RelativeFileStream) and stream.path in sizes
            return replace(stream, size=sizes[stream.path]) if found else stream

        edit(self.target, lambda metadata: with_streams(metadata, resized))

    @staticmethod
    def put(path: Path, data: bytes) -> int:
        path.write_bytes(data)
        return len(data)


def _place(file: LiveFile) -> tuple[int, int]:
    return file.level, file.number


def is_range(file: LiveFile) -> bool:
    return file.exclusive and file.smallest_key.kind == RANGE_DELETION


def made(folder: Path, files: str, name: str = NATIVE) -> Plan:
    """A published result at parallelism 3, whose directories have foreign rows, which deleted ranges hide."""
    source = relocated(name, folder / "source")
    with (
        patch("rescale.planning.streams.inline.INLINE_LIMIT", 0),
        patch("rescale.planning.streams.database_streams.FOREIGN_SHARE", 2),
    ):
        plan = plan_rescale(str(source), str(folder / "target"), ["3"], files=files)
    move(plan, Loop())
    validate_coverage(plan, Loop(), Proof.FILES)
    publish(plan)
    return plan


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    made(folder, "copy")
    return folder


@pytest.fixture
def spoilt(whole: Path, tmp_path: Path) -> Spoilt:
    shutil.copytree(whole / "source", tmp_path / "source")
    shutil.copytree(whole / "target", tmp_path / "target")
    return Spoilt(tmp_path / "source" / Path(snapshots.directory(NATIVE)).name, tmp_path / "target")


def flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def own_file(spoilt: Spoilt, number: int = 0) -> LiveFile:
    """A file of the source's, in the last level of them."""
    files = [file for file in spoilt.state(number).files if not is_range(file)]
    return max(files, key=lambda file: file.level)


def range_file(spoilt: Spoilt, number: int = 0) -> LiveFile:
    return next(file for file in spoilt.state(number).files if is_range(file))


def another_of_the_same_size(spoilt: Spoilt) -> None:
    flipped(spoilt.path(0, own_file(spoilt).name), 20)


def cut(spoilt: Spoilt) -> None:
    path = spoilt.path(0, own_file(spoilt).name)
    path.write_bytes(path.read_bytes()[:-7])


def missing(spoilt: Spoilt) -> None:
    spoilt.path(0, own_file(spoilt).name).unlink()


def forgotten(spoilt: Spoilt) -> None:
    """By MANIFEST and handle."""
    name = own_file(spoilt).name
    spoilt.change(0, lambda file: None if file.name == name else file)


def no_deleted_range(spoilt: Spoilt) -> None:
    name = range_file(spoilt).name
    spoilt.change(0, lambda file: None if file.name == name else file)


def wider(spoilt: Spoilt) -> None:
    """A deleted range that hides some of the subtask's own rows."""
    wrong, family = range_file(spoilt), spoilt.state(0)
    begin, end = wrong.smallest, wrong.largest
    own = spoilt.databases()[0].key_groups
    if begin == bytes([own.last + 1]):
        begin = bytes([own.last])
    else:
        end = bytes([own.first + 1])
    sequence = wrong.smallest_sequence
    data = write_tombstone(begin, end, sequence, column_family=(family.id, family.name), created=1)
    path = spoilt.path(0, wrong.name)
    spoilt.resize({path.name: spoilt.put(path, data)})
    changed = replace(
        wrong,
        size=len(data),
        smallest_key=InternalKey(begin, sequence, RANGE_DELETION),
        largest_key=wrong.largest_key._replace(user_key=end),
    )
    spoilt.change(0, lambda file: changed if file.name == wrong.name else file)


def other_sequence(spoilt: Spoilt) -> None:
    """Of a file in level 0, as far as the MANIFEST says so."""
    newest = own_file(spoilt)
    assert newest.level == 0
    spoilt.change(
        0,
        lambda file: replace(file, smallest_sequence=file.smallest_sequence - 1) if file.name == newest.name else file,
    )


def other_level(spoilt: Spoilt) -> None:
    name = own_file(spoilt).name
    spoilt.change(0, lambda file: replace(file, level=3) if file.name == name else file)


def older_range(spoilt: Spoilt) -> None:
    """A deleted range that is older than the rows that it is to hide: in the file and in the MANIFEST."""
    wrong, family = range_file(spoilt), spoilt.state(0)
    data = write_tombstone(wrong.smallest, wrong.largest, 1, column_family=(family.id, family.name), created=1)
    path = spoilt.path(0, wrong.name)
    spoilt.resize({path.name: spoilt.put(path, data)})
    key = wrong.smallest_key._replace(sequence=1)
    changed = replace(wrong, size=len(data), smallest_key=key, smallest_sequence=1, largest_sequence=1)
    spoilt.change(0, lambda file: changed if file.name == wrong.name else file)


def damaged_range(spoilt: Spoilt) -> None:
    flipped(spoilt.path(0, range_file(spoilt).name), 10)


def other_options(spoilt: Spoilt) -> None:
    (name,) = (file.name for file in spoilt.databases()[0].files if file.name.startswith("OPTIONS"))
    path = spoilt.path(0, name)
    path.write_bytes(path.read_bytes().replace(b"max_open_files", b"max_open_fileS"))


def test_what_is_not_spoilt(spoilt: Spoilt) -> None:
    for proof in Proof:
        assert spoilt.validate(proof)["proof"] == proof
    assert range_file(spoilt)


BOTH, FILES = tuple(Proof), (Proof.FILES,)
"""What finds a fault: a proof by records sees all but what no row tells."""


@pytest.mark.parametrize(
    ("plant", "found_by", "said"),
    [
        (another_of_the_same_size, BOTH, r"is not the source's|cannot be read back"),
        (cut, BOTH, "does not read as a snapshot"),
        (missing, BOTH, "files of the result are missing|does not read as a snapshot"),
        (forgotten, BOTH, "is missing"),
        (no_deleted_range, BOTH, "rows of foreign key groups are not hidden"),
        (wider, BOTH, "a range is deleted that belongs to the subtask"),
        (other_sequence, BOTH, "not as old as they were"),
        (other_level, BOTH, "not where it was"),
        (older_range, BOTH, "older than rows that it is to hide"),
        (damaged_range, BOTH, "cannot be read back"),
        (other_options, FILES, "is not the source's"),
    ],
)
def test_a_fault_is_found(
    plant: Callable[[Spoilt], None], found_by: Sequence[Proof], said: str, spoilt: Spoilt
) -> None:
    plant(spoilt)
    for proof in found_by:
        with pytest.raises(IntegrityError, match=said) as caught:
            spoilt.validate(proof)
        assert caught.value.exit_code == 4
        assert caught.value.path
        assert str(spoilt.target) in caught.value.path


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Spoilt:
    """Whose directories are RocksDB's own work, and go by records."""
    folder = tmp_path_factory.mktemp("rewritten")
    source = relocated(NATIVE, folder / "source")
    with patch("rescale.planning.streams.inline.INLINE_LIMIT", 0):
        plan = plan_rescale(str(source), str(folder / "target"), ["3"], files="copy")
    assert any(operator.compacted for operator in plan.operators)
    move(plan, Loop())
    validate_coverage(plan, Loop())
    publish(plan)
    return Spoilt(source, folder / "target")


def begins_late(file: LiveFile) -> LiveFile:
    key = file.smallest_key
    return replace(file, smallest_key=key._replace(user_key=key.user_key + b"\0"))


def ends_early(file: LiveFile) -> LiveFile:
    return replace(file, largest_key=file.largest_key._replace(user_key=file.smallest))


@pytest.mark.parametrize(
    ("change", "said"), [(begins_late, "begin behind its first row"), (ends_early, "end before its last row")]
)
def test_a_manifest_that_has_rows_outside_of_their_file_is_found(
    change: Callable[[LiveFile], LiveFile], said: str, rewritten: Spoilt, tmp_path: Path
) -> None:
    """A job would not find these rows, and iterators see all of them."""
    shutil.copytree(rewritten.target, tmp_path / "target")
    spoilt = Spoilt(rewritten.source, tmp_path / "target")
    spoilt.change(0, change)
    for proof in Proof:
        with pytest.raises(IntegrityError, match=f"cannot be read back: the MANIFEST has .* {said}") as caught:
            spoilt.validate(proof)
        assert caught.value.path == str(spoilt.manifest(0)[0])
        assert caught.value.operator
        assert caught.value.state
        assert caught.value.expected != caught.value.found
        assert caught.value.advice == "ask for a canonical result (--format canonical)"


def test_of_files_that_are_referred_to_each_must_be_the_one_that_it_stands_for(tmp_path: Path) -> None:
    """Two files of one size, each in the place of the other."""
    plan = made(tmp_path, "refer", "2-rocksdb-heap-timers")
    spoilt = Spoilt(Path(plan.source), Path(plan.target))
    (Path(places_of(plan).certificate)).unlink()
    by_size: dict[int, set[str]] = {}

    def listed(file: Any) -> Any:
        if isinstance(file, FileStream):
            by_size.setdefault(file.size, set()).add(file.path)
        return file

    edit(spoilt.target, lambda metadata: with_streams(metadata, listed))
    one, other, *_ = max(by_size.values(), key=len)
    swap = {one: other, other: one}
    edit(
        spoilt.target,
        lambda metadata: with_streams(
            metadata,
            lambda stream: (
                replace(stream, path=swap[stream.path])
                if isinstance(stream, FileStream) and stream.path in swap
                else stream
            ),
        ),
    )
    for proof in Proof:
        with pytest.raises(IntegrityError):
            spoilt.validate(proof)


def test_a_copy_that_lies_among_the_files_of_the_source_is_none_of_them(tmp_path: Path) -> None:
    """The same bytes, but nobody has pinned them, or sees to it that they stay."""
    plan = made(tmp_path, "refer")
    spoilt = Spoilt(Path(plan.source), Path(plan.target))
    (Path(places_of(plan).certificate)).unlink()
    (referred,) = {spoilt.path(0, own_file(spoilt).name)}
    copy = referred.with_name("a-copy.sst")
    copy.write_bytes(referred.read_bytes())

    def moved(stream: Any) -> Any:
        if isinstance(stream, FileStream) and stream.path.endswith(str(referred)):
            return replace(stream, path=stream.path.replace(str(referred), str(copy)))
        return stream

    edit(spoilt.target, lambda metadata: with_streams(metadata, moved))
    for proof in Proof:
        with pytest.raises(IntegrityError, match="none of the source's") as caught:
            spoilt.validate(proof)
        assert caught.value.path == str(copy)


def test_a_file_that_is_referred_to_and_has_changed_is_found(tmp_path: Path) -> None:
    """With the same bytes or others; before validation it is the source that has changed."""
    plan = made(tmp_path, "refer")
    spoilt = Spoilt(Path(plan.source), Path(plan.target))
    (referred,) = {spoilt.path(0, own_file(spoilt).name)}
    assert referred.parent == spoilt.source
    for proof in Proof:
        assert spoilt.validate(proof)["proof"] == proof
    flipped(referred, 20)
    os.utime(referred, ns=(1, 1))
    for proof in Proof:
        with pytest.raises(IntegrityError, match="that the result refers to is gone, or is not the one") as caught:
            spoilt.validate(proof)
        assert caught.value.path == str(referred)
    with pytest.raises(IntegrityError, match="that the result refers to is gone, or is not the one"):
        publish(plan)
    with pytest.raises(SnapshotError, match="changed since it was planned with") as changed:
        validate_coverage(plan, Loop(), Proof.FILES)
    assert changed.value.path == str(referred)


def test_a_run_that_is_taken_up_again_may_go_deeper(tmp_path: Path) -> None:
    """The depth is no part of the plan."""
    source = relocated(NATIVE, tmp_path / "source")
    plan = plan_rescale(str(source), str(tmp_path / "target"), ["3"], files="refer")
    move(plan, Loop())
    assert validate_coverage(plan, Loop(), Proof.FILES)["proof"] == "files"
    assert validate_coverage(plan, Loop(), Proof.RECORDS)["proof"] == "records"
    assert publish(plan).proof is Proof.RECORDS
