"""Checks of a Flink cluster by its REST API: its release, and how its running jobs make checkpoints."""

from __future__ import annotations

from contextlib import suppress

from rescale.doctor.checks import CheckList, PendingCheck
from rescale.flink.release_line import RELEASE_LINES, ReleaseLine
from rescale.flink_rest.address import address_of
from rescale.flink_rest.client import ADDRESS_WITHOUT_LOGIN_ADVICE, Flink
from rescale.flink_rest.responses import CheckpointConfig, CompletedCheckpoint
from rescale.flink_rest.running_job import JobOverview
from rescale.text.errors import RescaleError
from rescale.text.units import counted, human_bytes

MOST_CHECKED_JOBS = 20
"""Largest number of running jobs whose checkpoints are checked."""

INCREMENTAL_OPTIONS = ("execution.checkpointing.incremental", "state.backend.incremental")
"""`CheckpointingOptions.INCREMENTAL_CHECKPOINTS`, and its name before Flink 2."""

_SUBJECT = "Flink"


def check_flink(checks: CheckList, address: str) -> None:
    """Check the cluster at an address of Flink's REST API. Raises `RequestError` if it is not such an address."""
    with Flink(address_of(address, ADDRESS_WITHOUT_LOGIN_ADVICE)) as flink:
        _check_release(checks, flink)
        if checks.unreachable:
            return
        tried = f"GET {flink.address}/jobs/overview"
        with checks.trying(_SUBJECT, tried, "a DAG finds its job by its name with this request") as check:
            running_jobs = [job for job in flink.jobs() if not job.has_ended]
            check.ok(counted(len(running_jobs), "running job"), "jobs can be found")
            options = _options(flink)
            for job in running_jobs[:MOST_CHECKED_JOBS]:
                _check_job(checks, flink, job, options)
            if len(running_jobs) > MOST_CHECKED_JOBS:
                unchecked_text = counted(len(running_jobs) - MOST_CHECKED_JOBS, "job")
                check.warn(f"{unchecked_text} not checked", f"only {MOST_CHECKED_JOBS} jobs are checked", None)


def _check_release(checks: CheckList, flink: Flink) -> None:
    tried = f"GET {flink.address}/overview"
    checks.unreachable = False
    with checks.trying(_SUBJECT, tried, "DAGs, and the checks of jobs, need Flink's REST API") as check:
        release = flink.version()
        known_releases_text = f"{RELEASE_LINES[0]} to {RELEASE_LINES[-1]}"
        release_line = None
        with suppress(ValueError):
            release_line = ReleaseLine.parse(release)
        if release_line in RELEASE_LINES:
            check.ok(f"Flink {release}", "its snapshots can be read, and it restores results")
        elif release_line is not None and release_line < RELEASE_LINES[0]:
            meaning = f"snapshots of Flink 1.7 and later are read; restores are known for {known_releases_text}"
            check.warn(f"Flink {release}", meaning, "try the restore of a result before you rely on it")
        else:
            meaning = f"this release is unknown; known releases are {known_releases_text}"
            check.warn(f"Flink {release}", meaning, "look for a newer version of Rescale")


def _options(flink: Flink) -> dict[str, str]:
    """Return the options of the cluster; none if its REST API does not show them."""
    with suppress(RescaleError):
        return flink.configuration()
    return {}


def _check_job(checks: CheckList, flink: Flink, job: JobOverview, options: dict[str, str]) -> None:
    subject = f"Flink job {job.name}"
    tried = f"GET {flink.address}/jobs/{job.job_id}/checkpoints/config"
    with checks.trying(subject, tried, "it is unknown how the job makes checkpoints") as check:
        config = flink.checkpoint_config(job.job_id)
        if config is None or config.interval is None or not 0 < config.interval < (1 << 63) - 1:
            meaning = "savepoints can be rescaled; rescale follow, and checks before a job is stopped, need checkpoints"
            check.warn("no periodic checkpoints", meaning, "set execution.checkpointing.interval")
            return
        _check_retention(check, config)
        _check_alignment(check, config)
        last_checkpoint = flink.last_checkpoint(job.job_id)
        tried = f"GET {flink.address}/jobs/{job.job_id}/checkpoints and {flink.address}/jobmanager/config"
        _check_increments(PendingCheck(checks, subject, tried), config, last_checkpoint, options)


def _check_retention(check: PendingCheck, config: CheckpointConfig) -> None:
    if config.externalization.enabled and not config.externalization.delete_on_cancellation:
        check.ok("checkpoints are retained", "the last checkpoint remains when the job is cancelled")
        return
    check.warn(
        "checkpoints are deleted when the job is cancelled",
        "rescale follow --finish then finds no last checkpoint; a savepoint works as always",
        "set execution.checkpointing.externalized-checkpoint-retention to RETAIN_ON_CANCELLATION",
    )


def _check_alignment(check: PendingCheck, config: CheckpointConfig) -> None:
    if not config.unaligned_checkpoints:
        check.ok("aligned checkpoints", "checkpoints hold no records in flight, so they can be rescaled")
        return
    check.warn(
        "unaligned checkpoints",
        "a checkpoint with records in flight is refused",
        "take a savepoint; or set execution.checkpointing.aligned-checkpoint-timeout, so that most checkpoints are "
        "aligned, or execution.checkpointing.unaligned.enabled to false",
    )


def _check_increments(
    check: PendingCheck, config: CheckpointConfig, last_checkpoint: CompletedCheckpoint | None, options: dict[str, str]
) -> None:
    """Check whether checkpoints are incremental, by the last checkpoint and the configuration of the cluster."""
    written_bytes = None if last_checkpoint is None else last_checkpoint.checkpointed_size
    wrote_less = (
        last_checkpoint is not None and written_bytes is not None and written_bytes < last_checkpoint.state_size
    )
    is_configured = any(options.get(name, "").lower() == "true" for name in INCREMENTAL_OPTIONS)
    backend_name = config.state_backend or "an unknown state backend"
    sizes_text = (
        f"the last one wrote {human_bytes(written_bytes or 0)} of {human_bytes(last_checkpoint.state_size)}"
        if last_checkpoint
        else "none yet"
    )
    is_incremental = is_configured or wrote_less
    result = f"{backend_name}, {'incremental' if is_incremental else 'not known to be incremental'} ({sizes_text})"
    if is_incremental and "RocksDB" in backend_name:
        check.ok(result, "rescale follow and --base can move only what changed")
        return
    check.warn(
        result,
        "rescale follow and --base move all state of such checkpoints each time, or refuse them; a savepoint works",
        "for less downtime, use RocksDB and set execution.checkpointing.incremental to true",
    )
