"""Whole runs: every record is in its place byte by byte, and the bytes do not depend on how the work is divided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from big_savepoint import write_savepoint
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.snapshot.reading.opening import open_snapshot
from support import snapshots
from support.examples import examples
from support.pipeline import execute, execute_without_spark, plan_rescale
from support.rekeyed import assert_rekeyed
from support.results import files_of, remove
from support.slow import pairs_in_turn, slow

MIB = 1 << 20
NAMES = ["2-canonical-hashmap", "2-lazy", "2-lazy-compressed", "1.20-clicks", "2-windows", "2-sql", "1.15.4-clicks"]
SETTINGS = {
    "RANGE_SIZE": "rescale.execution.rekeying.write_ranges.RANGE_SIZE",
    "UNIT_SIZE": "rescale.execution.rekeying.read_units.UNIT_SIZE",
    "BUFFER_SIZE": "rescale.flink.keyed.blocks.records.BUFFER_SIZE",
    "RECORDS_AT_ONCE": "rescale.flink.keyed.blocks.records.RECORDS_AT_ONCE",
    "BATCH_COUNT": "rescale.execution.rekeying.map_task.BATCH_COUNT",
    "ROW_BYTES": "rescale.execution.rekeying.block_rows.ROW_BYTES",
    "PIECE_BYTES": "rescale.execution.writers.canonical.block_framing.PIECE_BYTES",
    "MOST_BYTES_IN_MEMORY": "rescale.execution.rekeying.block_buffer.MOST_BYTES_IN_MEMORY",
    "INLINE_LIMIT": "rescale.planning.streams.inline.INLINE_LIMIT",
}
WORK_SETTINGS = sorted(SETTINGS.keys() - {"INLINE_LIMIT"})
"""Names of the settings that do not change the result."""

SOME_INLINE_LIMIT = 6000
"""Limit of inline streams that some streams exceed under another max parallelism and some do not."""


@contextmanager
def patched_settings(**setting_values: int) -> Iterator[None]:
    """Patch the limits of what is done at once, and of what lies inline; `SETTINGS` lists their names."""
    with ExitStack() as stack:
        for setting, value in setting_values.items():
            stack.enter_context(patch(SETTINGS[setting], value))
        yield


@pytest.mark.parametrize(
    ("snapshot_name", "shape"), pairs_in_turn(NAMES, [("3", "1000"), ("2", "8"), ("7", "129"), ("1", "32768")])
)
@pytest.mark.parametrize("inline", [True, slow(False)])
def test_every_record_lies_in_the_key_group_of_its_key(
    snapshot_name: str, shape: tuple[str, str], inline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    parallelism, max_parallelism = shape
    source = snapshots.directory(snapshot_name)
    plan = plan_rescale(source, str(tmp_path / "target"), [parallelism], max_parallelism=[max_parallelism])
    execute_without_spark(plan)
    assert_rekeyed(source, plan.target)


@pytest.fixture(scope="module")
def large_savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a savepoint of 12 MiB in four files."""
    directory = tmp_path_factory.mktemp("large") / "savepoint"
    write_savepoint(directory, 12 * MIB, value_size=10_000)
    return str(directory)


@pytest.mark.parametrize("max_parallelism", [slow("64"), "1000"])
def test_spark_and_the_in_process_loop_write_the_same_bytes(
    max_parallelism: str, large_savepoint: str, tmp_path: Path
) -> None:
    plan = plan_rescale(large_savepoint, str(tmp_path / "target"), ["3"], max_parallelism=[max_parallelism])
    execute(plan)
    assert_rekeyed(large_savepoint, plan.target)
    spark_files = files_of(plan)
    assert len(spark_files) == 3 + 1 + 4, "a file for each subtask, `_metadata`, and what is beside the target"
    remove(plan)
    execute_without_spark(plan)
    assert files_of(plan) == spark_files
    assert validate_published(large_savepoint, plan.target, InProcessTasks()).verdict == "complete"


@st.composite
def drawn_settings(draw: st.DrawFn, scale: int) -> dict[str, int]:
    """Draw values of some settings, except the smallest, which would only take long."""
    strategy_by_setting = {
        "RECORDS_AT_ONCE": st.integers(1, 1000),
        "BUFFER_SIZE": st.integers(scale // 1000, scale),
        "BATCH_COUNT": st.integers(1, 10),
    }
    setting_names = draw(st.sets(st.sampled_from(WORK_SETTINGS), min_size=1))
    return {
        setting: draw(strategy_by_setting.get(setting, st.integers(scale // 500, scale))) for setting in setting_names
    }


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    snapshot_name=st.sampled_from(["2-lazy", "2-lazy-compressed", "1.20-clicks"]),
    setting_values=drawn_settings(5000),
    cores=st.integers(1, 9),
    seed=st.integers(0, 1 << 30),
)
def test_bytes_depend_on_the_plan_alone(
    snapshot_name: str,
    setting_values: dict[str, int],
    cores: int,
    seed: int,
    default_result: Callable[[str], tuple[Plan, dict[str, bytes]]],
) -> None:
    plan, expected = default_result(snapshot_name)
    remove(plan)
    with patched_settings(**setting_values, INLINE_LIMIT=SOME_INLINE_LIMIT):
        execute_without_spark(plan, cores=cores, order=Random(seed))
    assert files_of(plan) == expected


@pytest.fixture(scope="module")
def default_result(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Plan, dict[str, bytes]]]:
    """Return a function that gives a plan for a snapshot and the files made with default `WORK_SETTINGS`."""
    result_by_name: dict[str, tuple[Plan, dict[str, bytes]]] = {}

    def make(snapshot_name: str) -> tuple[Plan, dict[str, bytes]]:
        if snapshot_name not in result_by_name:
            target = tmp_path_factory.mktemp("first") / "target"
            plan = plan_rescale(snapshots.directory(snapshot_name), str(target), ["3"], max_parallelism=["1000"])
            with patched_settings(INLINE_LIMIT=SOME_INLINE_LIMIT):
                execute_without_spark(plan)
            result_by_name[snapshot_name] = (plan, files_of(plan))
        return result_by_name[snapshot_name]

    return make


@pytest.mark.parametrize(
    "setting_values",
    [
        {"RANGE_SIZE": 300_000, "UNIT_SIZE": 500_000},
        {"BUFFER_SIZE": 9_000, "BATCH_COUNT": 1, "ROW_BYTES": 30_000, "PIECE_BYTES": 25_000},
        {"MOST_BYTES_IN_MEMORY": 0, "RECORDS_AT_ONCE": 7, "BATCH_COUNT": 1},
    ],
)
@pytest.mark.parametrize("cores", [slow(1), 5])
def test_large_state_has_the_same_records_with_any_settings(
    setting_values: dict[str, int], cores: int, large_savepoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", MIB)
    plan = plan_rescale(large_savepoint, str(tmp_path / "target"), ["3"], max_parallelism=["1000"])
    with patched_settings(**setting_values):
        execute_without_spark(plan, cores=cores, order=Random(5))
    assert_rekeyed(large_savepoint, plan.target)


def test_inline_streams_share_one_budget(tmp_path: Path) -> None:
    """Streams whose size the plan knows come first."""
    budget = 12_000
    plan = plan_rescale(snapshots.directory("2-canonical-hashmap"), str(tmp_path / "free"), max_parallelism=["1000"])
    execute_without_spark(plan)
    assert inline_bytes(plan) > budget
    with patch("rescale.planning.streams.inline.INLINE_BUDGET", budget):
        plan = plan_rescale(snapshots.directory("2-canonical-hashmap"), str(tmp_path / "t"), max_parallelism=["1000"])
        execute_without_spark(plan)
    planned_bytes = sum(stream.size for operator in plan.operators for stream in operator.streams if stream.inline)
    assert 0 < planned_bytes < inline_bytes(plan) <= budget


def inline_bytes(plan: Plan) -> int:
    """Return the bytes of all streams of the result that lie in `_metadata`."""
    streams = [
        s for o in open_snapshot(plan.target).operators for s in (*o.keyed, *o.element_streams, *o.raw_element_streams)
    ]
    return sum(stream.extent.length for stream in streams if stream.extent.file == 0)
