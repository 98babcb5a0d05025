"""A cluster on paper, held against a simulated one, and its tasks against those that there would be."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rescale.execution.rekeying.read_units import read_units
from rescale.execution.rekeying.write_ranges import plan_write_ranges
from rescale.execution.tasks.spark.dispatch import slices_of
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.insight.cluster import AMAZON, Cluster, Prices, cluster_of, cluster_of_environment
from rescale.insight.cluster_estimate import STARTS_LIMIT, Need, estimate
from rescale.insight.stages import (
    READS_A_SECOND,
    TASKS_A_SECOND,
    WRITES_A_SECOND,
    read_tasks,
    worth,
    write_tasks,
)
from rescale.insight.workload import workload_of
from rescale.plan.plan import Plan
from rescale.storage.s3.request_size import request_size
from rescale.text.errors import RequestError
from support.cluster_run import SimulatedCluster, SimulatedStage
from support.large_plans import large_plan
from support.slow import slow

TB = 10**12
THOUSAND = Cluster(executors=1000, cores=8, bandwidth=1_200_000_000)
FORTY = Cluster(executors=40, cores=8, bandwidth=1_200_000_000)
COSTS = json.loads((Path(__file__).parent / "task_costs.json").read_text())
"""By `benchmarks/task_costs.py`: (bytes, CPU seconds) of every task."""


def real_stages(plan: Plan, cluster: Cluster) -> list[SimulatedStage]:
    """With the tasks that the steps would deal."""
    cluster = worth(cluster, plan.bytes_moved)
    rekeyings = {i: operator.rekeying for i, operator in enumerate(plan.operators) if operator.rekeying is not None}
    if not rekeyings:
        part = plan.part_size
        parts = weights(slices_of([(part, 0)] * -(-plan.bytes_moved // part), cluster.slots))
        costs = COSTS["copy"]
        return [
            SimulatedStage(parts, costs["reshuffle keyed state"], 2, part * WRITES_A_SECOND),
            SimulatedStage(parts, costs["validate"], 2, request_size(64 << 20) * READS_A_SECOND),
        ]
    units = read_units(rekeyings)
    asked = request_size(max(unit.size for unit in units)) * READS_A_SECOND
    read = weights(slices_of([(unit.size, unit) for unit in units], cluster.slots))
    partitions: dict[int, int] = defaultdict(int)
    for write_range in plan_write_ranges(plan, rekeyings, CanonicalWriter(plan).range_size, cluster.slots):
        partitions[write_range.partition] += sum(
            plan.operators[0].expected_key_groups[write_range.first : write_range.last + 1]
        )
    costs = COSTS["rehash"]
    put = plan.part_size * WRITES_A_SECOND
    return [
        SimulatedStage(read, costs["read and check every record"], 1, asked, 1, shuffled=True),
        SimulatedStage(list(partitions.values()), costs["write every record under its new key group"], 2, put, 1),
        SimulatedStage([*read, *read], costs["validate"], 1, 2 * asked),
    ]


def weights(slices: Sequence[Sequence[tuple[int, object]]]) -> list[int]:
    return [sum(weight for weight, _ in some) for some in slices]


CASES = {
    "1 TB": (TB, 32000, 1, FORTY),
    "10 TB": (10 * TB, 32000, 1, THOUSAND),
    "10 TB, a key group in a thousand times the others": (10 * TB, 32000, 1000, THOUSAND),
    "10 TB on few": (10 * TB, 32000, 1, FORTY),
    "100 TB": (100 * TB, 32000, 1, THOUSAND),
    "100 TB copied": (100 * TB, None, 1, THOUSAND),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, slow(1)])
def test_a_simulated_run_takes_what_was_estimated_by_a_factor_of_two(case: str, seed: int) -> None:
    """One executor in a hundred is slow, and some are lost with what they had shuffled."""
    size, maximum, hot, cluster = CASES[case]
    plan = large_plan(size, maximum, hot=hot)
    simulated = SimulatedCluster(worth(cluster, plan.bytes_moved), Random(seed), TASKS_A_SECOND)
    took = simulated.run(real_stages(plan, cluster))
    expected = sum(stage.seconds for stage in estimate(workload_of(plan), cluster).stages)
    assert expected / 2 < took < expected * 2
    if size == 100 * TB:
        assert simulated.lost > 5
        assert simulated.again > simulated.lost


@pytest.mark.parametrize(("size", "cluster"), [(TB, FORTY), (10 * TB, THOUSAND), (100 * TB, THOUSAND)])
def test_there_are_as_many_tasks_as_are_dealt(size: int, cluster: Cluster) -> None:
    plan = large_plan(size, 32000)
    (rekeyed,) = workload_of(plan).rekeyed
    read, written, _ = real_stages(plan, cluster)
    used = worth(cluster, plan.bytes_moved)
    assert read_tasks(rekeyed, used) == pytest.approx(len(read.tasks), rel=0.6)
    assert write_tasks(rekeyed, used) == pytest.approx(len(written.tasks), rel=0.6)


def test_what_binds_is_what_there_is_too_little_of() -> None:
    work = workload_of(large_plan(10 * TB, 32000))
    assert estimate(work, FORTY).limit == "cores"
    assert estimate(workload_of(large_plan(TB // 1000, 64, subtasks=10, groups=128)), FORTY).limit == STARTS_LIMIT, (
        "no core makes it quicker"
    )
    assert estimate(work, replace(FORTY, cores=64)).limit == "the executors' disks"
    assert estimate(work, replace(FORTY, bandwidth=100_000_000)).limit == "the executors' network"
    assert estimate(workload_of(large_plan(100 * TB, 32000)), THOUSAND).limit == "requests that S3 answers for a prefix"
    few = workload_of(large_plan(10 * TB, 64, subtasks=10, groups=128))
    assert estimate(few, THOUSAND).limit == "the largest key group, which one core works through"


def test_requests_cost_what_they_are_said_to() -> None:
    work = workload_of(large_plan(TB, None))
    estimated = estimate(work, FORTY)
    assert estimated.requests.writes >= TB / work.part_size
    assert estimated.requests.reads >= TB / work.part_size + 2 * TB / (4 << 20)
    assert estimated.dollars == pytest.approx(
        (estimated.requests.writes * AMAZON.writes + estimated.requests.reads * AMAZON.reads) / 1000
    )
    assert estimate(work, replace(FORTY, prices=Prices(0, 0))).dollars == 0


def test_a_copy_shuffles_nothing_and_a_rehash_everything() -> None:
    copied, rehashed = (estimate(workload_of(large_plan(TB, maximum)), FORTY) for maximum in (None, 32000))
    assert copied.shuffle == copied.scratch == 0
    assert rehashed.shuffle == pytest.approx(TB / 40 * 39 / 40, rel=0.01)
    assert TB / 40 < rehashed.scratch < TB / 40 * 1.1


def test_what_does_not_fit_is_told() -> None:
    work = workload_of(large_plan(10 * TB, 32000))
    assert estimate(work, FORTY).misfits == ()
    tight = replace(FORTY, scratch=200 << 30, driver_memory=1 << 30)
    misfits = estimate(work, tight).misfits
    assert [misfit.need for misfit in misfits] == [Need.SCRATCH, Need.DRIVER_MEMORY]
    assert all(misfit.needed > misfit.has for misfit in misfits)
    few = workload_of(large_plan(100 * TB, 64, subtasks=10, groups=128))
    assert {misfit.need for misfit in estimate(few, FORTY).misfits} == {Need.OBJECT, Need.WORKER_MEMORY}


def test_words_about_a_cluster() -> None:
    assert cluster_of({"executors": None, "cores": None}) is None
    assert cluster_of({"executors": "40", "cores": "8", "bandwidth": "1.2GB"}) == FORTY
    said = {"RESCALE_CLUSTER": "executors=4 scratch=20Gi driver-memory=2Gi prices=0.01,0"}
    expected = Cluster(40, 2, scratch=20 << 30, driver_memory=2 << 30, prices=Prices(0.01, 0))
    assert cluster_of_environment(said, {"executors": "40", "cores": None}) == expected
    assert cluster_of_environment({}) is None


@pytest.mark.parametrize(
    "value",
    [
        "executors=0",
        "executors=many",
        "executors=" + "9" * 5000,
        "bandwidth=fast",
        "bandwidth=0",
        "bandwidth=" + "9" * 400,
        "prices=1",
        "prices=nan,nan",
        "prices=-1,0",
        "prices=1e308,0",
        "executors=٣",
        "executors=1_000",
        "bandwidth=٣GB",
        "executors=4 executors=5",
        "=4",
        "prices=1,inf",
        "colour=blue",
        "cores",
    ],
    ids=lambda value: value[:20],
)
def test_words_that_make_no_sense(value: str) -> None:
    with pytest.raises(RequestError, match="cluster"):
        cluster_of_environment({"RESCALE_CLUSTER": value})
