"""Keys that were picked by hand, one for each subtask, are recognised, and their new subtasks computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.harness import Flink, Job
from rescale.flink.keys.virtual_keys import virtual_keys
from rescale.insight.hand_picked_keys import hand_picked_keys
from rescale.insight.insight import with_measured_databases
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot.reading.opening import open_snapshot
from support.slow import slow

PICKED_JOB = Job("picked", 5, {"seed": 3}, max_parallelism=128)


@pytest.mark.parametrize(
    ("backend", "kind"), [slow("rocksdb", "canonical"), slow("hashmap", "native"), ("rocksdb", "native")]
)
def test_hand_picked_keys_are_recognised_and_their_new_subtasks_are_those_of_flink(
    flink: Flink, tmp_path: Path, backend: str, kind: str
) -> None:
    snapshot = with_measured_databases(
        open_snapshot(str(flink.snapshot(PICKED_JOB.with_(backend=backend), tmp_path, kind)))
    )
    (operator,) = [operator for operator in snapshot.operators if operator.keyed or operator.databases]
    keys = virtual_keys("int", 128, 5)
    for shape in (Shape(5, 128), Shape(8, 128), Shape(3, 64), Shape(6, 1000)):
        hand_picked = hand_picked_keys(snapshot, operator, shape)
        assert hand_picked is not None
        assert [int(picked.key) for picked in hand_picked.keys] == list(keys)
        assert hand_picked.smallest
        groups = flink.key_groups(hashes=[(key, shape.max_parallelism) for key in keys])["groups"]
        owners = flink.key_groups(owners=[(shape.max_parallelism, shape.parallelism, group) for group in groups])[
            "owners"
        ]
        assert [picked.new_subtask for picked in hand_picked.keys] == owners
        assert hand_picked.idle == tuple(sorted(set(range(shape.parallelism)) - set(owners)))
        assert bool(hand_picked.idle) == (shape != Shape(5, 128)) or hand_picked.crowded
        assert hand_picked.table == virtual_keys("int", shape.max_parallelism, shape.parallelism)
        assert hand_picked.dealt == ("pending",)
