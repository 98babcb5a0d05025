"""Two snapshots of the same state are equal whatever their shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.snapshot.reading.opening import open_snapshot
from support import snapshots
from support.diffing import diff, diff_against_source, unequal_states
from support.finished import rescaled
from support.pipeline import rescale_snapshot, shared_processes
from support.slow import slow

SHAPES = [
    (name, parallelism)
    for line in ("1.20", "2")
    for kind in (
        "canonical-hashmap",
        "canonical-rocksdb",
        "canonical-compressed",
        "heap-native",
        "heap-native-compressed",
        "heap-checkpoint",
        "lazy",
        "lazy-compressed",
        "raw",
        "inline",
        "finished",
        "source",
        "sql",
        "windows",
        "clicks",
    )
    for name, parallelism in ((f"{line}-{kind}", "1"), (f"{line}-{kind}", "4"))
]


WITH_TTL = {"history-for-a-while", "kinds-for-a-while", "last-for-a-while"}
"""States with a time to live, whose values hold the time of the last write."""


@pytest.mark.parametrize(("name", "parallelism"), [slow(*shape) if i % 5 else shape for i, shape in enumerate(SHAPES)])
def test_snapshot_is_equal_to_its_rescale_to_another_parallelism(name: str, parallelism: str, tmp_path: Path) -> None:
    result = rescaled(name, tmp_path, parallelism)
    difference = diff_against_source(result, name)
    assert difference.equal, unequal_states(difference)
    assert sum(state.a.count for operator in difference.operators for state in operator.states) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "max_parallelism"), [("2-clicks", "1000"), ("1.20-canonical-compressed", "16")])
def test_snapshot_is_equal_to_its_rescale_to_another_max_parallelism(
    name: str, max_parallelism: str, tmp_path: Path
) -> None:
    """The comparison by tasks in worker processes finds no difference either."""
    target = str(tmp_path / "target")
    rescale_snapshot(snapshots.directory(name), target, parallelism=["3"], max_parallelism=[max_parallelism])
    difference = diff_snapshots(snapshots.opened(name), open_snapshot(target), shared_processes())
    assert difference.equal, unequal_states(difference)
    shapes = {operator.b for operator in difference.operators}
    assert {shape.max_parallelism for shape in shapes if shape} == {int(max_parallelism)}


@pytest.mark.parametrize("line", ["1.20", "2"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("canonical-hashmap", "canonical-rocksdb"),
        ("canonical-rocksdb", "heap-checkpoint"),
        ("heap-native", "heap-native-compressed"),
    ],
)
def test_snapshots_of_one_job_from_different_backends_are_equal(line: str, a: str, b: str) -> None:
    """The backends write nulls of a map in different ways, and the shapes differ."""
    difference = diff(snapshots.opened(f"{line}-{a}"), snapshots.opened(f"{line}-{b}"))
    assert {state.state for state in unequal_states(difference)} == WITH_TTL
    assert all(d.found == "other value" for state in unequal_states(difference) for d in state.differences)
    assert all("time to live" in (state.remark or "") for state in unequal_states(difference))
