"""A JobManager or a TaskManager is lost at any moment of a cut-over: one job runs afterwards, the new or the old.

With high availability, a new JobManager restarts the job from its last checkpoint.

There is one exception. A new JobManager does not know which checkpoints of ended jobs were completed. Without high
availability, it does not know this of any job. If the JobManager is lost around the cancel, and the job's directory has
a newer checkpoint than Flink has reported, it is unknown which of these two was completed last. Then no job is started,
and the error names both checkpoints.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from oracle.distribution import LINES, flink_home, logging_configuration
from oracle.harness import jvm_options
from rescale.airflow.job.job_operators import GoBack
from rescale.airflow.live import cut_over
from rescale.airflow.steps.retries import TaskEnded
from rescale.demo.processes import free_ports
from rescale.text.errors import RescaleError, StoreError
from support.deferring import run_operator
from support.live_story import begin
from support.session_cluster import SessionCluster, session_cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SOON = {"heartbeat.interval": "1000", "heartbeat.timeout": "10000"}
"""Timeouts after which a TaskManager gives up a killed JobManager, and registers with the new one."""

MOMENTS = {
    "before the cancel": "cancel",
    "after the cancel": "final_checkpoint",
    "before the publication": "publish",
    "before the start": "hand_job_over",
    "after the start": "_wait_for_answer",
}

FORGOTTEN = {False: {"before the cancel", "after the cancel"}, True: {"after the cancel"}}
"""Moments of a loss after which a JobManager might not know the last checkpoint, by whether it is highly available."""

_START_SECONDS = 120
_MAIN = "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer"


@contextmanager
def high_availability(version: str) -> Iterator[dict[str, str]]:
    """Run ZooKeeper from Flink's distribution; yield Flink's options for jobs that outlive a JobManager."""
    with TemporaryDirectory(prefix="zookeeper-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        (port,) = islice(free_ports(), 1)
        configuration = {
            "dataDir": str(folder / "data"),
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "maxClientCnxns": "100",
            "admin.enableServer": "false",
        }
        file = folder / "zoo.cfg"
        file.write_text("".join(f"{name}={value}\n" for name, value in configuration.items()))
        command = ["java", "-Xmx64m", *jvm_options(), f"-Dlog4j.configurationFile={logging_configuration()}"]
        command += ["-cp", os.pathsep.join(map(str, flink_home(version))), _MAIN]
        command += ["--zkConfigFile", str(file), "--peerId", "1"]
        log = folder / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _await(process, port, log)
            yield {
                "high-availability.type": "zookeeper",
                "high-availability.zookeeper.quorum": f"127.0.0.1:{port}",
                "high-availability.storageDir": (folder / "jobs").as_uri(),
                "high-availability.zookeeper.client.session-timeout": "5000",
            }
        finally:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
            continue
        return
    raise RuntimeError(f"ZooKeeper did not start:\n{log.read_text()[-4000:]}")


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "high availability"])
def is_available(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=LINES)
def machines(request: pytest.FixtureRequest, is_available: bool) -> Iterator[SessionCluster]:
    version = LINES[request.param]
    with ExitStack() as stack:
        options = stack.enter_context(high_availability(version)) if is_available else {}
        yield stack.enter_context(session_cluster(version, **SOON, **options))


@pytest.fixture
def cluster(machines: SessionCluster) -> Iterator[SessionCluster]:
    """Return the cluster, without a job before and after the test."""
    yield machines
    machines.clear()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("machine", ["job_manager", "task_manager"])
def test_cut_over_survives_the_loss_of_a_machine(
    cluster: SessionCluster, is_available: bool, tmp_path: Path, machine: str, moment: str
) -> None:
    story = begin(cluster, tmp_path / f"{machine} {moment}".replace(" ", "-"), give_up_after=120)
    lose: Callable[[], None] = getattr(cluster, f"lose_{machine}")
    lost: list[str] = []
    real = getattr(cut_over, MOMENTS[moment])

    def losing(*arguments: Any, **more: Any) -> Any:
        if not lost:
            lost.append(moment)
            lose()
        return real(*arguments, **more)

    new: dict[str, Any] | None = None
    with patch.object(cut_over, MOMENTS[moment], losing):
        for _ in range(3):  # as Airflow tries again
            try:
                new = story.follow()
            except StoreError:
                continue
            except RescaleError:
                pass
            break
    assert lost
    if new is None:
        operator = GoBack(task_id="back", old_job_document=msgspec.to_builtins(story.before), take_output=None)
        try:
            run_operator(operator, story.run_id, story.state)
        except TaskEnded as ended:
            if ended.error.what.startswith("it is uncertain which checkpoint the job completed last"):
                assert machine == "job_manager"
                assert moment in FORGOTTEN[is_available]
                wait_until(lambda: not cluster.alive(), "no job")
                return
    wait_until(lambda: len(cluster.alive()) == 1, "a job")
    (job,) = cluster.alive()
    wait_until(lambda: cluster.is_counting(job), "the job to go on counting")
    assert story.shapes(job) == ({(3, 256)} if new is not None else {(2, 128)})
    assert cluster.alive() == {job}
