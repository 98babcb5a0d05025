"""How the job `Alarms` keeps its state and its timers."""

from __future__ import annotations

from collections.abc import Mapping

from support.session_cluster import SessionCluster

KEYS = 100

ROCKSDB = {
    "state.backend.type": "rocksdb",
    "state.backend.incremental": "true",
    "state.backend.rocksdb.memory.managed": "false",
}
HEAP_TIMERS = {**ROCKSDB, "state.backend.rocksdb.timer-service.factory": "HEAP"}
CHECKPOINTS = {"execution.checkpointing.interval": "1s"}


def native_options(cluster: SessionCluster, backend: Mapping[str, str]) -> dict[str, str]:
    """Options of Flink for a job with checkpoints below the cluster's folder."""
    return {**backend, **CHECKPOINTS, "state.checkpoints.dir": (cluster.folder / "checkpoints").as_uri()}


def has_checkpoint(cluster: SessionCluster, job_id: str) -> bool:
    """Whether Flink tells of one."""
    with cluster.open() as flink:
        return flink.latest_checkpoint(job_id) is not None
