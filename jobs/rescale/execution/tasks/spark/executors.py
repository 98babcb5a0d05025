"""Chooses number and size of executors: as many cores as there is work for, within the configured limits.

A core processes slices of the state one after the other, so more cores than slices are useless. Besides its JVM, an
executor runs a Python worker for each core; Spark counts the workers' memory as overhead.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.planning.task_sizes import SLICE_BYTES

_WORKER_MIB = 640
"""Memory of a Python worker in MiB, with room for a large record."""
_JVM_MIB = 384
"""Memory of the JVM in MiB, in addition to its heap."""


class Executors(NamedTuple):
    """Number of executors, and cores of each."""

    instances: int
    cores: int

    @property
    def slots(self) -> int:
        """Number of tasks that run at once."""
        return self.instances * self.cores

    @property
    def overhead_mib(self) -> int:
        """Memory of an executor in MiB, in addition to its JVM's heap."""
        return _JVM_MIB + _WORKER_MIB * self.cores


def executors_for(work_bytes: int, limit: Executors) -> Executors:
    """Return executors with one core for each slice of `work_bytes`: at least one core, at most those of `limit`."""
    slots = min(limit.slots, max(1, -(-work_bytes // SLICE_BYTES)))
    instances = -(-slots // limit.cores)
    return Executors(instances, -(-slots // instances))
