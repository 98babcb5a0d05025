"""Division of reads and writes: every key group once, in order, whatever the sizes and the number of cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import groupby, pairwise

import pytest

from big_savepoint import write_savepoint
from rescale.execution.rekeying import read_units as units_module
from rescale.execution.rekeying import write_ranges
from rescale.execution.rekeying.read_units import split_into_read_units
from rescale.execution.rekeying.write_ranges import plan_write_ranges
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.execution.writers.protocol import WriteRange
from rescale.flink.key_groups import key_group_range
from rescale.plan.plan import Plan
from rescale.plan.rekeying import PlannedSource, Rekeying
from rescale.snapshot.locate import Extent
from rescale.snapshot.places import StreamPlace
from support import snapshots
from support.pipeline import plan_rescale

MakePlan = Callable[[str, int, int], Plan]
SOURCES = ["big", "2-lazy", "2-canonical-compressed", "1.20-windows", "2-sql"]
SHAPES = [(1, 1000), (3, 64), (7, 32768), (2, 24)]


@pytest.fixture(scope="module")
def make_plan(tmp_path_factory: pytest.TempPathFactory) -> MakePlan:
    """Return a function that plans the rescale of a snapshot to a parallelism and a max parallelism."""
    big = tmp_path_factory.mktemp("ranges") / "big"
    write_savepoint(big, 2 << 20, value_size=1000)

    @cache
    def make(name: str, parallelism: int, max_parallelism: int) -> Plan:
        source = str(big) if name == "big" else snapshots.directory(name)
        return plan_rescale(source, "/nowhere/target", [str(parallelism)], max_parallelism=[str(max_parallelism)])

    return make


def rekeying_by_operator(plan: Plan) -> dict[int, Rekeying]:
    return {i: operator.rekeying for i, operator in enumerate(plan.operators) if operator.rekeying is not None}


def ranges_of(plan: Plan, cores: int) -> list[WriteRange]:
    return plan_write_ranges(plan, rekeying_by_operator(plan), CanonicalWriter(plan).range_size, cores)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("parallelism", "max_parallelism"), SHAPES)
@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize("range_size", [1, 5000, 1 << 40])
def test_write_ranges_cover_every_stream_within_their_limits(
    name: str,
    parallelism: int,
    max_parallelism: int,
    cores: int,
    range_size: int,
    make_plan: MakePlan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_ranges, "RANGE_SIZE", range_size)
    plan = make_plan(name, parallelism, max_parallelism)
    ranges = ranges_of(plan, cores)
    ranges_by_stream: dict[tuple[int, int], list[WriteRange]] = {}
    for write_range in ranges:
        ranges_by_stream.setdefault((write_range.operator_index, write_range.subtask), []).append(write_range)
    assert list(ranges_by_stream) == [
        (i, j) for i in rekeying_by_operator(plan) for j in range(plan.operators[i].new_parallelism)
    ]
    for (i, subtask), own_ranges in ranges_by_stream.items():
        operator = plan.operators[i]
        own = key_group_range(operator.new_max_parallelism, operator.new_parallelism, subtask)
        groups = [group for write_range in own_ranges for group in range(write_range.first, write_range.last + 1)]
        assert groups == list(range(own.first, own.last + 1))
        assert operator.rekeying is not None
        assert len(own_ranges) == 1 or not operator.rekeying.compressed
    partitions = [write_range.partition for write_range in ranges]
    assert partitions[0] == 0
    assert {after - before for before, after in pairwise(partitions)} <= {0, 1}
    total_bytes = sum(operator.rekeying.bytes for operator in plan.operators if operator.rekeying)
    limit = min(range_size, max(1, total_bytes // (2 * cores)))
    cut_limit = min(range_size, max(plan.part_size, total_bytes // 256))
    assert all(is_small(plan, [write_range], cut_limit) for write_range in ranges)
    ranges_by_partition = [
        list(own_ranges) for _, own_ranges in groupby(ranges, lambda write_range: write_range.partition)
    ]
    filled_ranges = [
        [write_range for write_range in own_ranges if key_group_sizes(plan, write_range)]
        for own_ranges in ranges_by_partition
    ]
    assert all(len(own_ranges) <= 1 or is_small(plan, own_ranges, limit) for own_ranges in filled_ranges)


def is_small(plan: Plan, ranges: list[WriteRange], limit: int) -> bool:
    """Return whether the ranges together are within the limit, or are one range that cannot be cut.

    A range cannot be cut if it has a single key group, or if the plan compresses key groups.
    """
    compressed = any(r.compressed for o in plan.operators if (r := o.rekeying) is not None)
    cannot_be_cut = len(ranges) == 1 and (len(key_group_sizes(plan, ranges[0])) == 1 or compressed)
    return cannot_be_cut or sum(sum(key_group_sizes(plan, write_range)) for write_range in ranges) <= limit


def key_group_sizes(plan: Plan, write_range: WriteRange) -> list[int]:
    """Return the sizes in bytes of the key groups in a range that are not empty."""
    sizes = plan.operators[write_range.operator_index].expected_key_group_bytes[
        write_range.first : write_range.last + 1
    ]
    return [size for size in sizes if size]


def test_small_streams_share_a_partition_and_large_ones_have_many(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan("big", 7, 32768)
    assert len({write_range.partition for write_range in ranges_of(plan, 1)}) in (2, 3, 4)
    monkeypatch.setattr(write_ranges, "RANGE_SIZE", 50_000)
    assert len({write_range.partition for write_range in ranges_of(plan, 1)}) > 40


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("unit_size", [1, 3000, 1 << 40])
def test_every_key_group_is_read_once(
    name: str, unit_size: int, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units_module, "UNIT_SIZE", unit_size)
    plan = make_plan(name, 3, 64)
    units = split_into_read_units(rekeying_by_operator(plan))
    assert [unit.unit_index for unit in units] == list(range(len(units)))
    read_groups = []
    for unit in units:
        assert isinstance(unit.source.place, StreamPlace)
        lengths = [group[1] for group in unit.source.place.groups if group is not None]
        assert unit.size == sum(lengths) > 0
        assert unit.size <= unit_size or len(lengths) == 1
        read_groups += placed_key_groups(unit.operator_index, unit.source)
    sources = [(i, source) for i, rekeying in rekeying_by_operator(plan).items() for source in rekeying.sources]
    expected_groups = [place for i, source in sources for place in placed_key_groups(i, source)]
    assert read_groups == expected_groups, "key groups are read in another order than that of the result"


def placed_key_groups(operator_index: int, source: PlannedSource) -> list[tuple[int, int, Extent]]:
    """Return (operator, key group, extent) of each key group that is present."""
    assert isinstance(source.place, StreamPlace)
    return [(operator_index, key_group, extent) for key_group, extent in source.place.extents]


@pytest.mark.parametrize("part_size", [5000, 1 << 40])
def test_cuts_between_write_ranges_depend_on_the_plan_alone(part_size: int, make_plan: MakePlan) -> None:
    """Ranges are parts of files, which retries must cut in the same places."""
    plan = replace(make_plan("big", 3, 64), part_size=part_size)
    on_one_core, on_five_cores, on_many_cores = (
        [write_range._replace(partition=0) for write_range in ranges_of(plan, cores)] for cores in (1, 5, 64)
    )
    assert on_one_core == on_five_cores == on_many_cores
    assert (len(on_one_core) > 3) is (part_size < 1 << 40)
    partitions = [ranges_of(plan, cores)[-1].partition for cores in (1, 64)]
    assert partitions[0] < partitions[1] or part_size == 1 << 40
