"""Starts of a followed job: in another directory, or in the same one with checkpoint numbers that restarted.

A job that is started again from a checkpoint or savepoint continues the numbers of its checkpoints, in the directory of
its new job id. A start without state, or from an older snapshot, has lower numbers. With high availability, all starts
may have one directory.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescale.following.leaving import may_be_discarded
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import (
    UNKNOWN_CHECKPOINTS,
    FollowedJob,
    Round,
    end_following,
    followed_job,
    newest_round,
    remove_rounds,
    round_target,
)
from rescale.runstate.pinned_snapshots import open_base
from rescale.runstate.removal import discard
from rescale.snapshot.databases.unshared_tables import backend_texts_by_subtask
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.discovery import (
    METADATA,
    checkpoint_directory,
    complete_checkpoints,
    newest_complete_checkpoint,
    refuse_two_starts,
)
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import join
from rescale.storage.store import exists, open_store
from rescale.text.advice import Advice, command
from rescale.text.errors import RequestError, SnapshotError
from rescale.text.names import quoted
from rescale.text.units import duration

_DIRECTORY_ADVICE = "check that the job runs, and that its checkpoints are in this directory"
_STARTED_AGAIN_ADVICE = (
    "if the job was started again, its checkpoints are elsewhere: follow them there, with this target"
)

_LONG_WAIT_SECONDS = 600
"""Time without a checkpoint after which a follower says what the reason may be."""

_MOST_ATTEMPTS = 5
"""Largest number of attempts to open the newest checkpoint: Flink may delete it after the next one is complete."""


def last_checkpoint_number(checkpoints: str) -> int:
    """Return the number of the last checkpoint in a directory.

    Raises `RequestError` if there is none, or if two starts of a job have checkpoints there.
    """
    checkpoint_numbers = complete_checkpoints(checkpoints)
    if not checkpoint_numbers:
        raise RequestError(
            "the job has left no checkpoint",
            path=checkpoints,
            expected="a complete checkpoint, chk-N with _metadata",
            advice="a job keeps its last checkpoint only with "
            "execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION; restore the job from a "
            "savepoint, with that option, and follow it again; or if it was started again since, name the directory of "
            "its new checkpoints",
        )
    refuse_two_starts(checkpoints, checkpoint_numbers)
    return checkpoint_numbers[-1]


def have_numbers_restarted(checkpoints: str, newest: Round) -> bool:
    """Return whether the newest checkpoint was written after that of the newest round, though its number is lower."""
    number = newest_complete_checkpoint(checkpoints)
    return number is not None and number < newest.checkpoint and _is_later(checkpoints, number, newest)


def forget_earlier_start(pins: Pins) -> str | None:
    """Remove all rounds and pins of a target if the job's checkpoint numbers restarted, and return a sentence on it.

    Returns None if they did not restart. The checkpoint numbers of rounds must rise, so the next round is a new base.
    Pins are removed first, then rounds: if the process is killed in between, the next call still finds a round, and
    sees that the numbers restarted.
    """
    newest = newest_round(pins.target)
    if newest is None or not have_numbers_restarted(pins.checkpoints, newest):
        return None
    pins.remove_all_but(())
    remove_rounds(pins.target, kept_checkpoints=(), kept_document_count=0)
    return (
        f"the checkpoint numbers in {pins.checkpoints} restarted below {newest.checkpoint}, so the job was started "
        "without its last state: the rounds of the earlier start are removed, and the next round is a new base"
    )


def _is_later(checkpoints: str, number: int, newest: Round) -> bool:
    """Return whether a checkpoint was written after that of the newest round; False if one time is unknown."""
    uri = join(checkpoint_directory(checkpoints, number), METADATA)
    write_time = open_store(uri).modification_time(uri)
    return write_time is not None and newest.taken is not None and write_time.timestamp() > newest.taken


def refuse_no_checkpoint_directory(checkpoints: str) -> None:
    """Raise `RequestError` if `checkpoints` is a snapshot or a file, where no checkpoint would ever appear."""
    for uri in (checkpoints, join(checkpoints, METADATA)):
        if exists(uri):
            raise RequestError(
                "this is not a directory with the checkpoints of a job",
                path=checkpoints,
                expected="a directory in which the job makes its checkpoints (chk-N)",
                found=f"the file {uri}",
                advice=Advice("name the directory above the checkpoint; for a single snapshot: ", command("run")),
            )


def take_over(target: str, job: FollowedJob, newest: Round, allow_prefixes: Sequence[str]) -> bool:
    """Let a target with rounds follow a later start of its job, whose checkpoints are in another directory.

    Returns False and changes nothing if the target has no follower, or one for the same directory or with other
    options. Raises `RequestError` unless the later start has a newer checkpoint than the newest round, and both
    checkpoints have a RocksDB backend with the same id, which a restore keeps. Without this check, the base of another
    job could replace the rounds. An unpublished last round of the earlier start is discarded.
    """
    current_job = followed_job(target)
    if (
        current_job is None
        or current_job.options != job.options
        or current_job.checkpoints in (UNKNOWN_CHECKPOINTS, job.checkpoints)
    ):
        return False
    _refuse_unrelated_job(target, newest, job, allow_prefixes)
    if may_be_discarded(target, current_job):
        discard(target, keeps_follower=True)
    end_following(target)
    return True


def _refuse_unrelated_job(target: str, newest: Round, job: FollowedJob, allow_prefixes: Sequence[str]) -> None:
    advice = Advice("name another target, or remove what that follower left: ", command("discard", quoted(target)))
    number, later_snapshot = _open_newest(job.checkpoints, allow_prefixes)
    if later_snapshot is None:
        evidence = "no complete checkpoint"
        advice = Advice("wait for a checkpoint if the job was just started again; otherwise ", advice)
    elif not _is_later(job.checkpoints, number, newest):
        evidence = f"chk-{number}, which was written before that checkpoint"
    elif not _have_common_backends(
        open_base(round_target(target, newest.checkpoint), allow_prefixes).source_snapshot, later_snapshot
    ):
        evidence = f"chk-{number}, which has other state backends"
    else:
        return
    raise RequestError(
        "the target has rounds of a job in another directory, and nothing shows that this is a later start of that job",
        path=job.checkpoints,
        expected=f"the state backends of checkpoint {newest.checkpoint}, from which the newest round was made",
        found=evidence,
        advice=advice,
    )


def _have_common_backends(earlier: Snapshot, later: Snapshot) -> bool:
    later_backends = {operator.operator_id: backend_texts_by_subtask(operator) for operator in later.operators}
    return any(
        backend_texts_by_subtask(operator).items() & later_backends.get(operator.operator_id, {}).items()
        for operator in earlier.operators
    )


def waiting_sentence(checkpoints: str, newest_number: int, checkpoint_numbers: Sequence[int], seconds: float) -> str:
    """Return a sentence on a follower that has waited `seconds` for a checkpoint after `newest_number` (-1: for any).

    `checkpoint_numbers` are the numbers of the complete checkpoints, and none is above `newest_number`. The sentence is
    empty if the job merely has to complete another checkpoint, and has had little time for it.
    """
    if newest_number == -1:
        return f"waiting for the first complete checkpoint in {checkpoints}: {_DIRECTORY_ADVICE}"
    waiting_clause = f"waiting for a checkpoint after {newest_number} in {checkpoints}"
    if not checkpoint_numbers:
        return f"{waiting_clause}, which has no complete checkpoint: {_DIRECTORY_ADVICE}; {_STARTED_AGAIN_ADVICE}"
    if checkpoint_numbers[-1] < newest_number:
        return (
            f"{waiting_clause}, whose newest one is {checkpoint_numbers[-1]}: check that the job runs, and that no "
            f"checkpoint was removed; {_STARTED_AGAIN_ADVICE}"
        )
    if seconds > _LONG_WAIT_SECONDS:
        return f"{waiting_clause}, for {duration(_LONG_WAIT_SECONDS)} now; {_STARTED_AGAIN_ADVICE}"
    return ""


def _open_newest(checkpoints: str, allow_prefixes: Sequence[str]) -> tuple[int, Snapshot | None]:
    """Open a running job's newest complete checkpoint; return (number, snapshot), or (-1, None) if there is none."""
    for attempt in range(_MOST_ATTEMPTS):
        checkpoint_numbers = complete_checkpoints(checkpoints)
        if not checkpoint_numbers:
            break
        refuse_two_starts(checkpoints, checkpoint_numbers)
        try:
            return checkpoint_numbers[-1], open_snapshot(
                checkpoint_directory(checkpoints, checkpoint_numbers[-1]), allow_prefixes
            )
        except SnapshotError:
            if attempt == _MOST_ATTEMPTS - 1 or newest_complete_checkpoint(checkpoints) == checkpoint_numbers[-1]:
                raise
    return -1, None
