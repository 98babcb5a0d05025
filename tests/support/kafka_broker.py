"""A Kafka broker of one node, in KRaft mode, on this machine only."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from oracle.distribution import kafka_broker

_MAIN = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_START_SECONDS = 120


@contextmanager
def running_broker() -> Iterator[str]:
    """Its address, `host:port`; what it kept is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    try:
        port, controller = _free_ports()
        properties = folder / "server.properties"
        properties.write_text("\n".join(f"{name}={value}" for name, value in _options(folder, port, controller)))
        java = ["java", *_MAIN, "-cp", os.pathsep.join(map(str, kafka_broker()))]
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


def _free_ports() -> tuple[int, int]:
    """Two that are not the same."""
    with closing(socket.socket()) as first, closing(socket.socket()) as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return int(first.getsockname()[1]), int(second.getsockname()[1])
