"""A job as Flink's REST API shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from rescale.flink.start import common_parallelism

_ENDED = ("FINISHED", "CANCELED", "FAILED")
"""The globally terminal states of `JobStatus`."""

_RUNS = ("RUNNING", "FINISHED")
"""The states of `ExecutionState` of a task that has its state."""


class JobLine(msgspec.Struct, frozen=True):
    """A job in the overview (`JobDetails`)."""

    job_id: str = msgspec.field(name="jid")
    name: str
    state: str

    @property
    def ended(self) -> bool:
        return self.state in _ENDED


class Vertex(msgspec.Struct, frozen=True):
    """Chained operators, and the id of the first; `tasks` counts the subtasks by state (`JobVertexDetailsInfo`)."""

    operator_id: str = msgspec.field(name="id")
    name: str
    parallelism: int
    max_parallelism: int = msgspec.field(name="maxParallelism")
    tasks: Mapping[str, int]

    @property
    def partially_finished(self) -> bool:
        """Whether some subtasks, but not all, have come to their end."""
        return 0 < self.tasks.get("FINISHED", 0) < self.parallelism

    @property
    def finished(self) -> bool:
        """Whether all subtasks have."""
        return self.tasks.get("FINISHED", 0) == self.parallelism


class Job(msgspec.Struct, frozen=True):
    """`JobDetailsInfo`; `state` is one of `JobStatus`."""

    job_id: str = msgspec.field(name="jid")
    name: str
    state: str
    vertices: tuple[Vertex, ...]

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in _ENDED

    @property
    def runs(self) -> bool:
        """Whether every task has restored its state and runs, or has come to its end."""
        if self.state == "FINISHED":
            return True
        states = Counter[str]()
        for vertex in self.vertices:
            states.update(vertex.tasks)
        return self.state == "RUNNING" and states.total() > 0 and states.total() == sum(states[one] for one in _RUNS)

    @property
    def parallelism(self) -> int:
        """That of most vertices."""
        return common_parallelism([(vertex.parallelism, vertex.max_parallelism) for vertex in self.vertices])
