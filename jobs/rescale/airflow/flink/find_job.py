"""Find a job of a Flink cluster by its id or its name."""

from __future__ import annotations

from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import JobLine
from rescale.text.errors import RequestError


def find_job(flink: Flink, job: str) -> JobLine:
    """Return the job with this id, or the only running job with this name. Raises `RequestError` if there is none.

    The states in the overview are current; the details of a job may be seconds old (`web.refresh-interval`).
    """
    jobs = flink.jobs()
    for line in jobs:
        if line.job_id == job:
            return line
    alive = [line for line in jobs if not line.ended]
    named = [line for line in alive if line.name == job]
    if len(named) != 1:
        raise RequestError(
            "several jobs have this name" if named else "there is no such job",
            path=flink.address,
            expected="the id of a job, or the name of a single running job: "
            + (", ".join(f"{line.name} ({line.job_id})" for line in alive) or "no job runs"),
            found=job,
        )
    return named[0]
