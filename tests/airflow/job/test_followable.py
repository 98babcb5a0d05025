"""Jobs whose every round would move all state are refused before anything is moved."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from rescale.airflow.job.followable import refuse_unfollowable_job
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.flink_rest.client import StateBackend
from rescale.flink_rest.running_job import Job, Vertex
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Files
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError
from support.snapshots import directory

ROCKSDB = StateBackend("EmbeddedRocksDBStateBackend", False)
JOB = Job("1" * 32, "clicks", "RUNNING", (Vertex("2" * 32, "counts", 2, 128, {}),))
UNREADABLE = UnreadableCheckpoint("nobody can read it")


def refuse(backend: StateBackend | None, latest: Snapshot | UnreadableCheckpoint = UNREADABLE, **request: Any) -> None:
    flink = Mock(address="http://flink", state_backend=Mock(return_value=backend))
    made_request = make_request("/source", "/target", ["3"], **{"max_parallelism": ["256"], **request})
    refuse_unfollowable_job(flink, JOB, made_request, latest)


def test_incremental_checkpoints_of_rocksdb_are_accepted() -> None:
    refuse(ROCKSDB, open_snapshot(directory("2-rocksdb-incremental")))
    refuse(ROCKSDB)


@pytest.mark.parametrize(
    ("backend", "found_value"),
    [
        (None, "no checkpoints"),
        (StateBackend("HashMapStateBackend", False), "HashMapStateBackend"),
        (StateBackend("EmbeddedRocksDBStateBackend", True), "a changelog"),
    ],
)
def test_other_backends_are_refused(backend: StateBackend | None, found_value: str) -> None:
    with pytest.raises(RequestError) as caught:
        refuse(backend)
    assert caught.value.found == found_value


def test_full_checkpoints_are_refused() -> None:
    whole = open_snapshot(directory("2-clicks"))
    with pytest.raises(RequestError) as caught:
        refuse(ROCKSDB, whole)
    assert whole.directory in str(caught.value.found)


def test_files_are_referred_to_only_if_no_max_parallelism_changes() -> None:
    with pytest.raises(RequestError, match="cannot stay in the files of the source"):
        refuse(ROCKSDB, files=Files.REFER)
    refuse(ROCKSDB, max_parallelism=[], files=Files.REFER)
    refuse(ROCKSDB, max_parallelism=[], files=Files.COPY)
