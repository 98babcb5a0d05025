"""Downtime of a job that gets another shape: by live rescaling, by a native savepoint, and by a plain restart.

    python benchmarks/cut_over.py [--gigabytes 1 8] [--rate 1000] [--times 3] [--flink 1.20.5 2.3.0] [--s3]
    python benchmarks/cut_over.py --same-maximum --gigabytes 0.25 1 4

A job of a real session cluster keeps its state in RocksDB, and changes a known number of keys per second. Its shape
goes from parallelism 6 and max parallelism 128 to 4 and 1000, and back. With `--same-maximum` it goes from parallelism
2 to 3, and Flink itself takes the job back. Three ways are measured then: the result refers to the files of the last
checkpoint; it has copies that were made ahead; or `rescale run --prepare` copies files, and `rescale run` copies the
newer ones after the cancel. The downtime begins with the cancel (or the request to stop) and ends when all tasks of the
new job run, as Flink's overview shows it. A plain restart is a cancel after a checkpoint, and a start from this
checkpoint in the same shape. Every record of a result is compared with its source afterwards.

The table shows the parts of the downtime of the last cut-over; the last round is a part if the job made another
checkpoint right before the cancel. The last columns have the keys that the job changed per second before and while the
follower ran, and the number of last rounds whose time the newest round had predicted within 30 per cent.

With `--s3`, checkpoints, savepoints and results lie in an S3 server on this machine. Each release and size has a
cluster of its own. If a cut-over fails, the program prints the rows so far, and ends with the error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import uuid4

import httpx
from tabulate import tabulate

import tests_path  # noqa: F401
from rescale.airflow.flink.last_checkpoint import cancel, newest_checkpoint, take_checkpoint
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.live.verify_task import _verify
from rescale.airflow.steps.earlier_tasks import ROUNDS_KEY
from rescale.flink.start import Start
from rescale.flink_rest.client import PackagedProgram, SavepointFormat, StopMode
from rescale.following.follower import Follower
from rescale.following.round_plan import RoundPlan
from rescale.storage.locations import is_s3, join, normalise
from support.live_story import LiveStory
from support.s3 import strict_s3_server
from support.session_cluster import SessionCluster, session_cluster, wait_until

RESCALE = str(Path(sys.executable).with_name("rescale"))
VALUE_SIZE, KEY_BYTES = 1000, 20
MOST_ADDED_SECONDS = 5
FEW_NEW_BYTES = 100_000_000
SHAPES = ((6, 128), (4, 1000))
SAME_MAXIMUM = ((2, 128), (3, 128))
"""Parallelism and max parallelism of the shapes between which the job alternates."""

WAYS_OF_SAME_MAXIMUM: dict[str, dict[str, Any]] = {"refers": {"files": "refer"}, "copied ahead": {}}
"""Values of the DAG's form for each way in which the result gets the files of the last checkpoint."""

SPLITS = 6
"""Parallelism with which every job starts. The source makes a split for each of its first subtasks.

A subtask without a split would finish, and the parallelism of an operator with finished subtasks cannot change.
"""

TIMEOUT_SECONDS = 3600
RATE_SECONDS = 5.0
FETCH_SECONDS = 1.5
"""Pause that is longer than the interval (1 second) at which the session cluster fetches metrics."""

S3_OPTIONS = {"s3.directory.marker.retention": "keep"}
"""By default, Flink's S3 file system deletes the marker of a directory that gets a file. The S3 server refuses that."""

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
    """The job, which runs as `job_id` in `shapes[shape]`; its results and savepoints lie in the directory `home`."""

    cluster: SessionCluster
    home: str
    directory: Path
    """The directory `home` on this machine; the S3 server also keeps its objects as files."""

    arguments: tuple[str, ...]
    shapes: tuple[tuple[int, int], tuple[int, int]]
    shape: int = 0
    job_id: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Flink in addition to `OPTIONS`."""

    @property
    def jar(self) -> RunJar:
        places = {"state.checkpoints.dir": as_uri(join(self.home, "checkpoints"))}
        return RunJar(self.cluster.address, "counts.jar", "Bulk", self.arguments, {**OPTIONS, **places, **self.options})

    def begin(self) -> float:
        """Start the job without state, with a subtask for each split; return the time when all its tasks run."""
        return self._start("", SPLITS, self.shapes[0][1])

    def start(self, snapshot: str, *, in_other_shape: bool) -> float:
        """Start the job from a snapshot in the same or the other shape; return the time when all its tasks run."""
        self.shape ^= in_other_shape
        return self._start(snapshot, *self.shapes[self.shape])

    def _start(self, snapshot: str, parallelism: int, maximum: int) -> float:
        self.job_id = uuid4().hex
        with self.cluster.open() as flink:
            start = Start(snapshot, parallelism, maximum)
            program = PackagedProgram(self.cluster.jar, "Bulk", self.arguments, self.jar.configuration)
            flink.run_jar(program, self.job_id, start)
            wait_until(lambda: (job := flink.job_overview(self.job_id)) is not None and job.runs, "the job to run")
        return time.monotonic()

    @property
    def keeps_maximum(self) -> bool:
        """Whether the max parallelism stays, so that the result can have files of the source."""
        return self.shapes[0][1] == self.shapes[1][1]

    def runs(self) -> bool:
        with self.cluster.open() as flink:
            return (job := flink.job_overview(self.job_id)) is not None and job.runs

    def written_keys(self) -> int:
        """Return the number of keys that the job has written since its start, as of this call.

        Flink answers a request for metrics with the values that it fetched before, and then fetches new values
        (`MetricFetcherImpl`). So the answer to the second request has the values as of the first request.
        """
        self._reported_keys()
        time.sleep(FETCH_SECONDS)
        return self._reported_keys()

    def _reported_keys(self) -> int:
        vertices = httpx.get(f"{self.cluster.address}/jobs/{self.job_id}").json()["vertices"]
        return int(sum(vertex["metrics"]["read-records"] for vertex in vertices if "Process" in vertex["name"]))

    def remove_older(self) -> None:
        """Remove older results and checkpoints: the job has a checkpoint of its own, and no longer needs them."""
        for directory in (*(self.directory / "checkpoints").iterdir(), *self.directory.glob("*-[0-9]*")):
            if directory.name != self.job_id:
                rmtree(directory)

    @property
    def other_shape(self) -> tuple[int, int]:
        return self.shapes[1 - self.shape]

    def keys_a_second(self, seconds: float) -> float:
        """Return the number of keys that the job writes per second, measured for this many seconds."""
        begun = time.monotonic()
        before = self.written_keys()
        time.sleep(seconds)
        ended = time.monotonic()
        return (self.written_keys() - before) / (ended - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0])
    parser.add_argument("--rate", type=int, default=1000, help="keys that change per second")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--flink", nargs="+", default=["1.20.5", "2.3.0"], help="the releases of Flink")
    parser.add_argument(
        "--same-maximum", action="store_true", help="keep the max parallelism, and refer to files or copy them"
    )
    parser.add_argument("--s3", action="store_true", help="keep all files in an S3 server")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    rows: list[Sequence[object]] = []
    headers = ("Flink", "GB", "way", "s", "most", "more", "allowed", "parts", "keys/s", "followed", "predicted")
    try:
        for release, gigabytes in product(arguments.flink, arguments.gigabytes):
            for row in rows_of(release, gigabytes, arguments):
                rows.append(row)
                print(*row, file=sys.stderr)
    finally:
        print(tabulate(rows, headers, floatfmt=".1f"))


def rows_of(release: str, gigabytes: float, arguments: argparse.Namespace) -> Iterator[Sequence[object]]:
    """Measure a release with a state of this size, on a cluster of its own."""
    with ExitStack() as stack:
        home = stack.enter_context(TemporaryDirectory(dir=arguments.directory, ignore_cleanup_errors=True))
        server = stack.enter_context(strict_s3_server(Path(home))) if arguments.s3 else None
        if server is not None:
            stack.enter_context(patch.dict(os.environ, server.environment))
        cluster = stack.enter_context(session_cluster(release, server, memory="2g", **S3_OPTIONS))
        bucket = "" if server is None else server.new_bucket("cut-over")
        directory = Path(home, bucket, "live")
        place = str(directory) if server is None else f"s3://{bucket}/live"
        keys = int(gigabytes * 1e9 / (VALUE_SIZE + KEY_BYTES))
        shapes = SAME_MAXIMUM if arguments.same_maximum else SHAPES
        bulk = Bulk(cluster, place, directory, (str(keys), str(VALUE_SIZE), str(arguments.rate)), shapes)
        yield from measurements(release, gigabytes, keys, bulk, arguments.times)


def as_uri(place: str) -> str:
    return place if is_s3(place) else Path(place).as_uri()


def measurements(release: str, gigabytes: float, keys: int, bulk: Bulk, times: int) -> Iterator[Sequence[object]]:
    bulk.begin()
    wait_until(lambda: bulk.written_keys() > 1.02 * keys, "the state to be there", TIMEOUT_SECONDS)
    restart(bulk)  # at the same max parallelism, Flink itself changes the parallelism
    restarts = [restart(bulk) for _ in range(times)]
    plain = median(restarts)
    yield release, gigabytes, "restart", plain, max(restarts)
    for way, changes in WAYS_OF_SAME_MAXIMUM.items() if bulk.keeps_maximum else [("while it runs", {})]:
        cut_overs = [cut_over_live(bulk, f"{way}-{number}".replace(" ", "-"), changes) for number in range(times)]
        seconds = [each.seconds for each in cut_overs]
        predicted = [each.is_predicted for each in cut_overs if each.last_round_seconds is not None]
        downtimes = median(seconds), max(seconds), max(seconds) - plain, MOST_ADDED_SECONDS
        rates = median(each.keys_before for each in cut_overs), median(each.keys_meanwhile for each in cut_overs)
        predictions = f"{sum(predicted)} of {len(predicted)}"
        yield release, gigabytes, way, *downtimes, cut_overs[-1].parts, *rates, predictions
    if bulk.keeps_maximum:
        command_runs = [cut_over_by_command(bulk, f"ahead-{number}") for number in range(times)]
        seconds = [downtime for downtime, _ in command_runs]
        most, parts = max(seconds), command_runs[-1][1]
        yield release, gigabytes, "by command", median(seconds), most, most - plain, MOST_ADDED_SECONDS, parts
    downtime = rescale_savepoint(bulk, "savepoint")
    yield release, gigabytes, "native savepoint", downtime, downtime, downtime - plain


def restart(bulk: Bulk, *, in_other_shape: bool = False) -> float:
    """Restart the job from a new checkpoint, and return the downtime in seconds."""
    with bulk.cluster.open() as flink:
        take_checkpoint(flink, bulk.job_id)
        bulk.remove_older()
        begun = time.monotonic()
        cancel(flink, bulk.job_id)
    checkpoint = newest_checkpoint(join(bulk.home, f"checkpoints/{bulk.job_id}"))
    return bulk.start(checkpoint, in_other_shape=in_other_shape) - begun


def take_back(bulk: Bulk) -> None:
    """Let Flink itself take the job back to its first parallelism, so that each cut-over begins with the same files."""
    if bulk.keeps_maximum:
        restart(bulk, in_other_shape=True)


class CutOver(NamedTuple):
    """Downtime of a cut-over in seconds and in parts, keys written per second, and the time of the last round."""

    seconds: float
    parts: str
    keys_before: float
    keys_meanwhile: float
    predicted_seconds: float | None
    last_round_seconds: float | None

    @property
    def is_predicted(self) -> bool:
        """Whether the last round took what was predicted, within 30 per cent of the time that it took."""
        if self.predicted_seconds is None or self.last_round_seconds is None:
            return False
        return abs(self.predicted_seconds - self.last_round_seconds) <= 0.3 * self.last_round_seconds


def cut_over_live(bulk: Bulk, name: str, changes: Mapping[str, Any]) -> CutOver:
    parallelism, maximum = bulk.other_shape
    with bulk.cluster.open() as flink:
        take_checkpoint(flink, bulk.job_id)
        wait_until(lambda: flink.latest_checkpoint_uri(bulk.job_id) is not None, "Flink to tell of the checkpoint")
    bulk.remove_older()
    before = bulk.keys_a_second(RATE_SECONDS)
    target = join(bulk.home, name)
    form = changes if bulk.keeps_maximum else {"max_parallelism": maximum, **changes}
    story = LiveStory(bulk.cluster, bulk.job_id, bulk.jar, target, parallelism=parallelism, **form)
    last_round_seconds: list[float] = []
    with _recorded_last_rounds(last_round_seconds), _recorded_rates(bulk) as rates:
        summary = story.follow()
    assert _verify(summary, story.form, None)["verdict"] == "complete"
    bulk.job_id, bulk.shape = summary["job"], 1 - bulk.shape
    take_back(bulk)
    parts = ", ".join(f"{part} {value:.1f}" for part, value in summary["seconds"].items())
    predicted_seconds = (story.state.get(ROUNDS_KEY) or {}).get("last_round_seconds")
    meanwhile = median(rates) if rates else before
    took_seconds = last_round_seconds[-1] if last_round_seconds else None
    cut_over = CutOver(summary["downtime_seconds"], parts, before, meanwhile, predicted_seconds, took_seconds)
    print(name, *cut_over, file=sys.stderr)
    return cut_over


def cut_over_by_command(bulk: Bulk, name: str) -> tuple[float, str]:
    """Copy files ahead, cut over by `rescale run`, and return the seconds of downtime and their parts."""
    parallelism, _ = bulk.other_shape
    checkpoints, target = join(bulk.home, f"checkpoints/{bulk.job_id}"), join(bulk.home, name)
    command = [RESCALE, "run", "--target", target, "--parallelism", str(parallelism)]
    begun = time.monotonic()
    with bulk.cluster.open() as flink:
        new_bytes = FEW_NEW_BYTES + 1
        while new_bytes > FEW_NEW_BYTES:
            take_checkpoint(flink, bulk.job_id)
            answer = subprocess.run(
                [*command, checkpoints, "--prepare", "--output", "json"], check=True, stdout=subprocess.PIPE
            )
            new_bytes = json.loads(answer.stdout)["new_bytes"]
        copied = time.monotonic() - begun
        take_checkpoint(flink, bulk.job_id)
        begun = time.monotonic()
        cancel(flink, bulk.job_id)
    cancelled = time.monotonic()
    subprocess.run(
        [*command, newest_checkpoint(checkpoints), "--proof", "files"], check=True, stdout=subprocess.DEVNULL
    )
    moved = time.monotonic()
    started = bulk.start(target, in_other_shape=True)
    take_back(bulk)
    parts = {"before": copied, "cancel": cancelled - begun, "run": moved - cancelled, "start": started - moved}
    return started - begun, ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())


@contextmanager
def _recorded_last_rounds(last_round_seconds: list[float]) -> Iterator[None]:
    """Add the seconds of each last round to `last_round_seconds`, including those of its plan."""
    real = Follower.move_last

    def timed(follower: Follower, planned: RoundPlan) -> None:
        real(follower, planned)
        last_round_seconds.append(time.monotonic() - planned.start_time)

    with patch.object(Follower, "move_last", timed):
        yield


@contextmanager
def _recorded_rates(bulk: Bulk) -> Iterator[list[float]]:
    """Yield the number of keys that the running job writes per second, every few seconds."""
    rates: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            with suppress(httpx.HTTPError, KeyError):
                rate = bulk.keys_a_second(RATE_SECONDS)
                if bulk.runs():
                    rates.append(rate)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield rates
    finally:
        ended.set()
        thread.join()


def take_savepoint(bulk: Bulk, mode: StopMode, kind: SavepointFormat) -> str:
    """Take a savepoint of the job, and return its directory."""
    trigger = uuid4().hex
    with bulk.cluster.open() as flink:
        directory = as_uri(join(bulk.home, "savepoints"))
        flink.trigger_savepoint(bulk.job_id, trigger, directory, mode, kind)
        while (taken := flink.savepoint(bulk.job_id, trigger)) is None or taken.location is None:
            time.sleep(0.1)
    return normalise(taken.location)


def rescale_savepoint(bulk: Bulk, name: str) -> float:
    """Stop the job with a savepoint, start it from the rescaled one, and return the downtime in seconds."""
    target, begun = join(bulk.home, name), time.monotonic()
    source = take_savepoint(bulk, StopMode.STOP, SavepointFormat.NATIVE)
    parallelism, maximum = bulk.other_shape
    shape = ["--parallelism", str(parallelism)]
    shape += [] if bulk.keeps_maximum else ["--max-parallelism", str(maximum)]
    command = [RESCALE, "run", source, "--target", target, *shape]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return bulk.start(target, in_other_shape=True) - begun


if __name__ == "__main__":
    main()
