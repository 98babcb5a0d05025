"""A job with an exactly-once sink of Kafka is cut over: the topic has each of its numbers once."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from oracle.distribution import KAFKA_CONNECTORS, LINES, flink_home, kafka_connector_jars
from rescale.airflow.flink.last_checkpoint import take_checkpoint
from rescale.airflow.live import cut_over
from rescale.flink_rest.client import SavepointFormat, StopMode
from rescale.text.errors import RescaleError, StoreError
from support.kafka_broker import running_broker
from support.live_story import LiveStory, begin
from support.session_cluster import SessionCluster, session_cluster, wait_until
from support.slow import slow_but

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SOON = {"heartbeat.interval": "1000", "heartbeat.timeout": "10000"}
LAST, SUBTASKS, KEYS = 10_000_000_000, 2, 10


class Topic:
    def __init__(self, line: str, broker: str, cluster: SessionCluster) -> None:
        self.broker, self.cluster, self.name = broker, cluster, f"numbers-{uuid4().hex}"
        jars = [cluster.folder / "classes", *kafka_connector_jars(KAFKA_CONNECTORS[line]), *flink_home(LINES[line])]
        self._java = ["java", "-cp", os.pathsep.join(map(str, jars)), "Exactly"]
        self._run("create")

    @property
    def arguments(self) -> tuple[str, str, str]:
        return "run", self.broker, self.name

    def committed(self) -> list[tuple[int, int]]:
        """Return each committed number, with how many numbers of the same key the job had counted before it."""
        lines = (line.split() for line in self._run("read").splitlines())
        return [(int(number), int(before)) for number, before in lines]

    def _run(self, action: str) -> str:
        command = [*self._java, action, self.broker, self.name]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout


@pytest.fixture(scope="module", params=slow_but(lambda line: line == "2", LINES))
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with running_broker() as address:
        yield address


@pytest.fixture(scope="module")
def machines(line: str) -> Iterator[SessionCluster]:
    with session_cluster(LINES[line], connector=KAFKA_CONNECTORS[line], **SOON) as cluster:
        yield cluster


@pytest.fixture
def topic(line: str, broker: str, machines: SessionCluster) -> Iterator[Topic]:
    yield Topic(line, broker, machines)
    machines.clear()


def end_of(topic: Topic, job_id: str) -> list[tuple[int, int]]:
    """Stop the job with a savepoint, which commits all that it has written; return what is committed."""
    trigger = uuid4().hex
    with topic.cluster.open() as flink:
        directory = (topic.cluster.folder / "stopped").as_uri()
        flink.trigger_savepoint(job_id, trigger, directory, StopMode.STOP, SavepointFormat.CANONICAL)
        wait_until(
            lambda: (taken := flink.savepoint(job_id, trigger)) is not None and taken.location is not None, "the end"
        )
    return topic.committed()


UNCERTAIN = (
    "the newest checkpoint in the job's directory is not the one that Flink completed",
    "it is uncertain which checkpoint the job completed last",
)
"""Beginnings of errors after which no job runs."""


def assert_each_once(committed: list[tuple[int, int]]) -> None:
    """Check that the numbers of each split are consecutive from the first one on, and that keys count up one by one."""
    numbers = sorted(number for number, _ in committed)
    split_size = LAST // SUBTASKS
    for split in range(SUBTASKS):
        own = [
            number
            for number in numbers
            if split * split_size < number <= (split + 1) * split_size or number == split == 0
        ]
        assert own == list(range(own[0], own[0] + len(own))), f"split {split}: lost or repeated"
        assert own[0] in (0, split * split_size + 1, split * split_size)
    counts: dict[int, list[int]] = defaultdict(list)
    for number, before in committed:
        counts[number % KEYS].append(before)
    assert all(sorted(own) == list(range(len(own))) for own in counts.values())


def follow_with_retries(story: LiveStory) -> str | None:
    """Run the task with retries, as Airflow does; return the running job, None if the last checkpoint is unknown."""
    for _ in range(3):
        try:
            return str(story.follow()["job"])
        except StoreError:
            continue
        except RescaleError as error:
            if error.what.startswith(UNCERTAIN):
                assert not story.cluster.alive()
                return None
            break
    (job_id,) = story.cluster.alive()
    return str(job_id)


@contextmanager
def losing_before(moment: str, lose: Callable[[], object]) -> Iterator[None]:
    """Call `lose` once, right before the cut-over first calls its function `moment`."""
    real, lost = getattr(cut_over, moment), []

    def losing(*arguments: Any, **more: Any) -> Any:
        if not lost:
            lost.append(moment)
            lose()
        return real(*arguments, **more)

    with patch.object(cut_over, moment, losing):
        yield
    assert lost


@pytest.mark.parametrize(
    "form", [{}, {"parallelism": 4, "max_parallelism": None, "files": "refer"}], ids=["rounds", "refers"]
)
def test_nothing_is_lost_or_repeated(topic: Topic, tmp_path: Path, form: dict[str, Any]) -> None:
    story = begin(topic.cluster, tmp_path / "result", *topic.arguments, main="Exactly", **form)
    job_id = follow_with_retries(story)
    assert job_id is not None
    assert job_id != story.job_id
    wait_until(lambda: topic.cluster.is_counting(job_id), "the job to go on")
    before = len(topic.committed())
    with topic.cluster.open() as flink:
        take_checkpoint(flink, job_id)
    committed = end_of(topic, job_id)
    assert len(committed) > before > 0
    assert_each_once(committed)


@pytest.mark.parametrize("machine", ["job_manager", "task_manager"])
@pytest.mark.parametrize("moment", ["cancel", "final_checkpoint", "hand_job_over"])
def test_nothing_is_lost_or_repeated_with_a_machine(topic: Topic, tmp_path: Path, machine: str, moment: str) -> None:
    story = begin(topic.cluster, tmp_path / "result", *topic.arguments, main="Exactly", give_up_after=120)
    with losing_before(moment, getattr(topic.cluster, f"lose_{machine}")):
        job_id = follow_with_retries(story)
    if job_id is None:  # see test_lost_machines
        assert (machine, moment) in {("job_manager", "cancel"), ("job_manager", "final_checkpoint")}
        assert_each_once(topic.committed())
        return
    wait_until(lambda: topic.cluster.is_counting(job_id), "the job to go on")
    assert topic.cluster.alive() == {job_id}
    assert_each_once(end_of(topic, job_id))


def test_repeated_and_lost_records_are_found(topic: Topic, tmp_path: Path) -> None:
    """The other tests check records by `assert_each_once`; this one repeats a committed record, and takes one away."""
    story = begin(topic.cluster, tmp_path / "result", *topic.arguments, main="Exactly")
    with topic.cluster.open() as flink:
        number = take_checkpoint(flink, story.job_id)
    committed = topic.committed()
    assert number is not None
    assert_each_once(committed)
    with pytest.raises(AssertionError, match="lost or repeated"):
        assert_each_once([*committed, committed[-1]])
    with pytest.raises(AssertionError, match="lost or repeated"):
        assert_each_once([*committed[:5], *committed[6:]])
