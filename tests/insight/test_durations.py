"""Estimated durations: their parts, and that they are near measured ones."""

from __future__ import annotations

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.insight.durations import PROCESS_START_SECONDS, WORKERS_START_SECONDS, durations, restore_seconds
from rescale.insight.flink_restore import flink_restore
from rescale.plan.plan import Plan
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from support.synthetic import database, header_of, keyed_stream, operator, snapshot

GB = 1_000_000_000
PROCESSES_SECONDS, WORKERS_SECONDS = 3 * PROCESS_START_SECONDS, WORKERS_START_SECONDS
"""Seconds for processes and their workers in a run without operator state."""
HEADER = header_of("sum")


def one_gigabyte_plan(target: str = "/target", *max_parallelism: str) -> Plan:
    streams = []
    for subtask, first in enumerate(range(0, 128, 32)):
        groups = dict.fromkeys(range(first, first + 32), GB // 128)
        streams.append(keyed_stream(subtask, groups, Framing.CANONICAL, HEADER, first=first, last=first + 31))
    request = make_request("/source", target, ["6"], max_parallelism=list(max_parallelism))
    return make_plan(snapshot(operator("big", 4, keyed=tuple(streams))), request)


@pytest.mark.parametrize(
    ("max_parallelism", "moving_seconds", "comparing_seconds"), [((), 0.5, 0.15), (("64",), 2.6, 0.6)]
)
def test_estimate_for_a_gigabyte_is_within_twice_the_measured_time(
    max_parallelism: tuple[str, ...], moving_seconds: float, comparing_seconds: float
) -> None:
    """Seconds on two cores, by `benchmarks/relocate.py` and `benchmarks/rehash.py`."""
    start_seconds = PROCESSES_SECONDS + (WORKERS_SECONDS if max_parallelism else 0)
    seconds = durations(one_gigabyte_plan("/target", *max_parallelism), None).run - start_seconds
    assert (moving_seconds + comparing_seconds) / 2 < seconds < (moving_seconds + comparing_seconds) * 2


def test_small_plan_is_estimated_without_the_start_of_workers() -> None:
    groups = dict.fromkeys(range(128), 1000)
    stream = keyed_stream(0, groups, Framing.CANONICAL, HEADER, first=0, last=127)
    plan = make_plan(snapshot(operator("small", 1, keyed=(stream,))), make_request("/source", "/target", ["2"]))
    assert durations(plan, None).run == pytest.approx(3 * PROCESS_START_SECONDS, abs=0.1)


@pytest.mark.parametrize(("parallelism", "measured_seconds"), [(6, 1.63), (2, 3.74), (4, 0.74)])
def test_estimated_restore_by_flink_is_within_twice_the_measured_time(
    parallelism: int, measured_seconds: float
) -> None:
    """Measured seconds for 1 GB in four RocksDB directories, with Flink 1.20."""
    databases = tuple(database(i, 4, 128, GB // 4) for i in range(4))
    seconds = restore_seconds([flink_restore(operator("big", 4, databases=databases), parallelism)], is_on_s3=False)
    assert measured_seconds / 2 < seconds < measured_seconds * 2


def test_many_small_records_take_longer_than_few_large_ones() -> None:
    """The same bytes in records of 1 KB and of 40 bytes (`benchmarks/real_job.py`)."""
    plan = one_gigabyte_plan("/target", "1000")
    (operator_id,) = (operator.operator_id for operator in plan.operators)
    seconds_of_large, seconds_of_small = (durations(plan, None, {operator_id: GB // size}).run for size in (1000, 40))
    assert seconds_of_small - PROCESSES_SECONDS - WORKERS_SECONDS > 2 * (
        seconds_of_large - PROCESSES_SECONDS - WORKERS_SECONDS
    )


def test_s3_is_estimated_slower_and_a_restore_flink_refuses_has_no_time() -> None:
    local_durations, s3_durations = (
        durations(one_gigabyte_plan(), ()),
        durations(one_gigabyte_plan("s3://bucket/target"), None),
    )
    assert s3_durations.run > local_durations.run + 5
    assert s3_durations.restore > local_durations.restore
    assert s3_durations.flink is None
    assert local_durations.flink == 0


def test_steps_add_up_and_formats_differ_in_bytes_put_by_record() -> None:
    estimated_durations = durations(one_gigabyte_plan("/target", "64"), None)
    assert sum(step.seconds for step in estimated_durations.steps) == estimated_durations.run
    assert [step.step for step in estimated_durations.steps] == ["reshuffle", "redistribute", "validate"]
    records_format, files_format = estimated_durations.formats
    assert records_format.chosen
    assert not files_format.chosen
    assert records_format.read == records_format.by_record == files_format.read
    assert files_format.by_record == 0
    assert records_format.seconds == estimated_durations.restore > 5 * files_format.seconds
