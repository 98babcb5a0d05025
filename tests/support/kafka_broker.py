"""Single-node Kafka broker in KRaft mode on this machine, and the topics that the harness writes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from oracle.distribution import kafka_broker_jars
from rescale.demo.processes import free_ports
from rescale.flink.kafka.position import TopicPartition
from support.needs import need

_JVM_OPTIONS = (
    "-Xmx400m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_START_SECONDS = 300


@contextmanager
def running_broker() -> Iterator[str]:
    """Start a broker for the block and yield its address, `host:port`; its topics are deleted afterwards."""
    need("java", "Kafka runs on a JVM")
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    try:
        port, controller = islice(free_ports(), 2)
        properties = folder / "server.properties"
        properties.write_text("\n".join(f"{name}={value}" for name, value in _options(folder, port, controller)))
        java = ["java", *_JVM_OPTIONS, "-cp", os.pathsep.join(map(str, kafka_broker_jars()))]
        log = folder / "log"
        with log.open("ab") as out:
            format_ = ["kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(properties)]
            if subprocess.run(
                [*java, *format_], stdout=out, stderr=out, check=False, timeout=_START_SECONDS
            ).returncode:
                raise RuntimeError(f"the Kafka broker's folder cannot be made:\n{log.read_text()[-4000:]}")
            broker = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
        try:
            _await(broker, port, log)
            yield f"127.0.0.1:{port}"
        finally:
            broker.kill()
            broker.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _options(folder: Path, port: int, controller: int) -> Iterator[tuple[str, object]]:
    yield "process.roles", "broker,controller"
    yield "node.id", 1
    yield "controller.quorum.voters", f"1@127.0.0.1:{controller}"
    yield "listeners", f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    yield "advertised.listeners", f"PLAINTEXT://127.0.0.1:{port}"
    yield "controller.listener.names", "CONTROLLER"
    yield "log.dirs", folder / "data"
    yield "auto.create.topics.enable", "false"
    for log in ("offsets.topic", "transaction.state.log"):
        yield f"{log}.replication.factor", 1
        yield f"{log}.num.partitions", 1
    yield "transaction.state.log.min.isr", 1
    yield "group.initial.rebalance.delay.ms", 0


def _await(broker: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while broker.poll() is None and time.monotonic() < end:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the Kafka broker does not start:\n{log.read_text()[-4000:]}")


_LONG_TOPIC = "a-topic-with-so-long-a-name-that-it-is-written-another-way-than-a-shorter-one"


def records(seed: int, phase: int) -> list[str]:
    """Return the records of one phase, sorted."""
    return sorted(
        f"{topic}/{partition}/{number}"
        for topic, partition, _ in _partitions(seed, phase)
        for number in range(_before(phase, partition), _before(phase + 1, partition))
    )


def totals(seed: int, phase: int) -> dict[str, int | str]:
    """Return the number of records that each partition has before a phase."""
    return {
        f"{topic}-{partition}": _before(phase, partition) - _before(since, partition)
        for topic, partition, since in _partitions(seed, phase - 1)
    }


def late_partition(seed: int) -> TopicPartition:
    """Return the partition that appears in phase 2."""
    return TopicPartition(f"orders-{seed}", 3)


def _partitions(seed: int, phase: int) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition, and the phase since which it exists."""
    for i, name in enumerate(("orders", _LONG_TOPIC)):
        for partition in range(3 + 2 * i):
            yield f"{name}-{seed}", partition, 0
    if phase >= 2:
        yield *late_partition(seed), 2


def _before(phase: int, partition: int) -> int:
    return phase * (20 + 3 * partition)
