"""Copies files of a running job's checkpoints into the target, before the job is stopped or cut over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.last_checkpoint import take_checkpoint, with_newest_checkpoint
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.live.mover import run_in_pod_or_process
from rescale.plan.plan import Plan
from rescale.report.step_results import PreparedFiles
from rescale.runstate.places import prepared_place
from rescale.runstate.preparation import begin_preparing, prepared_sizes
from rescale.runstate.step import Step
from rescale.text.units import counted, human_bytes

log = logging.getLogger(__name__)

_FEW_NEW_BYTES = 100_000_000
"""The job is asked for further checkpoints until one has at most this many bytes in new files."""

_MOST_FURTHER_CHECKPOINTS = 4
"""Largest number of these further checkpoints."""

_NO_FILES = PreparedFiles(files=0, bytes=0, new_files=0, new_bytes=0)


def copy_ahead(old_job: JobToRestart, plan_of: Callable[[str], Plan], ti: Any) -> PreparedFiles:
    """Copy the files of the job's newest checkpoint, then the new files of further ones, until one has few new bytes.

    `plan_of` returns the plan for copies from a checkpoint. Returns the result of the last copy. Copies nothing if the
    result takes no file unchanged.
    """

    def copy_from(checkpoint: str) -> PreparedFiles:
        plan = plan_of(checkpoint)
        if not prepared_sizes(plan):
            return _NO_FILES
        begin_preparing(plan)
        result_document = run_in_pod_or_process(Step.PREPARE, plan.target, ["--plan", prepared_place(plan.target)], ti)
        return result_document.read(PreparedFiles)

    prepared_files = with_newest_checkpoint(old_job.directory, copy_from)
    if not prepared_files.files:
        log.info("nothing to copy ahead: the result takes no file of the checkpoint unchanged")
        return prepared_files
    for _ in range(_MOST_FURTHER_CHECKPOINTS):
        with open_flink(old_job.flink) as flink:
            take_checkpoint(flink, old_job.job_id)
        prepared_files = with_newest_checkpoint(old_job.directory, copy_from)
        files_text, new_bytes_text = counted(prepared_files.files, "file"), human_bytes(prepared_files.new_bytes)
        log.info(
            "the target has %s of the job's newest checkpoint; %s were copied just now",
            files_text,
            new_bytes_text,
        )
        if prepared_files.new_bytes <= _FEW_NEW_BYTES:
            break
    return prepared_files
