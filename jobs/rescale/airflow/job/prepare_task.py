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

from rescale.airflow.flink.job_record import stopped_job
from rescale.airflow.flink.stopping import job_to_restart_of
from rescale.airflow.forms.filled_form import request_of
from rescale.airflow.savepoint_tasks import PlaceXComs, pulled_places
from rescale.airflow.steps.earlier_tasks import LOOK_TASK, PREPARE_TASK, Summary, name_of_run, required_output
from rescale.airflow.steps.rescale_task import rescale_task
from rescale.flink_rest.client import StopMode

if TYPE_CHECKING:
    from rescale.plan.plan import Plan

log = logging.getLogger(__name__)


def _prepare(
    place_xcoms: PlaceXComs, look_output: Mapping[str, Any] | None, params: Any = None, ti: Any = None
) -> Summary:
    """Copy files of the job's checkpoints into the target while the job runs, if the result takes files unchanged."""
    old_job = job_to_restart_of(required_output(LOOK_TASK, look_output)["before"])
    if params["while_it_runs"] or old_job.taking is not StopMode.CHECKPOINT:
        log.info("nothing to do: the job is followed, or its savepoint is the source")
        return {"files": 0}
    if stopped_job(name_of_run(ti)) is not None:
        return {"files": 0}
    from rescale.airflow.live.copying_ahead import copy_ahead
    from rescale.planning.prepare import prepare

    request = request_of(params, {"source": old_job.directory, **pulled_places(place_xcoms, ti)})

    def plan_of(checkpoint: str) -> Plan:
        return prepare(replace(request, source=checkpoint), copies_ahead=True).plan

    return structs.asdict(copy_ahead(old_job, plan_of, ti))


prepare_files = rescale_task(_prepare, PREPARE_TASK, "Copy files ahead")
