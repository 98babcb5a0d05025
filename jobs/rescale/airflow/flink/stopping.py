"""Take a job's savepoint, hand the job over, or go back to the old job.

A run that stops a job must be able to start it again, so it first stores everything that the start needs
(`JobToRestart`). A run whose hand-over only prints a command may not stop the job. Going back ends the job that was
started from the result, and starts the old job from the *source* of the rescale, with its old shape.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from rescale.airflow.flink.deployment import DeploymentSpec, read_deployment, redeploy
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.ids import derived_ids
from rescale.airflow.flink.questions import (
    Answer,
    FlinkQuestion,
    JobEndQuestion,
    JobStartQuestion,
    RedeploymentQuestion,
    SavepointQuestion,
    savepoint_below,
)
from rescale.airflow.flink.starting import running_job, start_job, withdraw_job
from rescale.airflow.hand_overs import HandOver, PatchDeployment, Print, RunJar
from rescale.flink.start import Start
from rescale.flink_rest.client import Flink, SavepointFormat, SavepointProgress, StopMode
from rescale.flink_rest.running_job import CANCELLING, JobOverview
from rescale.storage.locations import join, normalise
from rescale.text.errors import RequestError, RescaleError, StoreError

log = logging.getLogger(__name__)

_MOST_SAVEPOINTS = 20
"""Number of failed savepoints after which a run gives up.

Each search for the savepoints of a run sends Flink this many requests.
"""

CHOOSE_NATIVE = 'choose "native" as the format of the savepoint'

_NO_CANONICAL_MESSAGES = ("does not support CANONICAL savepoints", "UnsupportedOperationException: Not supported yet.")
"""Messages of tasks that fail because they cannot take a canonical savepoint: on ForSt (`StreamTask`), and with
asynchronous state (`StreamOperatorStateHandler`)."""


class JobToRestart(msgspec.Struct, frozen=True):
    """A running job, with all that is needed to take its savepoint (`taking` says how), and to start it again.

    `directory` is the directory for savepoints, or that of the job's checkpoints if the last checkpoint is the source.
    `parallelism` is the default parallelism of the job. If the hand-over patches a FlinkDeployment, `deployment` has
    the fields of the resource before the rescale, and `nonce` is its `savepointRedeployNonce`. `is_only_one` tells
    whether this was the only running job of its name. `target` is the URI of the result; None if unknown.
    """

    flink: str
    job_id: str
    name: str
    taking: StopMode
    directory: str
    parallelism: int
    hand_over: HandOver
    deployment: DeploymentSpec | None = None
    nonce: int | None = None
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL
    is_only_one: bool = False
    target: str | None = None

    @property
    def is_replaced(self) -> bool:
        """Whether the FlinkDeployment was redeployed after the inspection.

        If so, the job is gone, and maybe its REST API, too.
        """
        hand_over = self.hand_over
        return isinstance(hand_over, PatchDeployment) and read_deployment(hand_over).nonce != self.nonce

    def savepoint_directory(self, run_name: str) -> str:
        """Return the directory for the savepoints of this run only."""
        return join(normalise(self.directory), f"rescale-{next(derived_ids('directory', run_name, self.job_id))[:12]}")


def job_to_restart_of(document: Mapping[str, Any]) -> JobToRestart:
    """Return the job that a document of `msgspec.to_builtins` describes."""
    return msgspec.convert(document, JobToRestart)


def refuse_stop_without_restart(taking: StopMode, hand_over: HandOver) -> None:
    """Raise `RequestError` if the run would stop the job but could not start it again."""
    if taking is not StopMode.RUN_ON and isinstance(hand_over, Print):
        raise RequestError(
            "the run would stop the job, but could not start it again if the rescale failed",
            option='"Hand over"',
            expected="a hand-over by a jar or a FlinkDeployment",
            found="a printed command",
            advice='let the job run on while its savepoint is taken; or fill in "Jar" or "FlinkDeployment"',
        )


def running_jobs(jobs: Sequence[JobOverview], name: str) -> list[JobOverview]:
    """Return the jobs with this name that have not ended."""
    return [job for job in jobs if job.name == name and not job.has_ended]


def begin_savepoint(old_job: JobToRestart, run_name: str) -> FlinkQuestion:
    """Begin a savepoint of the job, unless an earlier try of this run has begun one; return the question for its end.

    If a savepoint has failed, another one is begun. Raises `RescaleError` if `_MOST_SAVEPOINTS` have failed.
    """
    directory = old_job.savepoint_directory(run_name)
    with open_flink(old_job.flink) as flink:
        savepoint_by_trigger_id = _savepoint_by_trigger_id(flink, old_job, run_name)
        usable_trigger_ids = (
            id_ for id_, savepoint in savepoint_by_trigger_id.items() if savepoint and savepoint.failure is None
        )
        trigger_id = next(usable_trigger_ids, None)
        if trigger_id is None:
            if any(savepoint_by_trigger_id.values()) and old_job.savepoint_format is SavepointFormat.CANONICAL:
                _refuse_second_canonical(flink, old_job)
            trigger_id = next((id_ for id_, savepoint in savepoint_by_trigger_id.items() if savepoint is None), None)
            if trigger_id is None:
                raise RescaleError(
                    "Flink could not take the savepoint", path=directory, found=f"{_MOST_SAVEPOINTS} failed attempts"
                )
            _trigger_savepoint(flink, old_job, trigger_id, directory)
    return SavepointQuestion(old_job.flink, old_job.job_id, trigger_id, directory, old_job.taking)


def _savepoint_by_trigger_id(flink: Flink, old_job: JobToRestart, run_name: str) -> dict[str, SavepointProgress | None]:
    """Return each savepoint that this run may have begun, by trigger id; None for savepoints unknown to Flink.

    Flink forgets a savepoint some time after its end (`rest.async.store-duration`), so a savepoint in progress may
    follow unknown ones.
    """
    trigger_ids = islice(derived_ids("savepoint", run_name), _MOST_SAVEPOINTS)
    return {trigger_id: flink.savepoint(old_job.job_id, trigger_id) for trigger_id in trigger_ids}


def _trigger_savepoint(flink: Flink, old_job: JobToRestart, trigger_id: str, directory: str) -> None:
    """Begin a savepoint, unless the job has ended.

    If the job has ended, a savepoint of this run may have stopped it, and Flink may have forgotten that savepoint.
    Raises `StoreError` if the job is not running at the moment.
    """
    job = flink.job(old_job.job_id)
    if job is None or job.has_ended:
        return
    if not job.runs:
        raise StoreError("the job is not running at the moment", path=flink.address, found=job.state)
    flink.trigger_savepoint(old_job.job_id, trigger_id, directory, old_job.taking, old_job.savepoint_format)
    log.info("triggered a %s savepoint", old_job.savepoint_format.value)


def _refuse_second_canonical(flink: Flink, old_job: JobToRestart) -> None:
    """Raise `RequestError` if the job failed because Flink cannot take a canonical savepoint of it."""
    failure = flink.failure_messages(old_job.job_id)
    if failure is not None and any(message in failure for message in _NO_CANONICAL_MESSAGES):
        raise RequestError(
            "Flink cannot take a canonical savepoint of this job: the job failed when asked for one",
            path=flink.address,
            operator=old_job.name,
            found=failure,
            advice=f"check that the job runs again, start it from its last checkpoint if not, and {CHOOSE_NATIVE}",
        )


def hand_job_over(
    hand_over: HandOver, start: Start, run_name: str, old_job: JobToRestart | None
) -> FlinkQuestion | Answer:
    """Start the job from the result, with its new shape.

    `old_job` is the job whose savepoint this run has taken; None if the run has taken none.
    """
    if old_job is not None and not isinstance(hand_over, Print):
        refuse_running_job(old_job, start, run_name)
    return start_job(hand_over, start, *_seed(run_name, old_job))


def refuse_running_job(old_job: JobToRestart, start: Start, run_name: str) -> None:
    """Raise `RequestError` if the old job still runs, or if this run or somebody else has started it again."""
    if isinstance(old_job.hand_over, PatchDeployment) and old_job.is_replaced:
        snapshot = read_deployment(old_job.hand_over).spec.snapshot
        running_text = None if snapshot == start.snapshot else f"{old_job.name}, from {snapshot}"
    else:
        with open_flink(old_job.flink) as flink:
            job = flink.job_overview(old_job.job_id)
            refuse_other_start(flink, old_job, run_name)
        running_id = old_job.job_id if job is not None and not job.has_ended else None
        running_id = running_id or running_job(old_job.hand_over, *_restart_seed(run_name, old_job))
        running_text = running_id and f"{old_job.name} ({running_id})"
    if running_text is not None:
        raise RequestError(
            "the job still runs, so a second one would do the same work twice",
            path=old_job.flink,
            found=running_text,
            advice="let the run stop the job, or choose to print the command",
        )


def refuse_other_start(flink: Flink, old_job: JobToRestart, run_name: str) -> None:
    """Raise `RequestError` if somebody else has started the job during the run (`job_started_by_others`)."""
    if (other_job := job_started_by_others(flink, old_job, run_name)) is not None:
        raise RequestError(
            "somebody else has started a job of this name, and a second one would do the same work twice",
            path=flink.address,
            operator=old_job.name,
            expected="no job of this name that was started during the run",
            found=f"{other_job.job_id}: {other_job.state}",
            advice="if it is this job, started by hand or by another run, leave it alone; if not, start the job as the "
            "log says",
        )


def job_started_by_others(flink: Flink, old_job: JobToRestart, run_name: str) -> JobOverview | None:
    """Return a running job with the name of `old_job` that this run has not started; None if there is none.

    Always None if several jobs had this name before the run: the name does not tell them apart.
    """
    if not old_job.is_only_one:
        return None
    own_ids = {old_job.job_id, *derived_ids(*_seed(run_name, old_job)), *derived_ids(*_restart_seed(run_name, old_job))}
    return next((job for job in running_jobs(flink.jobs(), old_job.name) if job.job_id not in own_ids), None)


def started_job_reference(
    old_job: JobToRestart, run_name: str, snapshot: str | None, *, with_old_shape: bool = False
) -> str | None:
    """Return the id of the job that this run has started from the result; None if the job does not run.

    For a FlinkDeployment, return the name of the resource; None if it was not redeployed from `snapshot`. With
    `with_old_shape`, the job is the one that this run has started again with its old shape. `snapshot` is what the job
    was started from: the result, or the job's own savepoint or checkpoint.
    """
    if isinstance(old_job.hand_over, PatchDeployment):
        is_of_run = old_job.is_replaced and read_deployment(old_job.hand_over).spec.snapshot == snapshot
        return old_job.hand_over.name_in_form if is_of_run else None
    return running_job(old_job.hand_over, *(_restart_seed if with_old_shape else _seed)(run_name, old_job))


def question_for_started_job(
    old_job: JobToRestart, run_name: str, snapshot: str | None, *, with_old_shape: bool = False
) -> FlinkQuestion | None:
    """Return the question for the job that `started_job_reference` returns; None if it does not run. Starts no job."""
    job_reference = started_job_reference(old_job, run_name, snapshot, with_old_shape=with_old_shape)
    hand_over = old_job.hand_over
    if job_reference is None or isinstance(hand_over, Print):
        return None
    if isinstance(hand_over, RunJar):
        return JobStartQuestion(hand_over.flink, job_reference)
    return RedeploymentQuestion(hand_over, read_deployment(hand_over).nonce or 0)


def still_runs(old_job: JobToRestart) -> bool:
    """Return whether the old job still runs, or is being cancelled."""
    if old_job.is_replaced:
        return False
    with open_flink(old_job.flink) as flink:
        job = flink.job_overview(old_job.job_id)
    return job is not None and not job.has_ended


def end_pending_work(old_job: JobToRestart, run_name: str) -> FlinkQuestion | None:
    """Cancel the new job, which must not run beside the old job when that is started again.

    Return the question for the end of the new job. If the old job still runs, cancel nothing, and return the question
    for the end of its savepoint or cancel. Return None if there is nothing to wait for.
    """
    if old_job.is_replaced:
        return _end_session_job(old_job)
    with open_flink(old_job.flink) as flink:
        job = flink.job_overview(old_job.job_id)
        if job is not None and not job.has_ended:
            if old_job.taking is StopMode.CHECKPOINT:
                return JobEndQuestion(old_job.flink, old_job.job_id) if job.state == CANCELLING else None
            return _pending_savepoint(flink, old_job, run_name)
    return withdraw_job(old_job.hand_over, *_seed(run_name, old_job))


def _end_session_job(old_job: JobToRestart) -> FlinkQuestion | None:
    """Cancel the job that Flink's operator has started from the result for a FlinkSessionJob.

    Return the question for its end; None if no such job runs. Flink's operator itself would submit the old job while
    the new one is still being cancelled (`SessionJobReconciler.cancelJob`). A FlinkDeployment needs no cancel, because
    the operator deletes the cluster before it starts the old job.
    """
    hand_over = old_job.hand_over
    if not isinstance(hand_over, PatchDeployment) or hand_over.resource != "FlinkSessionJob":
        return None
    deployment = read_deployment(hand_over)
    if deployment.job_id is None or old_job.target is None or deployment.spec.snapshot != old_job.target:
        return None
    with open_flink(old_job.flink) as flink:
        job = flink.job_overview(deployment.job_id)
        if job is None or job.has_ended:
            return None
        flink.cancel(job.job_id)
    return JobEndQuestion(old_job.flink, job.job_id)


def go_back(old_job: JobToRestart, run_name: str, savepoint: str | None) -> FlinkQuestion | Answer:
    """Start the job again from its own savepoint or checkpoint, with its old shape. If the job still runs, do nothing.

    `savepoint` may be None if Flink still knows the savepoint of this run. Raises `RequestError` if somebody else has
    started or redeployed the job. Raises `RescaleError` if the job finished by itself, or if `savepoint` is None and
    Flink knows no savepoint of this run.
    """
    is_replaced = old_job.is_replaced
    if savepoint is None or not is_replaced:
        with open_flink(old_job.flink) as flink:
            job = flink.job_overview(old_job.job_id)
            if job is not None and not job.has_ended:
                return {"job": old_job.job_id, "name": old_job.name, "went_back": False}
            if old_job.taking is StopMode.CHECKPOINT and job is not None and job.state == "FINISHED":
                raise RescaleError(
                    "the job has finished by itself, so it is not started again",
                    path=flink.address,
                    operator=old_job.name,
                    expected="a job that this run has cancelled",
                    found=job.state,
                )
            if not is_replaced:
                refuse_other_start(flink, old_job, run_name)
            savepoint = savepoint or _savepoint_of_run(flink, old_job, run_name)
    if savepoint is None:
        raise RescaleError(
            "the job has ended, and Flink knows no savepoint of this run",
            path=old_job.savepoint_directory(run_name),
            found=f"{old_job.name} ({old_job.job_id})",
            advice="if another run has stopped the job, that run starts it again; otherwise start it from the "
            "savepoint in this directory, if there is one, or from its last checkpoint",
        )
    if isinstance(old_job.hand_over, PatchDeployment) and old_job.deployment is not None:
        if is_replaced:
            _refuse_other_redeployment(old_job, old_job.hand_over, savepoint)
        old_spec, no_claim = old_job.deployment, old_job.taking is StopMode.CHECKPOINT
        restart_spec = DeploymentSpec(savepoint, old_spec.parallelism, old_spec.max_parallelism, no_claim)
        return RedeploymentQuestion(old_job.hand_over, redeploy(old_job.hand_over, restart_spec))
    start = Start(savepoint, old_job.parallelism, None)
    log.info("command that starts the job: %s", start.command)
    question_or_answer = start_job(old_job.hand_over, start, *_restart_seed(run_name, old_job))
    if isinstance(question_or_answer, JobStartQuestion):
        return msgspec.structs.replace(question_or_answer, instead_of=_seed(run_name, old_job))
    return question_or_answer


def _refuse_other_redeployment(old_job: JobToRestart, hand_over: PatchDeployment, savepoint: str) -> None:
    """Raise `RequestError` if somebody else has redeployed the resource after this run had looked at it."""
    snapshot = read_deployment(hand_over).spec.snapshot
    if old_job.target is not None and snapshot not in (old_job.target, savepoint):
        raise RequestError(
            f"somebody else has redeployed the {hand_over.resource} during this run: the old job is not started again",
            path=hand_over.full_name,
            operator=old_job.name,
            expected=f"initialSavepointPath {old_job.target} or {savepoint}",
            found=snapshot,
            advice="if the job does not run, redeploy it from its own last checkpoint",
        )


def _seed(run_name: str, old_job: JobToRestart | None) -> tuple[str, ...]:
    return ("job", run_name, old_job.job_id if old_job is not None else "")


def _restart_seed(run_name: str, old_job: JobToRestart) -> tuple[str, ...]:
    return ("back", *_seed(run_name, old_job))


def _pending_savepoint(flink: Flink, old_job: JobToRestart, run_name: str) -> FlinkQuestion | None:
    """Return the question for a savepoint in progress, or for the end of the job that a savepoint is stopping.

    Return None if there is neither.
    """
    for trigger_id, savepoint in _savepoint_by_trigger_id(flink, old_job, run_name).items():
        if savepoint is None or savepoint.failure is not None:
            continue
        if savepoint.location is None or old_job.taking is not StopMode.RUN_ON:
            return SavepointQuestion(
                old_job.flink, old_job.job_id, trigger_id, old_job.savepoint_directory(run_name), old_job.taking
            )
    return None


def _savepoint_of_run(flink: Flink, old_job: JobToRestart, run_name: str) -> str | None:
    """Return the URI of the savepoint that this run has taken; None if Flink does not know it."""
    for savepoint in _savepoint_by_trigger_id(flink, old_job, run_name).values():
        if savepoint is not None and savepoint.location is not None:
            return normalise(savepoint.location)
    location = savepoint_below(flink, old_job.job_id, old_job.savepoint_directory(run_name))
    return None if location is None else normalise(location)
