"""Costs of the processes of a benchmark: this process, the JVM, the Python workers, and all other descendants.

CPU time is that of this process's control group, which counts all descendants, even those for which no process waits:
Spark's daemon does not wait for its workers. A control group requires cgroup v2 and root. Without it, CPU time is that
of the whole machine, which must be idle otherwise.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil


class Cost(NamedTuple):
    """Seconds by the clock, and seconds of CPU time."""

    seconds: float
    cpu: float


def cost(action: Callable[[], object]) -> Cost:
    """Run an action and return its cost."""
    cpu, start = cpu_seconds(), time.perf_counter()
    action()
    return Cost(time.perf_counter() - start, cpu_seconds() - cpu)


def median_cost(costs: Iterable[Cost]) -> Cost:
    """Return the median of the times and the median of the CPU times."""
    return Cost(*map(median, zip(*costs, strict=True)))


def cost_of_command(command: Sequence[str]) -> Cost:
    """Run a command that must succeed; return its time, and the CPU time until its last descendant has ended."""
    cpu, start = cpu_seconds(), time.perf_counter()
    done = subprocess.run(command, env=usual_environment(), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr)
    while _has_descendants():
        time.sleep(0.05)
    return Cost(seconds, cpu_seconds() - cpu)


def usual_environment() -> dict[str, str]:
    """Return this process's environment, with byte code written to disk and this machine's address for Spark."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "SPARK_LOCAL_IP": "127.0.0.1"}


def cpu_seconds() -> float:
    """Return user and system time of this process and its descendants since this module was imported."""
    if GROUP is None:
        used = psutil.cpu_times()
        return float(used.user + used.nice + used.system)
    (spent,) = re.findall(r"^usage_usec (\d+)$", (GROUP / "cpu.stat").read_text(), re.MULTILINE)
    return int(spent) / 1e6


def driver_cpu_seconds() -> float:
    """Return user and system time of this process and of the JVM that it started, without their other descendants."""
    driver = [psutil.Process(), *(child for child in psutil.Process().children() if child.name() == "java")]
    return sum(times.user + times.system for times in (process.cpu_times() for process in driver))


def peak_memory() -> dict[str, float]:
    """Return the peak resident MB of the JVM and of the largest Python worker below this process."""
    peaks: dict[str, float] = {}
    for child in psutil.Process().children(recursive=True):
        status = Path(f"/proc/{child.pid}/status").read_text()
        for line in status.splitlines():  # a process that is ending has no VmHWM
            if line.startswith("VmHWM"):
                peaks[child.name()] = max(int(line.split()[1]) / 1000, peaks.get(child.name(), 0))
    return peaks


def megabytes_in(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def _control_group() -> Path | None:
    """Return the control group of this process and its future descendants; a child process has that of its parent."""
    mounts = re.findall(r"^\S+ (\S+) cgroup2 ", Path("/proc/self/mounts").read_text(), re.MULTILINE)
    (inherited,) = re.findall(r"^0::/(benchmark-\d+)?", Path("/proc/self/cgroup").read_text(), re.MULTILINE) or [""]
    for mount in mounts:
        if inherited:
            return Path(mount) / inherited
        group = Path(mount) / f"benchmark-{os.getpid()}"
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            continue
        atexit.register(_leave, Path(mount), group)
        return group
    print("no control group: CPU is that of the whole machine", file=sys.stderr)
    return None


def _leave(mount: Path, group: Path) -> None:
    """Remove the group, unless other processes are left in it."""
    with suppress(OSError):
        (mount / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _has_descendants() -> bool:
    """Return whether descendants of a command still run, such as a JVM that ends a moment after the command."""
    return GROUP is not None and len((GROUP / "cgroup.procs").read_text().split()) > 1


GROUP = _control_group()
"""Control group of the benchmark, created at import: processes that start earlier are not counted."""
