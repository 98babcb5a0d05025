"""The shuffle between map and reduce tasks: lost tasks are repeated, and final errors arrive unchanged."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cramjam
import pytest

from big_savepoint import write_savepoint
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.rekeying import rekeying_run
from rescale.execution.rekeying.map_task import MapTask
from rescale.execution.rekeying.reduce_task import ReduceTask
from rescale.execution.steps import reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks import file_shuffle
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.tasks.spill_file import SpillFile
from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.publication import publish
from rescale.storage.scratch import scratch_directory
from rescale.text.errors import IntegrityError, StoreError
from support.faults import Faults
from support.needs import need
from support.pipeline import claimed_plan, execute, move, plan_rescale, shared_processes, shared_spark
from support.rekeyed import assert_rekeyed
from support.slow import slow

MIB = 1 << 20


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("shuffle") / "savepoint"
    write_savepoint(directory, 4 * MIB, value_size=1000)
    return str(directory)


@pytest.fixture
def plan(source: str, tmp_path: Path) -> Plan:
    return plan_rescale(source, str(tmp_path / "target"), ["3"], max_parallelism=["1000"])


@pytest.fixture
def failure_log(tmp_path: Path) -> Path:
    """Return a file that grows by a byte with every failure."""
    path = tmp_path / "tries"
    path.touch()
    return path


def failing_function(failure_log: Path, failure_count: int) -> Callable[[], None]:
    """Return a function that fails a number of times, counted over all processes, which may call it at once."""

    def fail() -> None:
        with failure_log.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if failure_log.stat().st_size >= failure_count:
                return
            file.write("x")
        raise StoreError("planted: throttled", path="/p")

    return fail


def fail_while_reading(fail: Callable[[], None]) -> Callable[..., Any]:
    """Return a factory of `MapTask`s that call `fail` after they have sent some rows."""

    def make(*arguments: Any) -> Any:
        map_task = MapTask(*arguments)

        def rows(units: Iterable[Sequence[Any]]) -> Iterator[Any]:
            all_rows = map_task(units)
            yield next(all_rows)
            fail()
            yield from all_rows

        return rows

    return make


def fail_while_writing(fail: Callable[[], None]) -> Callable[..., Any]:
    """Return a factory of `ReduceTask`s that call `fail` after they have written everything, before they return."""

    def make(*arguments: Any) -> Any:
        reduce_task = ReduceTask(*arguments)

        def rows_written(partition: int, rows: Iterable[bytes]) -> Iterator[Any]:
            answer = list(reduce_task(partition, rows))
            fail()
            yield from answer

        return rows_written

    return make


FAILURES = {"MapTask": fail_while_reading, "ReduceTask": fail_while_writing}


@pytest.mark.parametrize(
    ("task_name", "failure_count", "make_tasks"),
    [
        ("MapTask", 1, shared_processes),
        ("ReduceTask", 3, shared_processes),
        slow("MapTask", 1, shared_spark),
        ("ReduceTask", 3, shared_spark),
    ],
)
def test_failed_task_is_repeated(
    task_name: str,
    failure_count: int,
    make_tasks: Callable[[], Tasks],
    plan: Plan,
    failure_log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rekeying_run, task_name, FAILURES[task_name](failing_function(failure_log, failure_count)))
    move(plan, make_tasks())
    assert failure_log.stat().st_size == failure_count
    assert spill_files_of_tasks() == []
    validate_coverage(plan, shared_processes())
    publish(plan)
    assert_rekeyed(plan.source, plan.target)


def spill_files_of_tasks() -> list[Path]:
    """Return the files of rows in the scratch directories of workers."""

    def list_spill_files(_: int) -> list[Path]:
        return list(Path(scratch_directory()).glob("rescale-shuffle-*"))

    (spill_files,) = shared_processes().run(list_spill_files, [(1, 0)], Progress("look", 1, ByteAction.READ))
    return spill_files


@pytest.mark.slow
def test_task_that_always_fails_ends_the_run_in_a_resumable_error(
    plan: Plan, failure_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(rekeying_run, "ReduceTask", fail_while_writing(failing_function(failure_log, 1000)))
        with pytest.raises(StoreError, match="planted: throttled") as caught:
            execute(plan)
    assert caught.value.path == "/p"
    assert "resume" in str(caught.value.advice)
    assert not Path(places_of(plan).metadata).exists()
    execute(plan)
    assert_rekeyed(plan.source, plan.target)


def test_integrity_error_of_a_writer_arrives_unchanged(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of the last range expects one byte more than it gets."""

    def make(plan: Plan, writer: Any, work_items: dict[int, bytes], *more: Any) -> Any:
        *work, last_range = pickle.loads(work_items[max(work_items)])
        damaged_work = pickle.dumps([*work, last_range._replace(size=last_range.size + 1)])
        return ReduceTask(plan, writer, {**work_items, max(work_items): damaged_work}, *more)

    monkeypatch.setattr(rekeying_run, "ReduceTask", make)
    claim(plan)
    with pytest.raises(IntegrityError, match="does not have the size that was computed from its records") as caught:
        reshuffle_keyed_state(plan, shared_processes())
    assert caught.value.operator == plan.operators[0].label
    assert not Path(places_of(plan).written_handles("keyed")).exists()


@pytest.fixture(scope="module")
def spark_run(source: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, list[str], list[dict[str, Any]]]:
    """Run the step in a process of its own; return the plan, the calls to stores, and Spark's events."""
    need("java", "Spark runs on a JVM")
    folder = tmp_path_factory.mktemp("metrics")
    plan = claimed_plan(source, str(folder / "target"), ["3"], max_parallelism=["1000"])
    log, events, hook = Faults(str(folder / "calls")), folder / "events", folder / "hook"
    hook.mkdir()
    (folder / "spark-defaults.conf").write_text("spark.shuffle.compress false\n")
    arguments = [
        "--plan",
        places_of(plan).plan,
        "--result",
        str(folder / "result.json"),
        "--master",
        "local-cluster[2,1,1024]",
    ]
    settings = {"SPARK_CONF_DIR": str(folder), "RESCALE_EVENT_LOG": str(events)}
    environment = {**os.environ, **log.environment(hook), **settings, **SECRETS}
    subprocess.run([sys.executable, "-m", "reshuffle_keyed_state", *arguments], env=environment, check=True)
    (event_file,) = events.iterdir()
    assert event_file.suffix == ".zstd", "Spark's history server tells the compression by the suffix"
    return plan, log.calls(), [*map(json.loads, bytes(cramjam.zstd.decompress(event_file.read_bytes())).splitlines())]


SECRETS = {
    "AWS_ACCESS_KEY_ID": "planted-id",
    "AWS_SECRET_ACCESS_KEY": "planted-key",
    "AWS_SESSION_TOKEN": "planted-token",
    "AWS_ENDPOINT_URL": "http://me:planted-password@127.0.0.1:9",
}
"""Credentials that Spark reads for Hadoop, whose settings stand in its event log and on its pages."""

SparkRun = tuple[Plan, list[str], list[dict[str, Any]]]


def record_bytes(plan: Plan) -> int:
    return sum(operator.rekeying.bytes for operator in plan.operators if operator.rekeying is not None)


@pytest.mark.slow
def test_event_log_of_spark_has_no_secret(spark_run: SparkRun) -> None:
    (environment,) = [event for event in spark_run[2] if event["Event"] == "SparkListenerEnvironmentUpdate"]
    assert any(name.startswith("fs.s3a.") for name in environment["Hadoop Properties"]), (
        "Spark has not read the credentials"
    )
    assert "planted" not in json.dumps(spark_run[2])


@pytest.mark.slow
def test_bytes_through_spark_shuffle_exceed_the_records_by_at_most_a_fifth(spark_run: SparkRun) -> None:
    plan, _, events = spark_run
    tasks = [event["Task Metrics"] for event in events if event["Event"] == "SparkListenerTaskEnd"]
    written_sizes = [task["Shuffle Write Metrics"]["Shuffle Bytes Written"] for task in tasks]
    assert record_bytes(plan) <= sum(written_sizes) <= 1.2 * record_bytes(plan)
    assert sum(size > 0 for size in written_sizes) >= 2, "several tasks must read"
    fetched_sizes = [
        sum(task["Shuffle Read Metrics"][f"{location} Bytes Read"] for location in ("Local", "Remote"))
        for task in tasks
    ]
    assert sum(fetched_sizes) == sum(written_sizes)
    assert sum(size > record_bytes(plan) // 20 for size in fetched_sizes) >= 2, "several tasks must write"


def test_bytes_through_spill_files_exceed_the_records_by_at_most_a_fifth(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    removals: list[list[SpillFile]] = []
    remove = file_shuffle._remove

    def record_removal(files: list[SpillFile]) -> None:
        removals.append(files)
        remove(files)

    monkeypatch.setattr(file_shuffle, "_remove", record_removal)
    move(plan)
    (files,) = removals
    sizes = [file.size for file in files]
    assert record_bytes(plan) <= sum(sizes) <= 1.2 * record_bytes(plan)
    assert sum(size > 0 for size in sizes) >= 2, "several tasks must read"
    assert not any(Path(file.path).exists() for file in files)


@pytest.mark.slow
def test_workers_read_as_many_bytes_as_the_key_groups_have(spark_run: SparkRun) -> None:
    plan, calls, _ = spark_run
    bytes_read = 0
    header_size_by_uri = {file.uri: min(g[0] for g in source.groups if g) for source, file in places_and_files(plan)}
    for _, uri, start, length in (line.split() for line in calls if line.startswith("read ")):
        if uri in header_size_by_uri and int(start) >= header_size_by_uri[uri]:
            bytes_read += int(length)
    assert bytes_read == record_bytes(plan)


def places_and_files(plan: Plan) -> list[tuple[Any, Any]]:
    rekeyings = [operator.rekeying for operator in plan.operators if operator.rekeying is not None]
    places: list[Any] = [source.place for rekeying in rekeyings for source in rekeying.sources]
    return [(place, plan.files[place.file]) for place in places]
