"""Starting a job from a snapshot, in one of the three ways; withdrawing what was started."""

from __future__ import annotations

from rescale.errors import RequestError, RescaleError
from rescale.flink.start import MAX_PARALLELISM_OPTION, Start
from rescale.orchestration.flink.deployment import Wanted, check_patch, read_deployment, redeploy
from rescale.orchestration.flink.flink_access import open_flink
from rescale.orchestration.flink.ids import ids
from rescale.orchestration.flink.kinds import HandOver, PatchDeployment, Print, RunJar
from rescale.orchestration.flink.questions import Answer, DeploymentRuns, JobEnded, JobRuns, Question
from rescale.orchestration.flink.rest import Flink


def check_hand_over(hand_over: HandOver) -> None:
    """`RequestError` if there is no such jar or deployment, or no access to it: before anything has been stopped."""
    if isinstance(hand_over, RunJar):
        if MAX_PARALLELISM_OPTION in hand_over.configuration:
            raise RequestError(
                "the configuration of the jar's job says a max parallelism, and so does the plan",
                found=f"{MAX_PARALLELISM_OPTION}={hand_over.configuration[MAX_PARALLELISM_OPTION]}",
                advice="take it out: Flink takes the old one from the snapshot, and a new one is added",
            )
        with open_flink(hand_over.flink) as flink:
            _jar_id(flink, hand_over.jar)
    elif isinstance(hand_over, PatchDeployment):
        read_deployment(hand_over)
        check_patch(hand_over)


def start_job(hand_over: HandOver, start: Start, *seed: str) -> Question | Answer:
    """Begins the start, or finds it begun; `seed` tells it from every other start. Printing is done at once."""
    if isinstance(hand_over, Print):
        return {"start": start.command}
    if isinstance(hand_over, PatchDeployment):
        before = read_deployment(hand_over).fields.max_parallelism
        maximum = before if start.max_parallelism is None else str(start.max_parallelism)
        return DeploymentRuns(hand_over, redeploy(hand_over, Wanted(start.snapshot, start.parallelism, maximum)))
    with open_flink(hand_over.flink) as flink:
        if (alive := _alive(flink, *seed)) is not None:
            return JobRuns(hand_over.flink, alive)
        jar = _jar_id(flink, hand_over.jar)
        for job_id in ids(*seed):
            job = flink.job(job_id)
            if job is None:
                _run(flink, hand_over, jar, job_id, start)
            if job is None or not job.ended or job.runs:
                return JobRuns(hand_over.flink, job_id)
    raise RequestError("the job was started too often and ended every time", path=hand_over.flink)


def running_job(hand_over: HandOver, *seed: str) -> str | None:
    """The id of what `start_job` started from a jar with this seed, unless it has ended."""
    if not isinstance(hand_over, RunJar):
        return None
    with open_flink(hand_over.flink) as flink:
        return _alive(flink, *seed)


def _alive(flink: Flink, *seed: str) -> str | None:
    """The job of this seed that has not ended.

    Flink may have forgotten those before it (`jobstore.expiration-time`).
    """
    alive = {line.job_id for line in flink.jobs() if not line.ended}
    return next((job_id for job_id in ids(*seed) if job_id in alive), None)


def withdraw_job(hand_over: HandOver, *seed: str) -> Question | None:
    """Cancels what `start_job` started from a jar with this seed; a deployment is replaced by its next start.

    None if nothing of it runs.
    """
    job_id = running_job(hand_over, *seed)
    if job_id is None or not isinstance(hand_over, RunJar):
        return None
    with open_flink(hand_over.flink) as flink:
        flink.cancel(job_id)
    return JobEnded(hand_over.flink, job_id)


def _run(flink: Flink, hand_over: RunJar, jar: str, job_id: str, start: Start) -> None:
    try:
        flink.run_jar(jar, job_id, start, hand_over.entry_class, hand_over.arguments, hand_over.configuration)
    except RescaleError:
        if flink.job(job_id) is None:  # else an earlier try, or this one, came through
            raise


def _jar_id(flink: Flink, wanted: str) -> str:
    """The id of an uploaded jar; of those with a name the one that was uploaded last."""
    jars = flink.jars()
    if wanted in jars:
        return wanted
    named = [jar for jar, name in jars.items() if name == wanted]
    if not named:
        raise RequestError(
            "the jar was not uploaded to Flink",
            path=flink.address,
            expected=f"one of {', '.join(jars)}" if jars else "an uploaded jar; there is none",
            found=wanted,
            advice="upload it (POST /jars/upload, or in Flink's web interface)",
        )
    return named[0]
