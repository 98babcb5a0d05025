"""State in the heap's own format as canonical state and as RocksDB's, in any shape: all of it, where it belongs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rescale.errors import IntegrityError
from rescale.execution.diff.snapshots import diff_snapshots
from rescale.execution.loop import Loop
from rescale.execution.steps import validate_published
from rescale.snapshot.opening import open_snapshot
from support import snapshots
from support.diffing import unlike
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow_but

HEAP = [f"{line}-heap-{kind}" for line in ("1.20", "2") for kind in ("native", "native-compressed", "checkpoint")]
SHAPES = [((), ()), (("5",), ()), (("3",), ("1000",)), (("2",), ("16",))]
OF_ITS_TIME = {"history-for-a-while", "kinds-for-a-while", "last-for-a-while"}
"""States with a time to live: they hold when they were written."""

CASES = [(name, *shape, wanted) for name in HEAP for shape in SHAPES for wanted in ("canonical", "rocksdb")]
QUICK = [
    ("2-heap-native", (), (), "canonical"),
    ("1.20-heap-native-compressed", ("3",), ("1000",), "canonical"),
    ("2-heap-native-compressed", ("2",), ("16",), "rocksdb"),
    ("1.20-heap-checkpoint", ("5",), (), "rocksdb"),
]


@pytest.mark.parametrize("case", slow_but(lambda case: case in QUICK, CASES), ids=str)
def test_every_record_is_taken(case: tuple[str, tuple[str, ...], tuple[str, ...], str], tmp_path: Path) -> None:
    """The twin is a canonical savepoint of Flink's: of the same job, though of another run."""
    name, parallelism, max_parallelism, wanted = case
    source, target = snapshots.directory(name), str(tmp_path / "target")
    plan = plan_rescale(source, target, parallelism, max_parallelism=max_parallelism, format=wanted)
    execute_without_spark(plan)
    assert validate_published(source, target, [], [], Loop())["verdict"] == "complete"
    result = open_snapshot(target)
    assert diff_snapshots(snapshots.opened(name), result, Loop()).equal
    twin = snapshots.opened(f"{name.partition('-')[0]}-canonical-hashmap")
    found = diff_snapshots(twin, result, Loop())
    keyed = {state.name for operator in result.operators for h in operator.keyed_headers if h for state in h.states}
    assert {state.state for state in unlike(found)} & keyed == OF_ITS_TIME
    counts = [(state.a.count, state.b.count) for operator in found.operators for state in operator.states]
    assert sum(count for count, _ in counts) > 100


def test_a_key_in_a_foreign_group_is_found(tmp_path: Path) -> None:
    source = shutil.copytree(snapshots.directory("2-heap-native"), tmp_path / "source")
    snapshot = open_snapshot(str(source))
    stream = max((one for operator in snapshot.operators for one in operator.keyed), key=lambda one: one.extent.length)
    file = Path(snapshot.files[stream.extent.file][0])
    content = file.read_bytes()
    at = content.rindex(b"\7user-") + 1
    file.write_bytes(content[:at] + b"uses-" + content[at + 5 :])
    plan = plan_rescale(str(source), str(tmp_path / "target"), max_parallelism=["64"], format="canonical")
    with pytest.raises(IntegrityError, match="does not give the key group that it lies in"):
        execute_without_spark(plan)
    assert not (tmp_path / "target" / "_metadata").exists()
