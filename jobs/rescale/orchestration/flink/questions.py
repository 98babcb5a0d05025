"""What is waited for: a question whose answer is to come. Asked by whoever has it, as often as one likes.

`ask` gives None until there is an answer. A `StoreError` says that it could not be asked, or that another try of the
task may help; any other error says that there will be no answer.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from rescale.errors import RescaleError, StoreError
from rescale.orchestration.flink.deployment import is_redeployed
from rescale.orchestration.flink.flink_access import open_flink
from rescale.orchestration.flink.kinds import PatchDeployment
from rescale.orchestration.flink.rest import Flink, Taking
from rescale.storage.locations import contains, normalise

Answer = dict[str, Any]

log = logging.getLogger(__name__)


class SavepointTaken(msgspec.Struct, frozen=True, tag=True):
    """Where the savepoint is that a trigger began below `directory`; if it ends the job, when the job has ended."""

    flink: str
    job_id: str
    trigger_id: str
    directory: str
    taking: Taking

    @property
    def ends_the_job(self) -> bool:
        return self.taking is not Taking.RUN_ON

    @property
    def waits_for(self) -> str:
        return f"the savepoint of job {self.job_id}" + (" and the job to end" if self.ends_the_job else "")

    def ask(self) -> Answer | None:
        with open_flink(self.flink) as flink:
            savepoint = flink.savepoint(self.job_id, self.trigger_id)
            job = flink.job(self.job_id)
            if savepoint is not None and savepoint.failure is not None:
                raise StoreError("Flink could not take the savepoint", path=self.directory, found=savepoint.failure)
            alive = job is not None and not job.ended
            location = savepoint.location if savepoint is not None else None
            if alive and savepoint is None:
                location = None if self.ends_the_job else savepoint_below(flink, self.job_id, self.directory)
                if location is None:
                    raise StoreError("Flink has forgotten the savepoint that was begun", path=self.directory)
            if (savepoint is not None and location is None) or (alive and self.ends_the_job):
                return None
            if job is not None and job.state == "FAILED" and self.ends_the_job:
                raise RescaleError(
                    "the job failed when it was stopped",
                    path=self.directory,
                    found=flink.why_failed(self.job_id),
                    advice="look whether its sinks have committed everything before you start it again",
                )
            location = location or savepoint_below(flink, self.job_id, self.directory)
            if location is None:
                raise RescaleError(
                    "the job has ended, and there is no savepoint of it",
                    path=self.directory,
                    expected=f"a savepoint of job {self.job_id}",
                    found=job.state if job is not None else "a job that Flink does not know",
                    advice="if another run has stopped it, that one starts it; else start it from its last checkpoint",
                )
            return {"savepoint": normalise(location), "job": self.job_id, "state": job.state if job else None}


class JobEnded(msgspec.Struct, frozen=True, tag=True):
    """Whether a job that was cancelled has ended."""

    flink: str
    job_id: str

    @property
    def waits_for(self) -> str:
        return f"job {self.job_id} to end"

    def ask(self) -> Answer | None:
        with open_flink(self.flink) as flink:
            job = flink.job(self.job_id)
            return {"job": self.job_id} if job is None or job.ended else None


class JobRuns(msgspec.Struct, frozen=True, tag=True):
    """Whether every task of a job has restored its state and runs."""

    flink: str
    job_id: str

    @property
    def waits_for(self) -> str:
        return f"every task of job {self.job_id} to run"

    def ask(self) -> Answer | None:
        with open_flink(self.flink) as flink:
            job = flink.job(self.job_id)
            if job is None:
                raise RescaleError("Flink has lost the job", path=flink.address, found=self.job_id)
            if job.ended and not job.runs:
                why = flink.why_failed(self.job_id)
                raise RescaleError(
                    "the job did not start from the snapshot",
                    path=flink.address,
                    operator=job.name,
                    expected="a job that runs",
                    found=job.state if why is None else f"{job.state}: {why}",
                    advice="if it sets its max parallelism itself, take that out of its code or configuration"
                    if job.state == "FAILED"
                    else "look who has cancelled it",
                )
            if not job.runs:
                if (why := flink.why_failed(self.job_id)) is not None:
                    log.warning("the job is %s: %s", job.state, why)
                return None
            return {
                "job": job.job_id,
                "name": job.name,
                "parallelism": job.parallelism,
                "restored_from": flink.restored_from(job.job_id),
            }


class DeploymentRuns(msgspec.Struct, frozen=True, tag=True):
    """Whether Flink's Kubernetes operator has redeployed a job, and sees it run."""

    where: PatchDeployment
    nonce: int

    @property
    def waits_for(self) -> str:
        return f"the FlinkDeployment {self.where.namespace}/{self.where.name} to run"

    def ask(self) -> Answer | None:
        if not is_redeployed(self.where, self.nonce):
            return None
        return {"deployment": f"{self.where.namespace}/{self.where.name}", "nonce": self.nonce}


Question = SavepointTaken | JobEnded | JobRuns | DeploymentRuns


def savepoint_below(flink: Flink, job_id: str, directory: str) -> str | None:
    """The job's last savepoint, if it lies below a directory: what there is when Flink has forgotten its trigger."""
    location = flink.latest_savepoint(job_id)
    return location if location is not None and contains(normalise(directory), normalise(location)) else None
