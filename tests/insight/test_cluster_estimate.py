"""Estimated cost of a run on a cluster, and the resources that it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.rekeying.read_units import split_into_read_units
from rescale.execution.rekeying.write_ranges import plan_write_ranges
from rescale.execution.tasks.slices import slices_of
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.insight.cluster import Cluster, cluster_of_environment
from rescale.insight.cluster_estimate import EXECUTORS_START_LIMIT, Need, estimate
from rescale.insight.stages import number_of_read_tasks, number_of_write_tasks, used_part
from rescale.insight.workload import workload_of
from rescale.planning.request.result_files import Format
from rescale.text.errors import RequestError
from support.edited import relocated
from support.large_plans import large_plan
from support.pipeline import plan_rescale

TB = 10**12
THOUSAND = Cluster(executors=1000, cores=8, bandwidth=1_200_000_000)
FORTY = Cluster(executors=40, cores=8, bandwidth=1_200_000_000)


@pytest.mark.parametrize(("size", "cluster"), [(TB, FORTY), (10 * TB, THOUSAND), (100 * TB, THOUSAND)])
def test_estimated_number_of_tasks_is_near_that_of_the_steps(size: int, cluster: Cluster) -> None:
    plan = large_plan(size, 32000)
    cluster = used_part(cluster, plan.bytes_moved)
    rekeyings = {i: operator.rekeying for i, operator in enumerate(plan.operators) if operator.rekeying is not None}
    read = slices_of([(unit.size, unit) for unit in split_into_read_units(rekeyings)], cluster.slots)
    ranges = plan_write_ranges(plan, rekeyings, CanonicalWriter(plan).range_size, cluster.slots)
    (rekeyed,) = workload_of(plan).rekeyed
    assert number_of_read_tasks(rekeyed, cluster) == pytest.approx(len(read), rel=0.6)
    assert number_of_write_tasks(rekeyed, cluster) == pytest.approx(len({each.partition for each in ranges}), rel=0.6)


@pytest.mark.parametrize("name", ["2-changelog-over-heap", "2-rocksdb-incremental", "2-heap-native"])
def test_workload_counts_the_records_of_every_kind_of_source(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shape: Any = {"max_parallelism": ["64"], "format": Format.CANONICAL, "allow_prefixes": [str(source)]}
    plan = plan_rescale(str(relocated(name, source)), str(tmp_path / "target"), ["3"], **shape)
    rekeyed_bytes = sum(operator.rekeyed_bytes for operator in plan.operators)
    assert sum(rekeyed.bytes for rekeyed in workload_of(plan).rekeyed) == rekeyed_bytes > 0
    assert workload_of(plan).bytes == plan.bytes_moved


def test_estimate_names_the_scarcest_resource_as_its_limit() -> None:
    workload = workload_of(large_plan(10 * TB, 32000))
    assert estimate(workload, FORTY).limit == "cores"
    assert (
        estimate(workload_of(large_plan(TB // 1000, 64, subtasks=10, groups=128)), FORTY).limit == EXECUTORS_START_LIMIT
    ), "no core makes it quicker"
    assert estimate(workload, replace(FORTY, cores=64)).limit == "the executors' disks"
    assert estimate(workload, replace(FORTY, bandwidth=100_000_000)).limit == "the executors' network"
    assert estimate(workload_of(large_plan(100 * TB, 32000)), THOUSAND).limit == "S3's rate of requests per prefix"
    few = workload_of(large_plan(10 * TB, 64, subtasks=10, groups=128))
    assert estimate(few, THOUSAND).limit == "the largest key group, which one core works through"


def test_dollars_are_requests_times_their_prices() -> None:
    workload = workload_of(large_plan(TB, None))
    estimated = estimate(workload, FORTY)
    assert estimated.requests.writes >= TB / workload.part_size
    assert estimated.requests.reads >= TB / workload.part_size + 2 * TB / (4 << 20)
    writes, reads = estimated.requests.writes, estimated.requests.reads
    assert estimated.dollars == pytest.approx((writes * 0.005 + reads * 0.0004) / 1000)


def test_copy_shuffles_nothing_and_rehash_shuffles_everything() -> None:
    copied, rehashed = (estimate(workload_of(large_plan(TB, maximum)), FORTY) for maximum in (None, 32000))
    assert copied.shuffle == copied.scratch == 0
    assert rehashed.shuffle == pytest.approx(TB / 40 * 39 / 40, rel=0.01)
    assert TB / 40 < rehashed.scratch < TB / 40 * 1.1


def test_estimate_names_resources_that_are_too_small() -> None:
    workload = workload_of(large_plan(10 * TB, 32000))
    assert estimate(workload, FORTY).misfits == ()
    tight = replace(FORTY, scratch=200 << 30, driver_memory=1 << 30)
    misfits = estimate(workload, tight).misfits
    assert [misfit.need for misfit in misfits] == [Need.SCRATCH, Need.DRIVER_MEMORY]
    assert all(misfit.needed > misfit.available for misfit in misfits)
    few = workload_of(large_plan(100 * TB, 64, subtasks=10, groups=128))
    assert {misfit.need for misfit in estimate(few, FORTY).misfits} == {
        Need.OBJECT,
        Need.WORKER_MEMORY,
    }


def test_cluster_is_read_from_options_and_environment() -> None:
    assert cluster_of_environment({}, {"executors": None, "cores": None}) is None
    assert cluster_of_environment({}, {"executors": "40", "cores": "8", "bandwidth": "1.2GB"}) == FORTY
    environment = {"RESCALE_CLUSTER": "executors=4 scratch=20Gi driver-memory=2Gi"}
    expected = Cluster(40, 2, scratch=20 << 30, driver_memory=2 << 30)
    assert cluster_of_environment(environment, {"executors": "40", "cores": None}) == expected
    assert cluster_of_environment({}) is None


@pytest.mark.parametrize(
    "value",
    [
        "executors=0",
        "executors=many",
        "executors=" + "9" * 5000,
        "bandwidth=fast",
        "bandwidth=0",
        "bandwidth=0.9",
        "bandwidth=" + "9" * 400,
        "executors=٣",
        "executors=1_000",
        "bandwidth=٣GB",
        "executors=4 executors=5",
        "=4",
        "colour=blue",
        "cores",
    ],
    ids=lambda value: value[:20],
)
def test_invalid_description_of_a_cluster_is_refused(value: str) -> None:
    with pytest.raises(RequestError, match="cluster"):
        cluster_of_environment({"RESCALE_CLUSTER": value})
