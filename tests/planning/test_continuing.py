"""The plan of a continuation: what it reads, what it keeps, and the bytes that a page shows for each new subtask."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.plan.plan import Plan
from support.checkpoints import checkpoints_in
from support.pipeline import execute_without_spark, plan_continued, plan_rescale


@pytest.fixture
def unchanged_plan(tmp_path: Path) -> Plan:
    """Return a plan that continues the result of a checkpoint, for a later one with the same files."""
    job = checkpoints_in("2-rocksdb-incremental", str(tmp_path / "job"), tmp_path / "scratch")
    base = tmp_path / "base"
    execute_without_spark(plan_rescale(job.newest, str(base), ["3"], max_parallelism=["1000"]))
    job.copy_newest(4)
    return plan_continued(job.newest, str(tmp_path / "target"), str(base), ["3"], ["1000"])


def test_continuation_reads_no_file_that_the_base_has(unchanged_plan: Plan) -> None:
    (rekeying,) = (operator.rekeying for operator in unchanged_plan.operators if operator.rekeying is not None)
    assert (rekeying.bytes, rekeying.sources) == (0, ())
    assert len(rekeying.bases) == 3


def test_files_of_the_base_count_as_state_of_their_key_groups(unchanged_plan: Plan) -> None:
    (operator,) = (operator for operator in unchanged_plan.operators if operator.rekeying is not None)
    assert operator.rekeying is not None
    assert sum(operator.expected_key_group_bytes) == 0, "nothing is moved"
    base_sizes = [base.database.size for base in operator.rekeying.bases]
    stream_sizes = [
        sum(operator.new_key_group_bytes[stream.first_key_group :][: stream.key_groups])
        for stream in operator.rekeying.streams
    ]
    for size, expected in zip(stream_sizes, base_sizes, strict=True):
        assert expected - 1000 < size <= expected
    assert len(operator.new_key_group_bytes) == 1000
