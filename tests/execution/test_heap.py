"""State in heap framing becomes canonical, RocksDB or heap state with every record in its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.key_groups import key_group_of_hash, key_group_range
from rescale.planning.request.result_files import Format
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support import snapshots
from support.diffing import unequal_states
from support.heap import LONG, TEXT, Entry, HeapState, write_heap_group
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow_but
from support.snapshot_bytes import keyed_header
from support.written import write_heap_savepoint

HEAP_NAMES = [f"{line}-heap-{kind}" for line in ("1.20", "2") for kind in ("native", "native-compressed", "checkpoint")]
SHAPES = [((), ()), (("5",), ()), (("5",), ("1000",)), (("2",), ("16",))]
WITH_TTL = {"history-for-a-while", "kinds-for-a-while", "last-for-a-while"}
"""States with a time to live, whose values hold the time of the last write."""

CASES = [(name, *shape, result_format) for name in HEAP_NAMES for shape in SHAPES for result_format in Format]
QUICK = [
    ("2-heap-native", (), (), "canonical"),
    ("1.20-heap-native-compressed", ("5",), ("1000",), "canonical"),
    ("2-heap-native-compressed", ("2",), ("16",), "rocksdb"),
    ("1.20-heap-checkpoint", ("5",), (), "rocksdb"),
    ("2-heap-checkpoint", ("5",), ("1000",), "keep"),
    ("1.20-heap-native-compressed", ("2",), ("16",), "keep"),
]


@pytest.mark.parametrize("case", slow_but(lambda case: case in QUICK, CASES), ids=str)
def test_every_record_of_heap_state_is_in_the_result(
    case: tuple[str, tuple[str, ...], tuple[str, ...], str], tmp_path: Path
) -> None:
    """The twin is a canonical savepoint by Flink of the same job, though of another run."""
    name, parallelism, max_parallelism, result_format = case
    source, target = snapshots.directory(name), str(tmp_path / "target")
    plan = plan_rescale(source, target, parallelism, max_parallelism=max_parallelism, format=result_format)
    execute_without_spark(plan)
    assert validate_published(source, target, InProcessTasks()).verdict == "complete"
    result = open_snapshot(target)
    kinds = {"canonical": "canonical streams", "rocksdb": "RocksDB directories", "keep": "heap streams"}
    assert {kind for operator in result.operators for kind in operator.holder_kinds} == {kinds[result_format]}
    assert diff_snapshots(snapshots.opened(name), result, InProcessTasks()).equal
    twin = snapshots.opened(f"{name.partition('-')[0]}-canonical-hashmap")
    difference = diff_snapshots(twin, result, InProcessTasks())
    keyed_names = {state.name for operator in result.operators for state in operator.keyed_states}
    assert {state.state for state in unequal_states(difference)} & keyed_names == WITH_TTL
    counts = [(state.a.count, state.b.count) for operator in difference.operators for state in operator.states]
    assert sum(count for count, _ in counts) > 100


def test_key_in_a_foreign_key_group_is_refused(tmp_path: Path) -> None:
    source = shutil.copytree(snapshots.directory("2-heap-native"), tmp_path / "source")
    snapshot = open_snapshot(str(source))
    stream = max(
        (keyed_stream for operator in snapshot.operators for keyed_stream in operator.keyed),
        key=lambda keyed_stream: keyed_stream.extent.length,
    )
    file = Path(snapshot.files[stream.extent.file][0])
    content = file.read_bytes()
    position = content.rindex(b"\7user-") + 1
    file.write_bytes(content[:position] + b"uses-" + content[position + 5 :])
    plan = plan_rescale(str(source), str(tmp_path / "target"), max_parallelism=["64"], format="canonical")
    with pytest.raises(IntegrityError, match="does not give the key group that contains it"):
        execute_without_spark(plan)
    assert not (tmp_path / "target" / "_metadata").exists()


TOTAL, NAMES = HeapState("total", LONG, LONG), HeapState("names", LONG, TEXT, "MAP", LONG)
MAX_PARALLELISM = 16


@pytest.fixture
def savepoint_with_unlike_states(tmp_path: Path) -> str:
    """Return a savepoint whose three subtasks list different states or orders; the last one has no entries."""
    states_by_subtask = [(TOTAL, NAMES), (NAMES, TOTAL), (TOTAL,)]
    range_by_subtask = [
        key_group_range(MAX_PARALLELISM, len(states_by_subtask), subtask) for subtask in range(len(states_by_subtask))
    ]
    keys: dict[int, list[tuple[int, ...]]] = {group: [] for group in range(MAX_PARALLELISM)}
    for number in range(100):
        key = tuple(f"user-{number}".encode())
        keys[key_group_of_hash(TEXT.code(key), MAX_PARALLELISM)].append(key)
    content_by_state = {TOTAL.name: len, NAMES.name: lambda key: [(1, key), (2, None)]}
    groups = {}
    for states, own in zip(states_by_subtask, range_by_subtask, strict=True):
        for group in range(own.first, own.last + 1):
            entries = {
                i: [Entry(0, key, content_by_state[state.name](key)) for key in keys[group] if len(states) > 1]
                for i, state in enumerate(states)
            }
            groups[group] = write_heap_group(group, TEXT, states, entries, range(len(states)), snappy=False)
    headers = [keyed_header(*(state.info for state in states), key=TEXT.snapshot) for states in states_by_subtask]
    return write_heap_savepoint(tmp_path / "source", headers, groups, MAX_PARALLELISM)


@pytest.mark.parametrize("result_format", Format)
@pytest.mark.parametrize(("parallelism", "max_parallelism"), [("1", "16"), ("2", "16"), ("3", "16"), ("2", "64")])
def test_subtasks_with_different_states_are_rescaled(
    savepoint_with_unlike_states: str, result_format: Format, parallelism: str, max_parallelism: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    plan = plan_rescale(
        savepoint_with_unlike_states, target, [parallelism], max_parallelism=[max_parallelism], format=result_format
    )
    execute_without_spark(plan)
    assert validate_published(savepoint_with_unlike_states, target, InProcessTasks()).verdict == "complete"
    source, result = open_snapshot(savepoint_with_unlike_states), open_snapshot(target)
    difference = diff_snapshots(source, result, InProcessTasks())
    assert difference.equal
    assert {state.state: state.b.count > 100 for operator in difference.operators for state in operator.states} == {
        "total": False,
        "names": True,
    }
    if result_format is Format.KEEP:
        # In the same shape no record is read, because each stream stays unchanged.
        assert (plan.operators[0].rekeying is None) is (parallelism == "3")
