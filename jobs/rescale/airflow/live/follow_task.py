"""The task that follows a running job with rounds, and cuts over to the new job as soon as that is allowed.

It is one long task, whose process for rounds stays alive between rounds. If the task is killed, its next try resumes:
the files beside the target record the rounds, and the state of the run records whether the job was cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from rescale.airflow.assets import RESCALED_SAVEPOINT
from rescale.airflow.reports.report_link import ReportLink
from rescale.airflow.savepoint_tasks import PlaceXComs, pulled_places
from rescale.airflow.state_stores import task_state
from rescale.airflow.steps.earlier_tasks import FOLLOW_TASK, Summary, XComField
from rescale.airflow.steps.rescale_task import rescale_task, skip_task

_RETRIES: dict[str, Any] = {
    "retries": 50,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": False,
}
"""The task has many retries, because it may run for days. They come soon, because the job may stand still."""


def _follow(
    place_xcoms: PlaceXComs,
    closes_at: XComField | None,
    opens_at: XComField | None,
    look_output: Mapping[str, Any] | None,
    params: Any = None,
    dag_run: Any = None,
    ti: Any = None,
    task_state_store: Any = None,
    inlet_events: Any = None,
    outlet_events: Any = None,
) -> Summary:
    """Moves all state once, and then the changes of each checkpoint, until the job can be cut over in seconds."""
    if not params["while_it_runs"]:
        skip_task("the job is stopped before its state is moved")
    from rescale.airflow.live.follow_work import follow_and_cut_over

    cut_over_limits, state = (_instant(opens_at, ti), _instant(closes_at, ti)), task_state(task_state_store, ti)
    return follow_and_cut_over(
        pulled_places(place_xcoms, ti),
        cut_over_limits,
        look_output,
        params,
        dag_run,
        ti,
        state,
        inlet_events,
        outlet_events,
    )


def _instant(field: XComField | None, ti: Any) -> datetime | None:
    """Return the instant that an earlier task has determined, or None."""
    text = None if field is None else field.pull(ti)
    return None if text is None else datetime.fromisoformat(text)


follow = rescale_task(
    _follow,
    FOLLOW_TASK,
    "Follow the job, and cut over",
    inlets=[RESCALED_SAVEPOINT],
    outlets=[RESCALED_SAVEPOINT],
    links=(ReportLink(FOLLOW_TASK),),
    **_RETRIES,
)
