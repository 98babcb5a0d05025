"""State in a changelog whose changes are not materialised is replayed, into canonical state and RocksDB directories."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.sources import log_windows
from rescale.execution.sources.changelog_records import ChangelogRecords
from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.encoding.snappy import compressed
from rescale.flink.key_groups import KeyGroupRange, key_group_of_hash
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.changelog.logged_states import Operation
from rescale.flink.keyed.header import read_keyed_header
from rescale.snapshot.keyed_state import ChangeSet
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Snapshot
from rescale.snapshot.places import ChangelogPlace
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import IntegrityError, SnapshotError, UnsupportedError
from support import edited, snapshots
from support.canonical import Record
from support.composite import records_in_buffer
from support.heap import LONG, TEXT, HeapState
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow_but
from support.snapshot_bytes import i32, keyed_header

CHANGELOGS = [f"{line}-changelog-over-{backend}" for line in ("1.20", "2") for backend in ("heap", "rocksdb")]
SHAPES = [((), ()), (("5",), ()), (("5",), ("1000",)), (("3",), ("64",))]
CASES = [
    (name, *shape, result_format)
    for name in CHANGELOGS
    for shape in SHAPES
    for result_format in ("canonical", "rocksdb")
]
QUICK = [
    ("2-changelog-over-heap", ("5",), ("1000",), "canonical"),
    ("1.20-changelog-over-rocksdb", ("5",), (), "rocksdb"),
    ("2-changelog-over-rocksdb", (), (), "canonical"),
    ("1.20-changelog-over-heap", ("3",), ("64",), "rocksdb"),
]


def canonical_twin(name: str) -> Snapshot:
    """Return a canonical savepoint that Flink took at the same moment."""
    return open_snapshot(str(snapshots.FIXTURES / name / "canonical"))


@pytest.mark.parametrize("name", CHANGELOGS)
def test_replayed_state_is_equal_to_the_savepoint_of_flink(name: str) -> None:
    snapshot = snapshots.opened(name)
    assert any(operator.changelogs for operator in snapshot.operators)
    difference = diff_snapshots(canonical_twin(name), snapshot, InProcessTasks())
    assert difference.equal
    assert sum(state.a.count for operator in difference.operators for state in operator.states) > 100


@pytest.mark.parametrize("line", ["1.20", "2"])
def test_changelog_in_files_without_base_state_is_replayed(line: str, tmp_path: Path) -> None:
    """Both subtasks share a file of changes. The twin is a native savepoint of the same job, though of another run."""
    source = edited.relocated(f"{line}-changelog", tmp_path / "source")
    changelog_directory = str(tmp_path / "source" / "changelog")
    difference = diff_snapshots(
        snapshots.opened(f"{line}-rocksdb-native"), open_snapshot(str(source), [changelog_directory]), InProcessTasks()
    )
    counts = [(state.a.count, state.b.count) for operator in difference.operators for state in operator.states]
    assert difference.equal
    assert sum(count for count, _ in counts) > 20
    target = str(tmp_path / "target")
    execute_without_spark(plan_rescale(str(source), target, ["3"], [changelog_directory], ["100"], format="canonical"))
    assert diff_snapshots(snapshots.opened(f"{line}-rocksdb-native"), open_snapshot(target), InProcessTasks()).equal


@pytest.mark.parametrize("line", ["1.20", "2"])
def test_compressed_changelog_in_files_is_replayed(line: str, tmp_path: Path) -> None:
    """The sizes in the handles count uncompressed bytes (`state.changelog.dstl.dfs.compression.enabled`)."""
    source = edited.relocated(f"{line}-changelog", tmp_path / "source")
    changelog_directory = tmp_path / "source" / "changelog"
    for path in filter(Path.is_file, changelog_directory.rglob("*")):
        flag, content = path.read_bytes()[:1], path.read_bytes()[1:]
        assert flag == b"\0"
        path.write_bytes(b"\1" + b"".join(compressed([content])))
    savepoint = snapshots.opened(f"{line}-rocksdb-native")
    assert diff_snapshots(savepoint, open_snapshot(str(source), [str(changelog_directory)]), InProcessTasks()).equal
    target = str(tmp_path / "target")
    execute_without_spark(plan_rescale(str(source), target, ["3"], [str(changelog_directory)], format="canonical"))
    assert diff_snapshots(savepoint, open_snapshot(target), InProcessTasks()).equal


@pytest.mark.parametrize("case", slow_but(lambda case: case in QUICK, CASES), ids=str)
def test_every_record_of_a_changelog_is_in_the_result(
    case: tuple[str, tuple[str, ...], tuple[str, ...], str], tmp_path: Path
) -> None:
    name, parallelism, max_parallelism, result_format = case
    source, target = snapshots.directory(name), str(tmp_path / "target")
    execute_without_spark(
        plan_rescale(source, target, parallelism, max_parallelism=max_parallelism, format=result_format)
    )
    assert validate_published(source, target, InProcessTasks()).verdict == "complete"
    result = open_snapshot(target)
    kinds = {"canonical": "canonical streams", "rocksdb": "RocksDB directories"}
    assert {kind for operator in result.operators for kind in operator.holder_kinds} == {kinds[result_format]}
    assert diff_snapshots(canonical_twin(name), result, InProcessTasks()).equal


def all_records(snapshot: Snapshot) -> list[tuple[int, int, bytes]]:
    """Return (state, key group, record) of all changelogs, in the order in which they are read."""
    records_so_far = []
    for operator in snapshot.operators:
        for changelog in operator.changelogs:
            for source in sources_of(changelog, operator.max_parallelism):
                for records in SourceReader(snapshot.contents).batches(source):
                    records_so_far += _listed(records)
    return records_so_far


def _listed(records: Records) -> list[tuple[int, int, bytes]]:
    columns = (records.state_ids, records.groups, records.key_starts, records.ends)
    return [
        (state, group, records.data[start:end].tobytes())
        for state, group, start, end in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.mark.parametrize("name", CHANGELOGS[:2])
def test_changelog_that_does_not_fit_into_memory_is_read_in_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of key groups come in their order, with every record; a window above the limit is refused."""
    snapshot = snapshots.opened(name)
    expected = all_records(snapshot)
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", 3000)
    monkeypatch.setattr(log_windows, "_MOST_BUFFERED_BYTES", 100)
    records_in_windows = all_records(snapshot)
    assert sorted(records_in_windows) == sorted(expected)
    assert records_in_windows != expected
    monkeypatch.setattr(log_windows, "LARGEST_KEY_GROUP_BYTES", 500)
    with pytest.raises(UnsupportedError, match="more changes than can be replayed at once"):
        all_records(snapshot)


@pytest.mark.parametrize("name", CHANGELOGS[:2])
def test_state_header_that_differs_at_the_second_read_is_refused(name: str) -> None:
    """The changelog's header was put together from the first read."""
    snapshot = snapshots.opened(name)
    (operator,) = (operator for operator in snapshot.operators if operator.changelogs)
    source = next(iter(sources_of(operator.changelogs[0], operator.max_parallelism)))
    assert isinstance(source.place, ChangelogPlace)
    part = source.place.base[0]
    assert part.header is not None
    first, *others = part.header.states
    misread_header = replace(part.header, states=(replace(first, name="coufts"), *others))
    place = structs.replace(source.place, base=(structs.replace(part, header=misread_header), *source.place.base[1:]))
    with pytest.raises(SnapshotError, match="that the changelog's header does not have") as caught:
        list(SourceReader(snapshot.contents).batches(source._replace(place=place)))
    assert caught.value.state == "coufts"
    assert first.name in str(caught.value.expected)


@pytest.mark.parametrize("name", CHANGELOGS[:2])
def test_changelog_that_differs_at_the_second_read_is_refused(name: str) -> None:
    snapshot = snapshots.opened(name)
    (operator,) = (operator for operator in snapshot.operators if operator.changelogs)
    changelog = operator.changelogs[0]
    assert changelog.parsed is not None
    missing_state = min(changelog.logged_states)
    header = replace(
        changelog.parsed, states=tuple(state for state in changelog.parsed.states if state.name != missing_state)
    )
    windows = log_windows.LogWindows(snapshot.contents, changelog.changes, header, changelog.key_groups)
    with (
        pytest.raises(SnapshotError, match="describes a state that its header does not have") as caught,
        windows.cut(),
    ):
        pass
    assert caught.value.state == missing_state


def test_keeping_the_format_of_a_changelog_over_heap_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="kept in a changelog, which Rescale cannot write") as caught:
        plan_rescale(snapshots.directory("2-changelog-over-heap"), str(tmp_path / "target"))
    assert "format canonical" in str(caught.value.expected)


def test_changelog_over_rocksdb_becomes_rocksdb_directories_by_default(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-changelog-over-rocksdb"), str(tmp_path / "target"))
    execute_without_spark(plan)
    assert all(operator.databases or not operator.changelogs for operator in open_snapshot(plan.target).operators)


def test_changed_source_changelog_is_found_by_validation(tmp_path: Path) -> None:
    """Validation replays the source anew and does not know the plan."""
    source, target = tmp_path / "source", str(tmp_path / "target")
    shutil.copytree(snapshots.directory("2-changelog-over-heap"), source)
    execute_without_spark(plan_rescale(str(source), target, ["3"], format="canonical"))
    metadata = source / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"2:", b"9:"))
    with pytest.raises(IntegrityError, match="records were lost, doubled or changed"):
        validate_published(str(source), target, InProcessTasks())


def test_state_is_dropped_from_a_changelog(tmp_path: Path) -> None:
    name = "2-changelog-over-rocksdb"
    (operator,) = (operator for operator in snapshots.opened(name).operators if operator.changelogs)
    plan = plan_rescale(
        snapshots.directory(name),
        str(tmp_path / "target"),
        ["3"],
        format="canonical",
        renames=[f"{operator.operator_id}=other"],
        state_drops=[f"{operator.operator_id}:history"],
    )
    execute_without_spark(plan)
    assert diff_snapshots(canonical_twin(name), open_snapshot(plan.target), InProcessTasks(), plan.surgery).equal


@pytest.mark.parametrize("base_count", [1, 2])
def test_changelog_that_only_the_job_can_replay_is_refused_with_its_state(base_count: int, tmp_path: Path) -> None:
    """This shows at the base record that is merged or, if several are merged, after all base records."""
    header = read_keyed_header(keyed_header(HeapState("sum", LONG, TEXT, "REDUCING").info, key=LONG.snapshot), "")
    key, group = LONG.write(1), key_group_of_hash(LONG.code(1), 128)
    merge_change = bytes((Operation.MERGE_NS, 0, 0)) + key + LONG.write(1) + LONG.write(1) + i32(1) + LONG.write(2)
    set_change = bytes((Operation.SET, 0, 0)) + key + LONG.write(2) + TEXT.write((97,))
    metadata_change = bytes((Operation.METADATA,)) + i32(7) + header.states[0].raw + bytes(3)
    changes = [(-1, metadata_change), *([(group, set_change)] if base_count == 1 else []), (group, merge_change)]
    log_file = tmp_path / "log"
    log_file.write_bytes(b"".join(i32(key_group) + i32(len(change)) + change for key_group, change in changes))
    base_records = records_in_buffer(
        [Record(0, key + LONG.write(key_number), TEXT.write((98,))) for key_number in (1, 2)[:base_count]],
        [group] * base_count,
    )
    change_set = ChangeSet(Extent(1, 0, log_file.stat().st_size), None)
    files = SnapshotFiles((("/source/_metadata", None), (str(log_file), None)))
    records = ChangelogRecords(
        header,
        128,
        files,
        [change_set],
        KeyGroupRange(0, 127),
        lambda windows: [(iter([base_records]) for _ in windows)],
    )
    with pytest.raises(UnsupportedError, match="the job's own function") as caught:
        list(records)
    assert (caught.value.path, caught.value.state) == (str(log_file), "sum")
