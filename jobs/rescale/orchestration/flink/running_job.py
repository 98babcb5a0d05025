"""A job as Flink's REST API shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

_ENDED = ("FINISHED", "CANCELED", "FAILED")
"""The globally terminal states of `JobStatus`."""

_RUNS = ("RUNNING", "FINISHED")
"""The states of `ExecutionState` of a task that has its state."""


class JobLine(NamedTuple):
    """A job in the overview (`JobDetails`)."""

    job_id: str
    name: str
    state: str

    @property
    def ended(self) -> bool:
        return self.state in _ENDED


class Vertex(NamedTuple):
    """Chained operators, and the id of the first; `tasks` counts the subtasks by state (`JobVertexDetailsInfo`)."""

    operator_id: str
    name: str
    parallelism: int
    max_parallelism: int
    tasks: Mapping[str, int]

    @property
    def partially_finished(self) -> bool:
        """Whether some subtasks, but not all, have come to their end."""
        return 0 < self.tasks.get("FINISHED", 0) < self.parallelism


@dataclass(frozen=True)
class Job:
    """`JobDetailsInfo`; `state` is one of `JobStatus`."""

    job_id: str
    name: str
    state: str
    vertices: tuple[Vertex, ...]

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Job:
        vertices = [
            Vertex(vertex["id"], vertex["name"], vertex["parallelism"], vertex["maxParallelism"], vertex["tasks"])
            for vertex in document["vertices"]
        ]
        return Job(document["jid"], document["name"], document["state"], tuple(vertices))

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
        return max((vertex.parallelism for vertex in self.vertices), default=1)
