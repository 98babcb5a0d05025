"""Jobs and vertices as Flink's REST API describes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from rescale.flink.start import common_parallelism
from rescale.text.errors import RequestError

_TERMINAL_STATES = ("FINISHED", "CANCELED", "FAILED")
"""The globally terminal states of `JobStatus`."""

CANCELLING = "CANCELLING"
"""State of a job that was cancelled and has not ended yet."""

_RESTORED_STATES = ("RUNNING", "FINISHED")
"""Values of `ExecutionState` for a task that has restored its state."""


class _JobState(msgspec.Struct, frozen=True):
    """Fields that all descriptions of a job have; `state` is a value of `JobStatus`."""

    job_id: str = msgspec.field(name="jid")
    name: str
    state: str

    @property
    def has_ended(self) -> bool:
        return self.state in _TERMINAL_STATES

    def _tasks_run(self, number_restored: int, number_of_tasks: int) -> bool:
        """Return whether the job has finished, or all its tasks run or have finished.

        `number_restored` is the number of tasks that have restored their state.
        """
        return self.state == "FINISHED" or (self.state == "RUNNING" and number_restored == number_of_tasks > 0)


class JobOverview(_JobState, frozen=True):
    """A job in Flink's overview (`JobDetails`), which is current.

    `tasks` has the number of tasks in each state, and the number of all tasks as `total`.
    """

    tasks: Mapping[str, int] = {}

    @property
    def runs(self) -> bool:
        """Whether every task has restored its state and runs, or has finished."""
        return self._tasks_run(
            sum(self.tasks.get(state.lower(), 0) for state in _RESTORED_STATES), self.tasks.get("total", 0)
        )


class Vertex(msgspec.Struct, frozen=True):
    """A chain of operators (`JobVertexDetailsInfo`), with the id of the first one; `tasks` counts subtasks by state."""

    operator_id: str = msgspec.field(name="id")
    name: str
    parallelism: int
    max_parallelism: int = msgspec.field(name="maxParallelism")
    tasks: Mapping[str, int]

    @property
    def is_partially_finished(self) -> bool:
        """Whether some subtasks, but not all, have finished."""
        return 0 < self.tasks.get("FINISHED", 0) < self.parallelism

    @property
    def is_finished(self) -> bool:
        """Whether all subtasks have finished."""
        return self.tasks.get("FINISHED", 0) == self.parallelism


class Job(_JobState, frozen=True):
    """Details of a job (`JobDetailsInfo`)."""

    vertices: tuple[Vertex, ...]

    @property
    def runs(self) -> bool:
        """Whether every task has restored its state and runs, or has finished."""
        tasks_by_state = sum((Counter[str](vertex.tasks) for vertex in self.vertices), Counter[str]())
        return self._tasks_run(sum(tasks_by_state[state] for state in _RESTORED_STATES), tasks_by_state.total())

    @property
    def parallelism(self) -> int:
        """Most frequent parallelism of the vertices."""
        return common_parallelism([(vertex.parallelism, vertex.max_parallelism) for vertex in self.vertices])


def find_job(jobs: Sequence[JobOverview], id_or_name: str, address: str) -> JobOverview:
    """Return the job with this id, or the only running job with this name, from the overview of Flink at `address`.

    Raises `RequestError` if there is none, or if several jobs have the name. The states in the overview are current;
    the details of a job may be seconds old (`web.refresh-interval`).
    """
    for job in jobs:
        if job.job_id == id_or_name:
            return job
    live_jobs = [job for job in jobs if not job.has_ended]
    jobs_of_name = [job for job in live_jobs if job.name == id_or_name]
    if len(jobs_of_name) != 1:
        raise RequestError(
            "several jobs have this name" if jobs_of_name else "there is no such job",
            path=address,
            expected="the id of a job, or the name of a single running job: "
            + (", ".join(f"{job.name} ({job.job_id})" for job in live_jobs) or "no job runs"),
            found=id_or_name,
        )
    return jobs_of_name[0]
