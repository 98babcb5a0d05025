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
THOUSAND_EXECUTORS = Cluster(executors=1000, cores=8, bandwidth=1_200_000_000)
FORTY_EXECUTORS = Cluster(executors=40, cores=8, bandwidth=1_200_000_000)


@pytest.mark.parametrize(
    ("size", "cluster"), [(TB, FORTY_EXECUTORS), (10 * TB, THOUSAND_EXECUTORS), (100 * TB, THOUSAND_EXECUTORS)]
)
def test_estimated_number_of_tasks_is_near_that_of_the_steps(size: int, cluster: Cluster) -> None:
    plan = large_plan(size, 32000)
    cluster = used_part(cluster, plan.bytes_moved)
    rekeyings = {i: operator.rekeying for i, operator in enumerate(plan.operators) if operator.rekeying is not None}
    read_slices = slices_of([(unit.size, unit) for unit in split_into_read_units(rekeyings)], cluster.slots)
    write_ranges = plan_write_ranges(plan, rekeyings, CanonicalWriter(plan).range_size, cluster.slots)
    (rekeyed,) = workload_of(plan).rekeyed
    assert number_of_read_tasks(rekeyed, cluster) == pytest.approx(len(read_slices), rel=0.6)
    assert number_of_write_tasks(rekeyed, cluster) == pytest.approx(
        len({each.partition for each in write_ranges}), rel=0.6
    )


@pytest.mark.parametrize("name", ["2-changelog-over-heap", "2-rocksdb-incremental", "2-heap-native"])
def test_workload_counts_the_rekeyed_bytes_of_each_kind_of_source(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    options: Any = {"max_parallelism": ["64"], "format": Format.CANONICAL, "allow_prefixes": [str(source)]}
    plan = plan_rescale(str(relocated(name, source)), str(tmp_path / "target"), ["3"], **options)
    rekeyed_bytes = sum(operator.rekeyed_bytes for operator in plan.operators)
    assert sum(rekeyed.bytes for rekeyed in workload_of(plan).rekeyed) == rekeyed_bytes > 0
    assert workload_of(plan).bytes == plan.bytes_moved


def test_estimate_names_the_scarcest_resource_as_its_limit() -> None:
    workload = workload_of(large_plan(10 * TB, 32000))
    assert estimate(workload, FORTY_EXECUTORS).limit == "cores"
    assert (
        estimate(workload_of(large_plan(TB // 1000, 64, subtasks=10, groups=128)), FORTY_EXECUTORS).limit
        == EXECUTORS_START_LIMIT
    ), "no core makes it quicker"
    assert estimate(workload, replace(FORTY_EXECUTORS, cores=64)).limit == "the executors' disks"
    assert estimate(workload, replace(FORTY_EXECUTORS, bandwidth=100_000_000)).limit == "the executors' network"
    assert (
        estimate(workload_of(large_plan(100 * TB, 32000)), THOUSAND_EXECUTORS).limit
        == "S3's rate of requests per prefix"
    )
    workload_of_few_groups = workload_of(large_plan(10 * TB, 64, subtasks=10, groups=128))
    assert (
        estimate(workload_of_few_groups, THOUSAND_EXECUTORS).limit
        == "the largest key group, which one core works through"
    )


def test_dollars_are_requests_times_their_prices() -> None:
    workload = workload_of(large_plan(TB, None))
    cluster_estimate = estimate(workload, FORTY_EXECUTORS)
    assert cluster_estimate.requests.writes >= TB / workload.part_size
    assert cluster_estimate.requests.reads >= TB / workload.part_size + 2 * TB / (4 << 20)
    writes, reads = cluster_estimate.requests.writes, cluster_estimate.requests.reads
    assert cluster_estimate.dollars == pytest.approx((writes * 0.005 + reads * 0.0004) / 1000)


def test_copy_shuffles_nothing_and_rehash_shuffles_everything() -> None:
    copy_estimate, rehash_estimate = (
        estimate(workload_of(large_plan(TB, max_parallelism)), FORTY_EXECUTORS) for max_parallelism in (None, 32000)
    )
    assert copy_estimate.shuffle == copy_estimate.scratch == 0
    assert rehash_estimate.shuffle == pytest.approx(TB / 40 * 39 / 40, rel=0.01)
    assert TB / 40 < rehash_estimate.scratch < TB / 40 * 1.1


def test_estimate_names_resources_that_are_too_small() -> None:
    workload = workload_of(large_plan(10 * TB, 32000))
    assert estimate(workload, FORTY_EXECUTORS).misfits == ()
    tight_cluster = replace(FORTY_EXECUTORS, scratch=200 << 30, driver_memory=1 << 30)
    misfits = estimate(workload, tight_cluster).misfits
    assert [misfit.need for misfit in misfits] == [Need.SCRATCH, Need.DRIVER_MEMORY]
    assert all(misfit.needed > misfit.available for misfit in misfits)
    workload_of_few_groups = workload_of(large_plan(100 * TB, 64, subtasks=10, groups=128))
    assert {misfit.need for misfit in estimate(workload_of_few_groups, FORTY_EXECUTORS).misfits} == {
        Need.OBJECT,
        Need.WORKER_MEMORY,
    }


def test_cluster_is_read_from_options_and_environment() -> None:
    assert cluster_of_environment({}, {"executors": None, "cores": None}) is None
    assert cluster_of_environment({}, {"executors": "40", "cores": "8", "bandwidth": "1.2GB"}) == FORTY_EXECUTORS
    environment = {"RESCALE_CLUSTER": "executors=4 scratch=20Gi driver-memory=2Gi"}
    expected = Cluster(40, 2, scratch=20 << 30, driver_memory=2 << 30)
    assert cluster_of_environment(environment, {"executors": "40", "cores": None}) == expected
    assert cluster_of_environment({}) is None


@pytest.mark.parametrize(
    "description",
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
    ids=lambda description: description[:20],
)
def test_invalid_description_of_a_cluster_is_refused(description: str) -> None:
    with pytest.raises(RequestError, match="cluster"):
        cluster_of_environment({"RESCALE_CLUSTER": description})
