"""What the processes of a benchmark cost: this one, the JVM, the Python workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil


class Cost(NamedTuple):
    seconds: float
    cpu: float


def cost(action: Callable[[], object]) -> Cost:
    """Of an action, in seconds by the clock and of CPU time."""
    start, cpu = time.perf_counter(), cpu_seconds()
    action()
    return Cost(time.perf_counter() - start, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """User and system time of this process and all that came of it so far, those that have ended included."""
    own = psutil.Process()
    everyone = [own, *own.children(recursive=True)]
    times = [process.cpu_times() for process in everyone]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def peak_memory() -> dict[str, float]:
    """Peak resident MB of the JVM and of the largest Python worker below this process."""
    peaks: dict[str, float] = {}
    for child in psutil.Process().children(recursive=True):
        status = Path(f"/proc/{child.pid}/status").read_text()
        for line in status.splitlines():  # a process that is ending has none
            if line.startswith("VmHWM"):
                peaks[child.name()] = max(int(line.split()[1]) / 1000, peaks.get(child.name(), 0))
    return peaks
