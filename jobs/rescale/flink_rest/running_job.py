"""Jobs and vertices as Flink's REST API describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from rescale.flink.start import common_parallelism

_ENDED = ("FINISHED", "CANCELED", "FAILED")
"""The globally terminal states of `JobStatus`."""

_RESTORED = ("RUNNING", "FINISHED")
"""The values of `ExecutionState` of a task that has restored its state."""


class JobLine(msgspec.Struct, frozen=True):
    """A job in Flink's overview (`JobDetails`), which is current; `tasks` counts tasks by state, and as `total`."""

    job_id: str = msgspec.field(name="jid")
    name: str
    state: str
    tasks: Mapping[str, int] = {}

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    @property
    def runs(self) -> bool:
        """Whether every task has restored its state and runs, or has finished."""
        if self.state == "FINISHED":
            return True
        restored = sum(self.tasks.get(state.lower(), 0) for state in _RESTORED)
        return self.state == "RUNNING" and restored == self.tasks.get("total", 0) > 0


class Vertex(msgspec.Struct, frozen=True):
    """A chain of operators, with the id of the first one (`JobVertexDetailsInfo`); `tasks` counts subtasks by state."""

    operator_id: str = msgspec.field(name="id")
    name: str
    parallelism: int
    max_parallelism: int = msgspec.field(name="maxParallelism")
    tasks: Mapping[str, int]

    @property
    def partially_finished(self) -> bool:
        """Whether some subtasks, but not all, have finished."""
        return 0 < self.tasks.get("FINISHED", 0) < self.parallelism

    @property
    def finished(self) -> bool:
        """Whether all subtasks have finished."""
        return self.tasks.get("FINISHED", 0) == self.parallelism


class Job(msgspec.Struct, frozen=True):
    """Details of a job (`JobDetailsInfo`); `state` is a value of `JobStatus`."""

    job_id: str = msgspec.field(name="jid")
    name: str
    state: str
    vertices: tuple[Vertex, ...]

    @property
    def ended(self) -> bool:
        """Whether the job is in a terminal state."""
        return self.state in _ENDED

    @property
    def runs(self) -> bool:
        """Whether every task has restored its state and runs, or has finished."""
        if self.state == "FINISHED":
            return True
        states = Counter[str]()
        for vertex in self.vertices:
            states.update(vertex.tasks)
        restored = sum(states[state] for state in _RESTORED)
        return self.state == "RUNNING" and states.total() > 0 and states.total() == restored

    @property
    def parallelism(self) -> int:
        """The parallelism of most vertices."""
        return common_parallelism([(vertex.parallelism, vertex.max_parallelism) for vertex in self.vertices])
