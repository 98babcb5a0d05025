"""Leaves the rounds of a run to the next run, after the job was started again with its old shape."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rescale.following.leaving import leave, may_be_continued
from rescale.runstate.follower.rounds import finished_round_checkpoints
from rescale.text.errors import RescaleError

log = logging.getLogger(__name__)

_ANOTHER_TARGET_ADVICE = "trigger another run with the job's name and another target: it moves all state again"


def leave_rounds(target: str, checkpoints_directory: str, run_identity: Mapping[str, str]) -> str:
    """Leave the rounds of the run `run_identity` to another run, and return the advice to trigger it.

    `checkpoints_directory` is the directory of the followed job's checkpoints. An error is only logged, because the job
    runs again; after an error, the next run needs another target.
    """
    try:
        leave(target, checkpoints_directory, run_identity)
        return next_run_advice(target, checkpoints_directory) or _ANOTHER_TARGET_ADVICE
    except RescaleError as error:
        log.warning("the rounds cannot be left to another run: %s", error)
        return _ANOTHER_TARGET_ADVICE


def next_run_advice(target: str, checkpoints_directory: str) -> str | None:
    """Return the advice to trigger another run with this target; None if that run would be refused."""
    if not may_be_continued(target, checkpoints_directory):
        return None
    if not finished_round_checkpoints(target):
        return "trigger another run with the job's name and the same target"
    return (
        "trigger another run with the job's name, the same target and the same shape; or in a window that is open, "
        "clear all tasks of this run: it goes on with the rounds"
    )
