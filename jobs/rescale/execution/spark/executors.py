"""How many executors, and how large: as many cores as there is work for, within what the configuration allows.

A core works through slices of the state one after the other, so there is no use for more cores than slices. Beside the
JVM of an executor a Python worker runs for each of its cores; their memory is what Spark calls the overhead.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.planning.task_sizes import SLICE_BYTES

_WORKER_MIB = 640
"""Memory of a Python worker, with room for a record that is not small."""
_JVM_MIB = 384
"""What the JVM takes beside its heap."""


class Executors(NamedTuple):
    """`cores` are those of each."""

    instances: int
    cores: int

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return self.instances * self.cores

    @property
    def overhead_mib(self) -> int:
        """Memory of an executor beside its heap."""
        return _JVM_MIB + _WORKER_MIB * self.cores


def executors_for(work: int, most: Executors) -> Executors:
    """What `work` bytes are worth: one core for each slice, at least one, at most what is allowed."""
    slots = min(most.slots, max(1, -(-work // SLICE_BYTES)))
    instances = -(-slots // most.cores)
    return Executors(instances, -(-slots // instances))
