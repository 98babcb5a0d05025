"""High availability for a session cluster: a ZooKeeper of one node, with the classes that Flink's distribution has."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from oracle.distribution import flink_home, logging_configuration
from oracle.harness import jvm_options
from rescale.demo.processes import free_ports

_START_SECONDS = 120
_MAIN = "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer"


@contextmanager
def high_availability(version: str) -> Iterator[dict[str, str]]:
    """Run a ZooKeeper for the block; yield Flink's options for a cluster whose jobs outlive its JobManager."""
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
