"""Checks whether a running job can be stopped and started again, before anything is done to it."""

from __future__ import annotations

import re

import msgspec

from rescale.airflow.flink.deployment import read_deployment
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.last_checkpoint import checkpoint_directory_of
from rescale.airflow.flink.starting import check_hand_over
from rescale.airflow.flink.stopping import JobToRestart, refuse_stop_without_restart, running_jobs
from rescale.airflow.hand_overs import HandOver, PatchDeployment, RunJar
from rescale.flink_rest.client import Flink, SavepointFormat, StopMode
from rescale.flink_rest.running_job import find_job
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError, StoreError

_SESSION_JOB_ID_PATTERN = re.compile("(?:0{8}|f{8})[0-9a-f]{8}(?!0{16})0{8}[0-9a-f]{8}")
"""Pattern of the job ids that releases of Flink's operator before 1.8 give to FlinkSessionJobs.

Such an id consists of a Java hash code as a long, and of the generation of the resource
(`FlinkUtils.generateSessionJobFixedJobID`). Newer operators give random ids.
"""

_SHUTDOWN_OPTION = "execution.shutdown-on-application-finish"
"""Option of Flink: whether the JobManager ends with its job (`DeploymentOptions.SHUTDOWN_ON_APPLICATION_FINISH`)."""


def inspect_job(
    flink: str,
    job: str,
    taking: StopMode,
    savepoints: str | None,
    hand_over: HandOver,
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL,
) -> JobToRestart:
    """Return the job with this id or name. Raises `RequestError` if it has ended or could not be started again.

    `flink` is an address or the id of an Airflow connection. `savepoints` is the directory for savepoints; None if no
    savepoint is taken.
    """
    refuse_stop_without_restart(taking, hand_over)
    check_hand_over(hand_over)
    with open_flink(flink) as cluster:
        jobs = cluster.jobs()
        overview = find_job(jobs, job, cluster.address)
        if overview.has_ended:
            raise RequestError(
                "the job has ended",
                path=cluster.address,
                expected="a running job",
                found=f"{job}: {overview.state}",
                advice="give the name of the job: it gets a new id whenever it is started",
            )
        if isinstance(hand_over, RunJar) and _SESSION_JOB_ID_PATTERN.fullmatch(overview.job_id):
            raise RequestError(
                "Flink's operator manages the job as a FlinkSessionJob, and would start it again beside the job "
                "that a jar starts",
                path=cluster.address,
                found=f"{overview.name} ({overview.job_id}), an id that the operator gives",
                advice='clear "Jar", and name the resource under "FlinkDeployment": flinksessionjob/namespace/name',
            )
        details = cluster.job(overview.job_id)
        if details is None or overview.state != "RUNNING":
            found_text = "Flink does not know it any more" if details is None else overview.state
            raise StoreError("the job is not running at the moment", path=cluster.address, found=found_text)
        parallelism = cluster.default_parallelism(overview.job_id) or details.parallelism
        if taking is StopMode.CHECKPOINT:
            directory = checkpoint_directory_of(cluster, overview.job_id)
        else:
            directory = _savepoint_directory(savepoints)
        if isinstance(hand_over, PatchDeployment):
            _refuse_cluster_that_ends(cluster, hand_over)
    old_job = JobToRestart(
        flink,
        overview.job_id,
        overview.name,
        taking,
        directory,
        parallelism,
        hand_over,
        savepoint_format=savepoint_format,
        is_only_one=running_jobs(jobs, overview.name) == [overview],
    )
    return _with_deployment(old_job, hand_over) if isinstance(hand_over, PatchDeployment) else old_job


def _refuse_cluster_that_ends(cluster: Flink, hand_over: PatchDeployment) -> None:
    """Raise `RequestError` if Flink's REST API would end with the job.

    Before the run starts the job again, it asks the REST API which savepoint or checkpoint the job completed last, and
    whether the job has ended. Flink's Kubernetes operator sets `_SHUTDOWN_OPTION` to false, unless the FlinkDeployment
    sets it (`FlinkConfigBuilder.applyJobOrSessionSpec`). The cluster of a FlinkSessionJob always outlives its jobs.
    """
    if hand_over.resource == "FlinkSessionJob":
        return
    shutdown_value = cluster.configuration().get(_SHUTDOWN_OPTION)
    if shutdown_value != "false":
        raise RequestError(
            "the JobManager ends with its job, and could not be asked which savepoint or checkpoint it completed last",
            path=cluster.address,
            expected=f"{_SHUTDOWN_OPTION}: false",
            found=shutdown_value or "true, the default",
            advice="set this option in the FlinkDeployment",
        )


def _savepoint_directory(savepoints: str | None) -> str:
    """Return the directory for savepoints. Raises `RequestError` if the form names none."""
    if not savepoints:
        raise RequestError(
            "the form names no directory for the savepoint",
            option='"Savepoints"',
            expected="a directory in which Flink writes the savepoint",
            found="nothing",
            advice=f'fill it in; or choose {StopMode.CHECKPOINT.value!r} under "What becomes of the job"',
        )
    return normalise(savepoints)


def _with_deployment(old_job: JobToRestart, hand_over: PatchDeployment) -> JobToRestart:
    """Return the job with the current fields of the FlinkDeployment.

    Raises `RequestError` if the FlinkDeployment runs another job.
    """
    deployment = read_deployment(hand_over)
    if deployment.job_id not in (None, old_job.job_id):
        raise RequestError(
            f"the {hand_over.resource} runs another job",
            path=hand_over.full_name,
            expected=f"job {old_job.job_id}",
            found=deployment.job_id,
        )
    return msgspec.structs.replace(old_job, deployment=deployment.spec, nonce=deployment.nonce)
