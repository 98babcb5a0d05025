"""Timers that RocksDB keeps on the heap stay raw keyed state, with none missing, at another max parallelism.

The twin of every result is the canonical savepoint that Flink took at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.rekeying import block_buffer
from rescale.execution.rekeying.block_buffer import BlockBuffer
from rescale.execution.rekeying.sorted_blocks import SortedBlocks
from rescale.execution.sources.planned_records import read_header
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.writers import windows
from rescale.execution.writers.files import stream_uri
from rescale.execution.writers.protocol import WriteRange
from rescale.execution.writers.whole_streams import (
    HeapStreamsWriter,
    TimersWriter,
    WholeStreamWork,
    WholeStreamWriter,
    WrittenWholeStream,
)
from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.header import require_header
from rescale.flink.keyed.timers.heap_timers import read_services
from rescale.flink.slot import Slot
from rescale.plan.new_streams import RekeyedHeapGroups, RekeyedTimers
from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError
from support import snapshots
from support.finished import HANDLE_FAULTS, rescaled
from support.pipeline import execute_without_spark, plan_rescale
from support.planting import Place, Result
from support.rekeyed import contents
from support.results import files_of, remove
from support.slow import slow, slow_but

FIXTURES = ("1.20-rocksdb-heap-timers", "2-rocksdb-heap-timers")
SHAPES = [(parallelism, max_parallelism) for parallelism in (1, 2, 3, 5, 8) for max_parallelism in (64, 256, 1000)]
QUICK = [(1, 256), (3, 64), (5, 1000)]


def plan_for(name: str, target: Path, parallelism: int, max_parallelism: int, result_format: str = "keep") -> Plan:
    source = snapshots.directory(name)
    return plan_rescale(
        source, str(target), [str(parallelism)], max_parallelism=[str(max_parallelism)], format=result_format
    )


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("shape", slow_but(lambda shape: shape in QUICK, SHAPES))
def test_result_is_equal_to_the_savepoint_that_flink_took(name: str, shape: tuple[int, int], tmp_path: Path) -> None:
    parallelism, max_parallelism = shape
    plan = plan_for(name, tmp_path / "target", parallelism, max_parallelism)
    execute_without_spark(plan)
    result = open_snapshot(plan.target)
    twin = open_snapshot(str(snapshots.FIXTURES / name / "canonical"))
    assert diff_snapshots(twin, result, InProcessTasks()).equal
    assert validate_published(plan.source, plan.target, InProcessTasks()).verdict == "complete"
    (operator,) = (operator for operator in result.operators if operator.raw_keyed)
    assert [database.subtask for database in operator.databases] == list(range(parallelism))
    ranges = [key_group_range(max_parallelism, parallelism, subtask) for subtask in range(parallelism)]
    assert [stream.key_groups for stream in operator.raw_timers] == ranges


def test_every_key_group_is_present_and_lists_the_services(tmp_path: Path) -> None:
    """Flink writes every key group with all services, and reads from there even those that have no timers."""
    plan = plan_for(FIXTURES[1], tmp_path / "target", 3, 1000)
    execute_without_spark(plan)
    result = open_snapshot(plan.target)
    (operator,) = (operator for operator in result.operators if operator.raw_keyed)
    groups = {group: data for stream in operator.raw_keyed for group, data in contents(result, stream)}
    (services,) = {stream.timer_services for stream in operator.raw_keyed}
    assert list(groups) == list(range(1000))
    assert {read_services(data, 2) for data in groups.values()} == {services}


@pytest.mark.parametrize("name", slow_but(lambda name: name == FIXTURES[1], FIXTURES))
def test_bytes_depend_on_the_plan_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes do not depend on the order of tasks, their number, or the memory."""
    plan = plan_for(name, tmp_path / "target", 3, 256)
    execute_without_spark(plan)
    first_files = files_of(plan)
    assert any("-rawkeyed-" in file for file in first_files)
    remove(plan)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 100)
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", 500)
    monkeypatch.setattr("rescale.execution.rekeying.read_units.UNIT_SIZE", 2000)
    execute_without_spark(plan, cores=64, order=Random(7))
    assert files_of(plan) == first_files


def test_stream_may_have_many_parts(tmp_path: Path) -> None:
    plan = plan_for(FIXTURES[1], tmp_path / "target", 2, 256)
    plan_with_small_parts = replace(plan, part_size=1000, target=str(tmp_path / "small"))
    for each_plan in (plan, plan_with_small_parts):
        execute_without_spark(each_plan)
    files = [
        sorted(path.read_bytes() for path in Path(each_plan.target).glob("*-rawkeyed-*"))
        for each_plan in (plan, plan_with_small_parts)
    ]
    assert files[0] == files[1] != []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    return cache(
        lambda max_parallelism: rescaled(
            FIXTURES[1], tmp_path_factory.mktemp("finished"), "2", max_parallelism=[max_parallelism]
        )
    )


def filled_groups(groups: list[bytes | None]) -> list[int]:
    """Return the numbers of the key groups with timers, which are longer than the shortest one, without timers."""
    shortest_bytes = min(len(group) for group in groups if group is not None)
    return [i for i, group in enumerate(groups) if group is not None and len(group) > shortest_bytes]


def lose_timers(result: Result, place: Place) -> None:
    groups = result.groups(place)
    lost_group, empty = filled_groups(groups)[0], min((group for group in groups if group), key=len)
    result.write_groups(place, [empty if i == lost_group else group for i, group in enumerate(groups)])


def exchange_groups(result: Result, place: Place) -> None:
    groups = result.groups(place)
    first, other = filled_groups(groups)[:2]
    groups[first], groups[other] = groups[other], groups[first]
    result.write_groups(place, groups)


def double_timers(result: Result, place: Place) -> None:
    groups = result.groups(place)
    first, other = filled_groups(groups)[:2]
    groups[other] = groups[first]
    result.write_groups(place, groups)


def change_a_time(result: Result, place: Place) -> None:
    extent = place.stream.groups[filled_groups(result.groups(place))[0]]  # type: ignore[union-attr]
    assert extent is not None
    place.flip(extent.start + extent.length - 5)  # in the last time, after which there is at most a count of 4 bytes


FAULTS = {
    "lost timers": lose_timers,
    "exchanged groups": exchange_groups,
    "doubled timers": double_timers,
    "another time": change_a_time,
    **HANDLE_FAULTS,
}
del FAULTS["offsets swapped"]  # may do no harm: the first and the last key group may both have no timers


@pytest.mark.parametrize("max_parallelism", ["64", slow("1000")])
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_in_timers_is_found(fault: str, max_parallelism: str, result_of: Callable[[str], Result]) -> None:
    result = result_of(max_parallelism)
    result.validate()
    FAULTS[fault](result, result.places(Slot.RAW_KEYED)[0])
    with pytest.raises(IntegrityError):
        result.validate()


@pytest.mark.parametrize("shape", [(2, 200), (3, 100), slow((5, 256))], ids=str)
def test_timers_stored_twice_are_in_the_result_once(shape: tuple[int, int], tmp_path: Path) -> None:
    """A full checkpoint of RocksDB before Flink 1.16 stores timers as keyed and as raw keyed state."""
    plan = plan_for("1.15.4-full-heap-timers", tmp_path / "target", *shape, result_format="rocksdb")
    execute_without_spark(plan)
    result = open_snapshot(plan.target)
    assert diff_snapshots(open_snapshot(plan.source), result, InProcessTasks()).equal
    assert validate_published(plan.source, plan.target, InProcessTasks()).verdict == "complete"
    (operator,) = (operator for operator in result.operators if operator.raw_keyed)
    assert len(operator.databases) == len(operator.raw_timers) == shape[0]
    headers = [database.parsed for database in operator.databases]
    assert {state.state_type for header in headers if header for state in header.states} == {"VALUE", "LIST", "MAP"}


@pytest.mark.parametrize(
    ("name", "make_writer", "kind"),
    [(FIXTURES[1], TimersWriter, RekeyedTimers), ("2-heap-native", HeapStreamsWriter, RekeyedHeapGroups)],
)
def test_stream_without_records_consists_of_empty_key_groups(
    name: str, make_writer: Callable[[Plan], WholeStreamWriter], kind: type, tmp_path: Path
) -> None:
    plan = plan_for(name, tmp_path / "target", 2, 1000)
    claim(plan)
    stream_index, operator, stream = next(
        ((i, j), operator, stream)
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.rekeyed_streams)
        if isinstance(stream, kind)
    )
    own, no_numbers, writer = stream.key_group_range, np.empty(0, np.int64), make_writer(plan)
    work = WholeStreamWork(WriteRange(stream_index[0], stream.subtask, own.first, own.last, 0), stream_index[1], 0)
    with BlockBuffer() as buffer:
        written_stream = writer.write(work, SortedBlocks(3, no_numbers, no_numbers, no_numbers, no_numbers, buffer))
    header = require_header(read_header(plan, stream.header))
    group_writer = writer.group_writer(header, operator.new_max_parallelism)
    groups = [group_writer.empty(group) for group in range(own.first, own.last + 1)]
    assert written_stream == WrittenWholeStream(
        *stream_index, stream.header_size + sum(map(len, groups)), tuple(map(len, groups))
    )
    assert Path(stream_uri(plan, operator, stream)).read_bytes()[stream.header_size :] == b"".join(groups)
