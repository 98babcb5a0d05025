"""Operators whose subtasks have finished run again in another shape, and Flink reads every split once."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.cases import graph
from oracle.harness import Flink, FlinkError, Job
from rescale.flink.operator_id import operator_id_of_uid
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import UnsupportedError
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow

IDLE_JOB = graph("splits", 3, idle=1)
"""Job in which a reader without splits has finished, and so has the operator behind that reader."""

FINISHED_UIDS = ["numbers", "results-of-numbers"]


@pytest.mark.parametrize(
    ("job", "restarts", "new_parallelism"),
    [
        pytest.param(IDLE_JOB, FINISHED_UIDS, 5, id="idle reader to 5"),
        slow(IDLE_JOB, FINISHED_UIDS, 2, id="idle reader to 2"),
        slow(IDLE_JOB, FINISHED_UIDS, 3, id="idle reader, same shape"),
        slow(graph("finished", 3, partially=1), ["short"], 2, id="a subtask of a source to 2"),
        slow(graph("finished", 3), ["short"], 5, id="a whole source to 5"),
    ],
)
def test_restarted_operators_run_in_flink_and_read_every_split_once(
    flink: Flink, tmp_path: Path, job: Job, restarts: list[str], new_parallelism: int
) -> None:
    source, target = str(flink.snapshot(job, tmp_path / "source")), str(tmp_path / "target")
    operator_by_id = {operator.operator_id: operator for operator in open_snapshot(source).operators}
    finished_operators = [operator_by_id[operator_id_of_uid(uid)] for uid in restarts]
    is_partial = all(operator.is_partially_finished for operator in finished_operators)
    assert is_partial or all(operator.entry.fully_finished for operator in finished_operators)
    if is_partial and new_parallelism != job.parallelism:
        with pytest.raises(UnsupportedError, match="some subtasks of this operator have finished"):
            plan_rescale(source, target, [str(new_parallelism)])
    execute_without_spark(plan_rescale(source, target, [str(new_parallelism)], restarts=restarts))
    assert not any(o.is_partially_finished or o.entry.fully_finished for o in open_snapshot(target).operators)
    verdict = flink.restore(target, job, job.with_(parallelism=new_parallelism))
    assert verdict.ok, verdict


@pytest.mark.slow
def test_flink_refuses_a_finished_operator_after_a_restarted_one(flink: Flink, tmp_path: Path) -> None:
    source, target = str(flink.snapshot(IDLE_JOB, tmp_path / "source")), str(tmp_path / "target")
    plan = plan_rescale(source, target, ["3"], restarts=["numbers"])
    assert "restart that one, too" in " ".join(plan.warnings)
    execute_without_spark(plan)
    with pytest.raises(FlinkError, match="finished"):
        flink.restore(target, IDLE_JOB, IDLE_JOB)
