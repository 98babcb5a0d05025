"""Questions to Flink whose answer takes time. They can be asked any number of times, in a worker or the triggerer.

`ask` returns None until there is an answer. It raises `StoreError` if Flink cannot be asked, or if another try of the
task may help; any other error means that there will be no answer.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from rescale.airflow.flink.checkpoint_question import CheckpointQuestion
from rescale.airflow.flink.deployment import is_redeployed
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.ids import running_job_id
from rescale.airflow.hand_overs import PatchDeployment
from rescale.flink_rest.client import Flink, StopMode
from rescale.storage.locations import contains, normalise
from rescale.text.errors import RescaleError, StoreError

Answer = dict[str, Any]

log = logging.getLogger(__name__)


class LostJobError(StoreError):
    """Raised if Flink does not know a job that was started; only another start helps, not another question."""


class SavepointQuestion(msgspec.Struct, frozen=True, tag="SavepointTaken"):
    """Asks Flink for the savepoint that was triggered with `trigger_id`, and that Flink writes below `directory`.

    If `taking` ends the job, there is no answer before the job has ended.
    """

    flink: str
    job_id: str
    trigger_id: str
    directory: str
    taking: StopMode

    @property
    def ends_the_job(self) -> bool:
        return self.taking is not StopMode.RUN_ON

    @property
    def waits_for(self) -> str:
        return f"the savepoint of job {self.job_id}" + (" and the job to end" if self.ends_the_job else "")

    def ask(self) -> Answer | None:
        with open_flink(self.flink) as flink:
            savepoint = flink.savepoint(self.job_id, self.trigger_id)
            job = flink.job(self.job_id)
            if savepoint is not None and savepoint.failure is not None:
                raise StoreError("Flink could not take the savepoint", path=self.directory, found=savepoint.failure)
            is_alive = job is not None and not job.has_ended
            location = savepoint.location if savepoint is not None else None
            if is_alive and savepoint is None:
                location = None if self.ends_the_job else savepoint_below(flink, self.job_id, self.directory)
                if location is None:
                    raise StoreError("Flink no longer knows the savepoint that it was writing", path=self.directory)
            if (savepoint is not None and location is None) or (is_alive and self.ends_the_job):
                return None
            if job is not None and job.state == "FAILED" and self.ends_the_job:
                raise RescaleError(
                    "the job failed while it was being stopped",
                    path=self.directory,
                    found=flink.failure_messages(self.job_id),
                    advice="check that its sinks have committed everything before you start it again",
                )
            location = location or savepoint_below(flink, self.job_id, self.directory)
            if location is None:
                raise RescaleError(
                    "the job has ended without a savepoint of this run",
                    path=self.directory,
                    expected=f"a savepoint of job {self.job_id}",
                    found=job.state if job is not None else "a job that Flink does not know",
                    advice="if another run has stopped the job, that run starts it again; otherwise start it from its "
                    "last checkpoint",
                )
            return {"savepoint": normalise(location), "job": self.job_id, "state": job.state if job else None}


class JobEndQuestion(msgspec.Struct, frozen=True, tag="JobEnded"):
    """Asks Flink whether a cancelled job has ended."""

    flink: str
    job_id: str

    @property
    def waits_for(self) -> str:
        return f"job {self.job_id} to end"

    def ask(self) -> Answer | None:
        with open_flink(self.flink) as flink:
            job = flink.job_overview(self.job_id)
            return {"job": self.job_id} if job is None or job.has_ended else None


class JobStartQuestion(msgspec.Struct, frozen=True, tag="JobRuns"):
    """Asks Flink whether a job runs; there is an answer once every task has restored its state and runs.

    `instead_of` is the seed of the start that this start replaces; empty if it replaces none. Flink may carry out the
    replaced start long after its request timed out. If this late job runs, it is cancelled, and there is no answer
    before its end.
    """

    flink: str
    job_id: str
    instead_of: tuple[str, ...] = ()

    @property
    def waits_for(self) -> str:
        return f"every task of job {self.job_id} to run"

    def ask(self) -> Answer | None:
        with open_flink(self.flink) as flink:
            if self.instead_of and (late_job_id := running_job_id(flink, *self.instead_of)) is not None:
                log.warning("job %s, which this one replaces, has started late: it is cancelled", late_job_id)
                flink.cancel(late_job_id)
                return None
            overview = flink.job_overview(self.job_id)
            if overview is None:
                raise LostJobError("Flink no longer knows the job", path=flink.address, found=self.job_id)
            if overview.has_ended and not overview.runs:
                failure_text = flink.failure_messages(self.job_id)
                raise RescaleError(
                    "the job did not start from the snapshot",
                    path=flink.address,
                    operator=overview.name,
                    expected="a running job",
                    found=overview.state if failure_text is None else f"{overview.state}: {failure_text}",
                    advice="if the job sets its max parallelism itself, remove that from its code or configuration"
                    if overview.state == "FAILED"
                    else "find out who has cancelled it",
                )
            if not overview.runs:
                if (failure_text := flink.failure_messages(self.job_id)) is not None:
                    log.warning("the job is %s: %s", overview.state, failure_text)
                return None
            details = flink.job(self.job_id)
            if details is None or not details.vertices:  # an old answer, from before Flink had read the job's graph
                return None
            return {
                "job": details.job_id,
                "name": details.name,
                "parallelism": details.parallelism,
                "restored_from": flink.restored_snapshot_uri(details.job_id),
            }


class RedeploymentQuestion(msgspec.Struct, frozen=True, tag="DeploymentRuns"):
    """Asks Kubernetes whether the resource was redeployed with `nonce`, and its job runs or has finished."""

    where: PatchDeployment
    nonce: int

    @property
    def waits_for(self) -> str:
        return f"the {self.where.resource} {self.where.full_name} to run"

    def ask(self) -> Answer | None:
        if not is_redeployed(self.where, self.nonce):
            return None
        return {"deployment": self.where.name_in_form, "nonce": self.nonce}


FlinkQuestion = SavepointQuestion | CheckpointQuestion | JobEndQuestion | JobStartQuestion | RedeploymentQuestion


def describe_answer(answer: Answer) -> str:
    """Return a clause about an answer, for logs and errors."""
    match answer:
        case {"savepoint": savepoint, "job": job, "state": state}:
            return f"the snapshot of job {job} is {savepoint}; the job is {state or 'no longer known to Flink'}"
        case {"checkpoint": checkpoint, "job": job}:
            return f"the checkpoint of job {job} is {checkpoint}"
        case {"restored_from": snapshot, "job": job, "parallelism": parallelism}:
            return f"job {job} runs with parallelism {parallelism}, restored from {snapshot}"
        case {"deployment": deployment}:
            resource = PatchDeployment.parse(deployment, None)
            return f"the {resource.resource} {resource.full_name} runs"
        case {"start": command}:
            return f"start the job by hand: {command}"
        case {"job": job, "went_back": False}:
            return f"job {job} still runs"
        case {"job": job}:
            return f"job {job} has ended"
        case _:
            return "done"


def savepoint_below(flink: Flink, job_id: str, directory: str) -> str | None:
    """Return the URI of the job's last savepoint if it is below a directory, None otherwise.

    Flink reports the last savepoint of a job even if it has forgotten the trigger id.
    """
    location = flink.latest_savepoint_uri(job_id)
    return location if location is not None and contains(normalise(directory), normalise(location)) else None
