"""Taking a job's savepoint, and the way back: what was known before the job was stopped starts it again.

Whoever stops a job must be able to start it. So the job is looked at first, and what its start will take is stored; a
hand-over that cannot start it (the printed command) allows no stop. The way back is taken from the *source* savepoint
at the old shape, once nothing runs that was started from the result.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from rescale.errors import RequestError, RescaleError, StoreError
from rescale.flink.start import Start
from rescale.orchestration.flink.deployment import Wanted, read_deployment, redeploy
from rescale.orchestration.flink.flink_access import open_flink
from rescale.orchestration.flink.ids import ids
from rescale.orchestration.flink.kinds import HandOver, PatchDeployment, Print
from rescale.orchestration.flink.questions import Answer, DeploymentRuns, Question, SavepointTaken, savepoint_below
from rescale.orchestration.flink.rest import Flink, Savepoint, SavepointFormat, Taking
from rescale.orchestration.flink.running_job import JobLine
from rescale.orchestration.flink.starting import check_hand_over, running_job, start_job, withdraw_job
from rescale.storage.locations import join, normalise

log = logging.getLogger(__name__)

_MOST_TRIES = 20
"""Savepoints that a run may begin while Flink remembers them: it is asked for each at every look."""

SAY_NATIVE = 'say "native" under "Format of the savepoint"'

_NO_CANONICAL = ("does not support CANONICAL savepoints", "UnsupportedOperationException: Not supported yet.")
"""Why tasks fail that Flink asks for one: on ForSt (`StreamTask`); with asynchronous state
(`StreamOperatorStateHandler`)."""


class JobBefore(msgspec.Struct, frozen=True):
    """A running job, and all that is needed to take its savepoint and to start it again.

    `directory` is where savepoints go, `parallelism` the job's own; `deployment` are the old fields of the
    FlinkDeployment if it is handed over to one, and `nonce` that of its last redeployment.
    """

    flink: str
    job_id: str
    name: str
    taking: Taking
    directory: str
    parallelism: int
    hand_over: HandOver
    deployment: Wanted | None = None
    nonce: int | None = None
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL

    @property
    def is_replaced(self) -> bool:
        """Whether the deployment was redeployed since: the job is gone, and perhaps nobody can be asked about it."""
        where = self.hand_over
        return isinstance(where, PatchDeployment) and read_deployment(where).nonce != self.nonce

    def own_directory(self, run: str) -> str:
        """Where the savepoint of this run goes: what lies there is ours."""
        return join(normalise(self.directory), f"rescale-{next(ids('directory', run, self.job_id))[:12]}")


def job_before_of(document: Mapping[str, Any]) -> JobBefore:
    """The mirror of `msgspec.to_builtins`."""
    return msgspec.convert(document, JobBefore)


def refuse_no_way_back(taking: Taking, hand_over: HandOver) -> None:
    """`RequestError` if the job would be stopped, and nothing could start it again."""
    if taking is not Taking.RUN_ON and isinstance(hand_over, Print):
        raise RequestError(
            "nothing could start the job again if the rescale failed after it was stopped",
            expected="a hand-over to a session cluster or to a FlinkDeployment",
            found="a command that is printed",
            advice="let the job run on while its savepoint is taken, or name a hand-over",
        )


def look_at_job(
    flink: str,
    job: str,
    taking: Taking,
    directory: str,
    hand_over: HandOver,
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL,
) -> JobBefore:
    """The job with this id or name; `RequestError` if it has ended, or could not be started again.

    `flink` is an address or the id of an Airflow connection.
    """
    refuse_no_way_back(taking, hand_over)
    check_hand_over(hand_over)
    with open_flink(flink) as cluster:
        line = _find(cluster, job)
        if line.ended:
            raise RequestError(
                "the job does not run",
                path=cluster.address,
                expected="a job that runs",
                found=f"{job}: {line.state}",
                advice="name it by its name: a job has another id whenever it is started",
            )
        found = cluster.job(line.job_id)
        if found is None or line.state != "RUNNING":
            raise StoreError("the job does not run just now", path=cluster.address, found=line.state)
        parallelism = cluster.default_parallelism(line.job_id) or found.parallelism
    before = JobBefore(
        flink,
        line.job_id,
        line.name,
        taking,
        normalise(directory),
        parallelism,
        hand_over,
        savepoint_format=savepoint_format,
    )
    return _with_deployment(before, hand_over) if isinstance(hand_over, PatchDeployment) else before


def _with_deployment(before: JobBefore, where: PatchDeployment) -> JobBefore:
    """With what the FlinkDeployment says as yet; `RequestError` if it is that of another job."""
    deployment = read_deployment(where)
    if deployment.job_id not in (None, before.job_id):
        raise RequestError(
            "the job is not that of the FlinkDeployment",
            path=f"{where.namespace}/{where.name}",
            expected=f"job {before.job_id}",
            found=deployment.job_id,
        )
    return msgspec.structs.replace(before, deployment=deployment.fields, nonce=deployment.nonce)


def take_savepoint(before: JobBefore, run: str) -> Question:
    """Begins the savepoint, or finds the one that an earlier try of this run began; one that failed is not the last."""
    directory = before.own_directory(run)
    with open_flink(before.flink) as flink:
        begun = _begun(flink, before, run)
        trigger_id = next((one for one, known in begun.items() if known is not None and known.failure is None), None)
        if trigger_id is None:
            if any(begun.values()) and before.savepoint_format is SavepointFormat.CANONICAL:
                _refuse_another(flink, before)
            trigger_id = next((one for one, known in begun.items() if known is None), None)
            if trigger_id is None:
                raise RescaleError("Flink could not take the savepoint", path=directory, found="too many tries")
            _trigger(flink, before, trigger_id, directory)
    return SavepointTaken(before.flink, before.job_id, trigger_id, directory, before.taking)


def _begun(flink: Flink, before: JobBefore, run: str) -> dict[str, Savepoint | None]:
    """What Flink tells of each savepoint that this run may have begun, by trigger id; None for one it does not know.

    It forgets each some time after its end (`rest.async.store-duration`), so one that goes on may come after one that
    it does not know.
    """
    tries = islice(ids("savepoint", run), _MOST_TRIES)
    return {trigger_id: flink.savepoint(before.job_id, trigger_id) for trigger_id in tries}


def _trigger(flink: Flink, before: JobBefore, trigger_id: str, directory: str) -> None:
    """Nothing if the job has ended: perhaps by this savepoint, which Flink has forgotten."""
    job = flink.job(before.job_id)
    if job is None or job.ended:
        return
    if not job.runs:
        raise StoreError("the job does not run just now", path=flink.address, found=job.state)
    flink.trigger_savepoint(before.job_id, trigger_id, directory, before.taking, before.savepoint_format)
    log.info("Flink takes a %s savepoint", before.savepoint_format.value)


def _refuse_another(flink: Flink, before: JobBefore) -> None:
    """`RequestError` if Flink can take no canonical savepoint of the job, which fails whenever it is asked for one."""
    why = flink.why_failed(before.job_id)
    if why is not None and any(words in why for words in _NO_CANONICAL):
        raise RequestError(
            "Flink cannot take a canonical savepoint of this job, which failed when it was asked for one",
            path=flink.address,
            operator=before.name,
            found=why,
            advice=f"look whether the job runs again, start it from its last checkpoint if not, and {SAY_NATIVE}",
        )


def hand_job_over(hand_over: HandOver, start: Start, run: str, before: JobBefore | None) -> Question | Answer:
    """Starts the job from the result, at its new shape; `before` is the job whose savepoint this run has taken."""
    if before is not None and not isinstance(hand_over, Print):
        _refuse_two(before, start, run)
    return start_job(hand_over, start, *_seed(run, before))


def _refuse_two(before: JobBefore, start: Start, run: str) -> None:
    """`RequestError` if the job still runs, or runs again because this run has gone back."""
    if isinstance(before.hand_over, PatchDeployment) and before.is_replaced:
        snapshot = read_deployment(before.hand_over).fields.snapshot
        running = None if snapshot == start.snapshot else f"{before.name}, from {snapshot}"
    else:
        with open_flink(before.flink) as flink:
            job = flink.job(before.job_id)
        alive = before.job_id if job is not None and not job.ended else None
        alive = alive or running_job(before.hand_over, *_back(run, before))
        running = alive and f"{before.name} ({alive})"
    if running is not None:
        raise RequestError(
            "the job still runs: two would do its work",
            path=before.flink,
            found=running,
            advice="stop it when its savepoint is taken, or let the command be printed",
        )


def clear_the_way(before: JobBefore, run: str) -> Question | None:
    """What must come to its end before the way back: a savepoint that is being taken, a job started from the result."""
    if before.is_replaced:
        return None
    with open_flink(before.flink) as flink:
        job = flink.job(before.job_id)
        if job is not None and not job.ended:
            return _savepoint_under_way(flink, before, run)
    return withdraw_job(before.hand_over, *_seed(run, before))


def go_back(before: JobBefore, run: str, savepoint: str | None) -> Question | Answer:
    """Starts the job again from the savepoint that was taken of it (None: as Flink tells), at its old shape.

    A job that still runs was never stopped: nothing is done then.
    """
    if savepoint is None or not before.is_replaced:
        with open_flink(before.flink) as flink:
            job = flink.job(before.job_id)
            if job is not None and not job.ended:
                return {"job": before.job_id, "name": before.name, "went_back": False}
            savepoint = savepoint or _taken(flink, before, run)
    if savepoint is None:
        raise RescaleError(
            "the job has ended, and no savepoint of this run is known",
            path=before.own_directory(run),
            found=f"{before.name} ({before.job_id})",
            advice="if another run has stopped it, that one starts it; else start it from its last checkpoint, or from "
            "the savepoint if there is one in this directory",
        )
    if isinstance(before.hand_over, PatchDeployment) and before.deployment is not None:
        wanted = Wanted(savepoint, before.deployment.parallelism, before.deployment.max_parallelism)
        return DeploymentRuns(before.hand_over, redeploy(before.hand_over, wanted))
    start = Start(savepoint, before.parallelism, None)
    log.info("start the job: %s", start.command)
    return start_job(before.hand_over, start, *_back(run, before))


def _seed(run: str, before: JobBefore | None) -> tuple[str, ...]:
    return ("job", run, before.job_id if before is not None else "")


def _back(run: str, before: JobBefore) -> tuple[str, ...]:
    return ("back", *_seed(run, before))


def _find(flink: Flink, job: str) -> JobLine:
    """A job that is named by its id, or by its name if only one that runs has it.

    In the overview states are of now; details of a job may be seconds old (`web.refresh-interval`).
    """
    jobs = flink.jobs()
    for line in jobs:
        if line.job_id == job:
            return line
    alive = [line for line in jobs if not line.ended]
    named = [line for line in alive if line.name == job]
    if len(named) != 1:
        raise RequestError(
            "there are several jobs of this name" if named else "there is no such job",
            path=flink.address,
            expected="the id of a job, or the name of a single one: "
            + (", ".join(f"{line.name} ({line.job_id})" for line in alive) or "none runs"),
            found=job,
        )
    return named[0]


def _savepoint_under_way(flink: Flink, before: JobBefore, run: str) -> Question | None:
    for trigger_id, known in _begun(flink, before, run).items():
        if known is None or known.failure is not None:
            continue
        if known.location is None or before.taking is not Taking.RUN_ON:
            return SavepointTaken(before.flink, before.job_id, trigger_id, before.own_directory(run), before.taking)
    return None


def _taken(flink: Flink, before: JobBefore, run: str) -> str | None:
    for known in _begun(flink, before, run).values():
        if known is not None and known.location is not None:
            return normalise(known.location)
    location = savepoint_below(flink, before.job_id, before.own_directory(run))
    return None if location is None else normalise(location)
