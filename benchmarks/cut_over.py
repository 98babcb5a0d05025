"""Downtime of a job that gets another shape: a plain restart, through a native savepoint, and while it runs.

    python benchmarks/cut_over.py [--gigabytes 1 8] [--rate 1000] [--times 3] [--flink 1.20.5 2.3.0]

A job of a real session cluster keeps its state in RocksDB, and changes a known number of keys in a second. Its shape
goes from parallelism 6 and max parallelism 128 to 4 and 1000, and back. The downtime is from the cancel (or the request
to stop) to all tasks of the new job running, as Flink's overview shows it. A plain restart is a cancel after a
checkpoint, and a start from it in the same shape. The bar is 5 seconds more than that. Every record of a result is
compared with its source afterwards. The last column has the parts of the last cut-over: the last round is among them if
the job made another checkpoint right before the cancel.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import httpx
from tabulate import tabulate

import tests_path  # noqa: F401
from rescale.airflow.flink.hand_overs import RunJar
from rescale.airflow.flink.last_checkpoint import cancel, newest_checkpoint, take_checkpoint
from rescale.airflow.live.verify_task import _verify
from rescale.flink.start import Start
from rescale.flink_rest.client import SavepointFormat, Taking
from rescale.storage.locations import normalise
from support.live_story import LiveStory
from support.session_cluster import SessionCluster, session_cluster, wait_until

RESCALE = str(Path(sys.executable).with_name("rescale"))
VALUE_SIZE, KEY_BYTES = 1000, 20
BAR_SECONDS = 5
SHAPES = ((6, 128), (4, 1000))
"""Parallelism and max parallelism; no reader is without one of the six splits, so none has finished."""

TIMEOUT_SECONDS = 3600
OPTIONS = {
    "state.backend.type": "rocksdb",
    "state.backend.incremental": "true",
    "execution.checkpointing.incremental": "true",
    "state.backend.rocksdb.memory.managed": "false",
    "execution.checkpointing.interval": "10s",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}


@dataclass
class Bulk:
    """The job, which runs as `job_id` in the shape with this number; `home` is for its results and savepoints."""

    cluster: SessionCluster
    home: Path
    arguments: tuple[str, ...]
    shape: int = 0
    job_id: str = ""

    @property
    def jar(self) -> RunJar:
        places = {"state.checkpoints.dir": (self.home / "checkpoints").as_uri()}
        return RunJar(self.cluster.address, "counts.jar", "Bulk", self.arguments, {**OPTIONS, **places})

    def start(self, snapshot: str, *, turned: bool) -> float:
        """Start the job from a snapshot; return the time at which all of it runs."""
        self.shape ^= turned
        parallelism, maximum = SHAPES[self.shape]
        self.job_id = uuid4().hex
        with self.cluster.open() as flink:
            start = Start(snapshot, parallelism, maximum)
            flink.run_jar(self.cluster.jar, self.job_id, start, "Bulk", self.arguments, self.jar.configuration)
            wait_until(lambda: (line := flink.line(self.job_id)) is not None and line.runs, "the job to run")
        return time.monotonic()

    def changed(self) -> int:
        """Return the number of keys that the job has written since its start."""
        vertices = httpx.get(f"{self.cluster.address}/jobs/{self.job_id}").json()["vertices"]
        return int(sum(vertex["metrics"]["read-records"] for vertex in vertices if "Process" in vertex["name"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0])
    parser.add_argument("--rate", type=int, default=1000, help="keys that change in a second")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--flink", nargs="+", default=["1.20.5", "2.3.0"], help="the releases of Flink")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    rows: list[Sequence[object]] = []
    for release in arguments.flink:
        for gigabytes in arguments.gigabytes:
            with (
                session_cluster(release, memory="2g") as cluster,
                tempfile.TemporaryDirectory(dir=arguments.directory, ignore_cleanup_errors=True) as home,
            ):
                keys = int(gigabytes * 1e9 / (VALUE_SIZE + KEY_BYTES))
                bulk = Bulk(cluster, Path(home), (str(keys), str(VALUE_SIZE), str(arguments.rate)))
                rows += measured(release, gigabytes, keys, bulk, arguments.times)
    headers = ("Flink", "GB", "way", "s", "most", "more", "bar", "parts")
    print(tabulate(rows, headers, floatfmt=".1f"))


def measured(release: str, gigabytes: float, keys: int, bulk: Bulk, times: int) -> Iterator[Sequence[object]]:
    bulk.start("", turned=False)
    wait_until(lambda: bulk.changed() > 1.1 * keys, "the state to be there", TIMEOUT_SECONDS)
    restarts = [restart(bulk) for _ in range(times)]
    plain = median(restarts)
    yield release, gigabytes, "restart", plain, max(restarts), None, None, ""
    cuts = [live(bulk, f"live-{number}") for number in range(times)]
    seconds = [cut["downtime_seconds"] for cut in cuts]
    parts = ", ".join(f"{name} {value:.1f}" for name, value in cuts[-1]["seconds"].items())
    yield release, gigabytes, "while it runs", median(seconds), max(seconds), max(seconds) - plain, BAR_SECONDS, parts
    through = savepoint(bulk, "savepoint")
    yield release, gigabytes, "native savepoint", through, through, through - plain, None, ""


def restart(bulk: Bulk) -> float:
    with bulk.cluster.open() as flink:
        take_checkpoint(flink, bulk.job_id)
        begun = time.monotonic()
        cancel(flink, bulk.job_id)
    return bulk.start(newest_checkpoint(str(bulk.home / "checkpoints" / bulk.job_id)), turned=False) - begun


def live(bulk: Bulk, name: str) -> dict[str, Any]:
    parallelism, maximum = SHAPES[1 - bulk.shape]
    with bulk.cluster.open() as flink:
        take_checkpoint(flink, bulk.job_id)
        wait_until(lambda: flink.latest_checkpoint(bulk.job_id) is not None, "Flink to tell of the checkpoint")
    target = str(bulk.home / name)
    story = LiveStory(bulk.cluster, bulk.job_id, bulk.jar, target, parallelism=parallelism, max_parallelism=maximum)
    summary = story.follow()
    assert _verify(summary, story.form, None)["verdict"] == "complete"
    bulk.job_id, bulk.shape = summary["job"], 1 - bulk.shape
    return summary


def savepoint(bulk: Bulk, name: str) -> float:
    trigger, target, begun = uuid4().hex, str(bulk.home / name), time.monotonic()
    with bulk.cluster.open() as flink:
        directory = str(bulk.home / "savepoints")
        flink.trigger_savepoint(bulk.job_id, trigger, directory, Taking.STOP, SavepointFormat.NATIVE)
        while (taken := flink.savepoint(bulk.job_id, trigger)) is None or taken.location is None:
            time.sleep(0.1)
    parallelism, maximum = SHAPES[1 - bulk.shape]
    shape = ["--parallelism", str(parallelism), "--max-parallelism", str(maximum)]
    command = [RESCALE, "run", normalise(taken.location), "--target", target, *shape]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return bulk.start(target, turned=True) - begun


if __name__ == "__main__":
    main()
