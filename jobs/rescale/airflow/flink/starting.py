"""Starts a job from a snapshot: runs a jar, patches a FlinkDeployment, or returns the command for a start by hand.

Cancels a job that it has started from a jar.
"""

from __future__ import annotations

from contextlib import suppress

from rescale.airflow.flink.deployment import DeploymentSpec, check_patch, read_deployment, redeploy
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.ids import derived_ids, running_job_id
from rescale.airflow.flink.questions import (
    Answer,
    FlinkQuestion,
    JobEndQuestion,
    JobStartQuestion,
    RedeploymentQuestion,
)
from rescale.airflow.hand_overs import HandOver, PatchDeployment, Print, RunJar
from rescale.flink.start import MAX_PARALLELISM_OPTION, Start
from rescale.flink_rest.client import Flink, PackagedProgram
from rescale.text.errors import RequestError, RescaleError

_FIRST_RELEASE_WITH_JAR_OPTIONS = (1, 17)
"""First release line of Flink with the field `flinkConfiguration` in `JarRequestBody`."""


def check_hand_over(hand_over: HandOver) -> None:
    """Raise `RequestError`, before a job is stopped, if the jar or resource could not start it in a new shape."""
    if isinstance(hand_over, RunJar):
        if MAX_PARALLELISM_OPTION in hand_over.configuration:
            raise RequestError(
                "the Flink options of the jar set the max parallelism, which the plan sets",
                found=f"{MAX_PARALLELISM_OPTION}={hand_over.configuration[MAX_PARALLELISM_OPTION]}",
                advice="remove the option: the run sets a new max parallelism; an unchanged one is in the snapshot",
            )
        with open_flink(hand_over.flink) as flink:
            _refuse_old_release(flink)
            _program_of(flink, hand_over)
    elif isinstance(hand_over, PatchDeployment):
        check_patch(hand_over)


def _refuse_old_release(flink: Flink) -> None:
    """Raise `RequestError` if the cluster's release is too old to start a jar with `flinkConfiguration`."""
    # Imports modules about metadata that no DAG needs when it is parsed.
    from rescale.flink.release_line import ReleaseLine

    release = flink.version()
    with suppress(ValueError):
        if ReleaseLine.parse(release) < _FIRST_RELEASE_WITH_JAR_OPTIONS:
            raise RequestError(
                "this release of Flink cannot start a jar with options, so the run could not start the job again",
                path=flink.address,
                expected=f"Flink {ReleaseLine(*_FIRST_RELEASE_WITH_JAR_OPTIONS)} or newer",
                found=f"Flink {release}",
                advice="choose to print the command, and start the job by hand",
            )


def planned_vertices(flink: Flink, hand_over: RunJar, parallelism: int) -> dict[str, str]:
    """Return the vertices that the jar's job would have at a parallelism: their descriptions, by vertex id."""
    return flink.jar_vertex_descriptions(_program_of(flink, hand_over), parallelism)


def start_job(hand_over: HandOver, start: Start, *seed: str) -> FlinkQuestion | Answer:
    """Start a job unless an earlier try started it, and return the question for its start.

    For `Print`, start nothing, and return the answer with the command. `seed` identifies this start of the job: all
    tries have the same seed, and every other start has another one.
    """
    if isinstance(hand_over, Print):
        return {"start": start.command}
    if isinstance(hand_over, PatchDeployment):
        max_parallelism_before = read_deployment(hand_over).spec.max_parallelism
        max_parallelism = max_parallelism_before if start.max_parallelism is None else str(start.max_parallelism)
        new_spec = DeploymentSpec(start.snapshot, start.parallelism, max_parallelism, no_claim=start.refers)
        return RedeploymentQuestion(hand_over, redeploy(hand_over, new_spec))
    with open_flink(hand_over.flink) as flink:
        if (running_id := running_job_id(flink, *seed)) is not None:
            return JobStartQuestion(hand_over.flink, running_id)
        program = _program_of(flink, hand_over)
        for job_id in derived_ids(*seed):
            job = flink.job(job_id)
            if job is None:
                _run_jar(flink, program, job_id, start)
            if job is None or not job.has_ended or job.runs:
                return JobStartQuestion(hand_over.flink, job_id)
    raise RequestError("the job was started many times, and ended every time", path=hand_over.flink)


def running_job(hand_over: HandOver, *seed: str) -> str | None:
    """Return the id of the job that `start_job` with this seed started from a jar; None if it does not run."""
    if not isinstance(hand_over, RunJar):
        return None
    with open_flink(hand_over.flink) as flink:
        return running_job_id(flink, *seed)


def withdraw_job(hand_over: HandOver, *seed: str) -> FlinkQuestion | None:
    """Cancel the job that `start_job` with this seed started from a jar; return the question for its end.

    Return None if no such job runs. A FlinkDeployment needs no cancel: its next start replaces the job.
    """
    job_id = running_job(hand_over, *seed)
    if job_id is None or not isinstance(hand_over, RunJar):
        return None
    with open_flink(hand_over.flink) as flink:
        flink.cancel(job_id)
    return JobEndQuestion(hand_over.flink, job_id)


def _run_jar(flink: Flink, program: PackagedProgram, job_id: str, start: Start) -> None:
    try:
        flink.run_jar(program, job_id, start)
    except RescaleError:
        if flink.job(job_id) is None:  # if Flink knows the job, this try or an earlier one has started it
            raise


def _program_of(flink: Flink, hand_over: RunJar) -> PackagedProgram:
    """Return the program of a hand-over, with the id of the uploaded jar.

    Of several jars with the same file name, it takes the newest. Raises `RequestError` if the jar is not uploaded.
    """
    jars, wanted_jar = flink.jar_name_by_id(), hand_over.jar
    jar_ids = [jar_id for jar_id, name in jars.items() if wanted_jar in (jar_id, name)]
    if not jar_ids:
        raise RequestError(
            "the jar is not uploaded to Flink",
            path=flink.address,
            expected=f"one of {', '.join(jars)}" if jars else "an uploaded jar (there is none)",
            found=wanted_jar,
            advice="upload it (POST /jars/upload, or in Flink's web interface)",
        )
    jar_id = wanted_jar if wanted_jar in jars else jar_ids[0]
    return PackagedProgram(jar_id, hand_over.entry_class, hand_over.arguments, hand_over.configuration)
