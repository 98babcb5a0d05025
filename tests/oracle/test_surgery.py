"""A job that has changed since the snapshot was taken: real Flink restores the state of renamed operators."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from oracle.harness import Flink, Job
from rescale.flink.job_graph import read_job_graph
from rescale.planning.matching import counterparts_of_graph, counterparts_of_snapshot, match
from rescale.runstate.certificate import read_certificate
from rescale.snapshot.reading.opening import open_snapshot
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow

NEW_UID_BY_OLD = {"states": "states-of-users", "rules": "rules-by-name"}

JOB = Job("everything", parallelism=3, parameters={"seed": 19}, max_parallelism=128)


def test_flink_restores_renamed_operators_without_the_dropped_one(flink: Flink, tmp_path: Path) -> None:
    """The job lacks one operator. Flink would refuse a snapshot with the state of that operator."""
    job_before = JOB.with_(parameters={**JOB.parameters, "raw_keyed": 1})
    source, target = str(flink.snapshot(job_before, tmp_path / "source")), str(tmp_path / "target")
    renames = [f"{old}={new}" for old, new in NEW_UID_BY_OLD.items()]
    execute_without_spark(plan_rescale(source, target, ["2"], renames=renames, drops=["raw"]))
    verdict = flink.restore(target, JOB, JOB.with_(parallelism=2, uids=NEW_UID_BY_OLD), per_subtask=True)
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0


@pytest.mark.parametrize(
    ("flink_fixture", "backend", "kind"),
    [slow("flink_1_20", "rocksdb", "native"), slow("flink_2", "hashmap", "canonical")],
)
def test_dropped_state_is_missing_and_all_other_state_is_restored(
    flink_fixture: str, backend: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The job misses every key and element of the dropped state, and nothing else."""
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = JOB.with_(backend=backend)
    source, target = str(flink.snapshot(job, tmp_path / "source", kind)), str(tmp_path / "target")
    dropped_states = ["states:history", "lists:offsets"]
    execute_without_spark(plan_rescale(source, target, ["2"], state_drops=dropped_states))
    verdict = flink.restore(target, job, job.with_(parallelism=2), shown_count=100_000)
    expected = flink.expected(job)
    missing_count_by_state = Counter(
        difference.partition(" ")[0].rstrip(":")
        for difference in verdict.differences
        if not difference.startswith("results")
    )
    assert missing_count_by_state["states/history"] == len(expected["keyed"]["states/history"]) > 0
    assert missing_count_by_state.keys() == {"states/history", "lists/offsets"}
    left_out = [
        operator.records.left_out for operator in read_certificate(target).operators if operator.records is not None
    ]
    assert {"history": missing_count_by_state["states/history"]} in left_out
    assert all("lost" in difference for difference in verdict.differences if not difference.startswith("results"))


def test_job_that_lost_its_uids_is_matched_and_restored(flink: Flink, tmp_path: Path) -> None:
    """Operators are matched by names and states in a snapshot of the new job. A plan of the job gives fewer matches."""
    job = Job("windows", parallelism=2, parameters={"seed": 5}, max_parallelism=128)
    changed_job = job.with_(uids=dict.fromkeys(("tumbling", "session", "count", "evicting"), ""))
    source = open_snapshot(str(flink.snapshot(job, tmp_path / "source")))
    graph_file, fresh_snapshot = flink.snapshots(changed_job, tmp_path / "fresh", "details", "canonical")
    old_operators = counterparts_of_snapshot(source.operators)
    matched = match("old", "new", old_operators, counterparts_of_snapshot(open_snapshot(str(fresh_snapshot)).operators))
    assert (matched.certain, len(matched.proposed), matched.in_the_way) == (True, 4, ())
    details = graph_file.read_bytes()
    for document in (details, json.dumps(json.loads(details)["plan"]).encode()):
        vertices = read_job_graph(document, str(graph_file))
        assert {pair.new_operator_id for pair in matched.proposed} <= {vertex.operator_id for vertex in vertices}
        match_by_names = match("old", "new", old_operators, counterparts_of_graph(vertices, {}), is_of_plan=True)
        if source.operators[0].entry.name:
            assert {pair.label for pair in match_by_names.proposed} == {"tumbling", "session"}
            assert set(match_by_names.options) < set(matched.options)
            assert {pair.label for pair in match_by_names.unsure} == {"count", "evicting"}
    renames = [option.removeprefix("--rename ") for option in matched.options]
    target = str(tmp_path / "target")
    execute_without_spark(plan_rescale(source.directory, target, renames=renames))
    verdict = flink.restore(target, job, changed_job)
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0
