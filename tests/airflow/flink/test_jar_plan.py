"""Flink is asked which operators the jar's job has at its new parallelism, before the running job is stopped."""

from __future__ import annotations

import pytest

from rescale.airflow.flink.hand_overs import RunJar
from rescale.airflow.job.jar_plan import refuse_unknown_vertices
from rescale.flink.start import Start
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.warnings.chains import generated_id_warnings
from rescale.snapshot.model import Snapshot
from rescale.snapshot.opening import open_snapshot
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError
from support.session_cluster import ONE_CHECKPOINT, SessionCluster, native_options, take_checkpoint, wait_until


def _checkpoint(cluster: SessionCluster, job_id: str) -> Snapshot:
    take_checkpoint(cluster, job_id)
    with cluster.open() as flink:
        place = flink.latest_checkpoint(job_id)
    assert place is not None
    return open_snapshot(normalise(place))


def _options(cluster: SessionCluster) -> dict[str, str]:
    kept = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    return {**native_options(cluster, {}), **ONE_CHECKPOINT, **kept}


def _fails_to_start(cluster: SessionCluster, snapshot: Snapshot, parallelism: int) -> bool:
    """Whether Flink refuses the snapshot for the job at another parallelism, as it would refuse the result."""
    job_id = "ab" * 15 + f"{parallelism:02}"
    try:
        with cluster.open() as flink:
            start = Start(snapshot.directory, parallelism, None)
            flink.run_jar(cluster.jar, job_id, start, "Chained", (), {})
    except RequestError as error:
        return "Cannot map checkpoint/savepoint state" in str(error.found)
    wait_until(lambda: cluster.job(job_id).ended or cluster.job(job_id).runs, "the job to run or to fail")
    with cluster.open() as flink:
        return "Cannot map checkpoint/savepoint state" in (flink.why_failed(job_id) or "")


def test_a_vertex_that_the_job_does_not_have_yet_is_refused(cluster: SessionCluster) -> None:
    snapshot = _checkpoint(cluster, cluster.run(1, main="Chained", options=_options(cluster)))
    jar = RunJar(cluster.address, cluster.jar, "Chained")
    refuse_unknown_vertices(jar, snapshot, 1)
    with pytest.raises(RequestError, match="with parallelism 2, the jar's job has operators") as caught:
        refuse_unknown_vertices(jar, snapshot, 2)
    assert "Sink" in str(caught.value.found)
    assert _fails_to_start(cluster, snapshot, 2)


def test_operators_inside_of_a_chain_are_warned_of(cluster: SessionCluster) -> None:
    """A plan names the first operator of each chain only."""
    snapshot = _checkpoint(cluster, cluster.run(2, main="Chained", options=_options(cluster)))
    refuse_unknown_vertices(RunJar(cluster.address, cluster.jar, "Chained"), snapshot, 1)
    shapes = {operator.operator_id: Shape(1, operator.max_parallelism) for operator in snapshot.operators}
    assert len(list(generated_id_warnings(snapshot, shapes))) == 1
    assert _fails_to_start(cluster, snapshot, 1)


def test_a_job_with_uids_may_change_its_parallelism(cluster: SessionCluster) -> None:
    snapshot = _checkpoint(cluster, cluster.run(1, options=_options(cluster)))
    for parallelism in (1, 2, 5):
        refuse_unknown_vertices(RunJar(cluster.address, cluster.jar, "Counts"), snapshot, parallelism)


def test_a_plan_that_flink_does_not_make_stops_nothing(
    cluster: SessionCluster, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = _checkpoint(cluster, cluster.run(1, options=_options(cluster)))
    refuse_unknown_vertices(RunJar(cluster.address, cluster.jar, "Nobody"), snapshot, 2)
    assert "Flink does not plan the jar's job" in caplog.text
