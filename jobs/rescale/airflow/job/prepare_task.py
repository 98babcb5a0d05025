"""The task that copies files of a running job's checkpoint into the target, before the job is stopped.

With RocksDB and an unchanged max parallelism, the result consists of the files of the job's last checkpoint, most of
which earlier checkpoints have, too. So the tasks after the stop copy only what is new.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from rescale.airflow.flink.stopping import JobBefore, job_before_of
from rescale.airflow.forms.filled_form import request_of
from rescale.airflow.savepoint_tasks import KnownPlaces, pulled_places
from rescale.airflow.steps.earlier_tasks import LOOK, PREPARE, Summary, required_output
from rescale.airflow.steps.rescale_task import rescale_task
from rescale.flink_rest.client import StopMode

if TYPE_CHECKING:
    from rescale.plan.plan import Plan
    from rescale.planning.request.request import Request
    from rescale.report.step_results import PreparedFiles

log = logging.getLogger(__name__)

_ENOUGH_BYTES = 100_000_000
"""If more was copied than this, much may have changed meanwhile, and files of another checkpoint are copied."""

_MOST_CHECKPOINTS = 4


def _prepare(known: KnownPlaces, looked: Mapping[str, Any] | None, params: Any = None, ti: Any = None) -> Summary:
    """Copy files of the job's checkpoints into the target while the job runs, if the result will consist of them."""
    before = job_before_of(required_output(LOOK, looked)["before"])
    if params["while_it_runs"] or before.taking is not StopMode.CHECKPOINT:
        log.info("nothing to do: the source of this run is not the job's last checkpoint")
        return {"files": 0}
    from rescale.runstate.preparation import prepared_sizes

    request = request_of(params, {"source": before.directory, **pulled_places(known, ti)})
    if not prepared_sizes(_plan(before, request)):
        log.info("nothing to do: the result takes no file of the checkpoint as it is")
        return {"files": 0}
    return _copy(before, request, ti)


def _plan(before: JobBefore, request: Request) -> Plan:
    from rescale.airflow.flink.last_checkpoint import with_newest
    from rescale.planning.prepare import prepare

    return with_newest(before.directory, lambda source: prepare(replace(request, source=source), ahead=True).plan)


def _copy(before: JobBefore, request: Request, ti: Any) -> Summary:
    """Copy files of one checkpoint after another, until little of the last one was new."""
    from rescale.airflow.flink.flink_access import open_flink
    from rescale.airflow.flink.last_checkpoint import take_checkpoint, with_newest
    from rescale.airflow.live.mover import run_anywhere
    from rescale.planning.prepare import prepare
    from rescale.report.step_results import PreparedFiles
    from rescale.runstate.places import prepared_place
    from rescale.runstate.preparation import begin_preparing
    from rescale.runstate.step import Step

    def copy_from(source: str) -> PreparedFiles:
        plan = prepare(replace(request, source=source), ahead=True).plan
        begin_preparing(plan)
        step = run_anywhere(Step.PREPARE, plan.target, ["--plan", prepared_place(plan.target)], ti)
        return step.read(PreparedFiles)

    for _ in range(_MOST_CHECKPOINTS):
        with open_flink(before.flink) as flink:
            take_checkpoint(flink, before.job_id)
        done = with_newest(before.directory, copy_from)
        log.info("the target has %s files, %s bytes of them new", done.files, f"{done.new_bytes:,}")
        if done.new_bytes <= _ENOUGH_BYTES:
            break
    return structs.asdict(done)


prepare_files = rescale_task(_prepare, PREPARE, "Copy files ahead")
