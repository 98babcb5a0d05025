"""Opening and closing task of a window's run: check whether there is something to do, and record what was done.

The state of the window's asset records what was rescaled last, because it outlives runs. A run that finds nothing newer
is skipped. A run that starts after the window has closed is skipped, too, unless it was triggered by hand and its form
allows that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Asset, TriggerRule

from rescale.airflow.flink.job_record import stopped_job
from rescale.airflow.forms.filled_form import refuse_unknown_fields
from rescale.airflow.state_stores import window_state
from rescale.airflow.steps.earlier_tasks import (
    FOLLOW_TASK,
    OPEN_TASK,
    PLAN_TASK,
    Summary,
    name_of_run,
    output_of_any,
    required_output,
)
from rescale.airflow.steps.rescale_task import rescale_task, skip_task
from rescale.airflow.windows.closing import WindowHours
from rescale.airflow.windows.targets import pattern_fault, target_of
from rescale.airflow.windows.window import OUTSIDE_HOURS, Window
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError

log = logging.getLogger(__name__)

CLOSE_TASK = "close_window"

_SCHEDULED_RUNS = ("scheduled", "backfill")
"""Types of runs that begin by the schedule (`DagRunType`).

All other runs are triggered: in the UI, over REST, by `TriggerDagRunOperator`, or by materialising the window's
asset.
"""

_LAST_RESCALED_KEY = "last"


def open_window(window: Window, asset: Asset) -> Any:
    """Return the task that determines the target of the run, its source if there is no job, and the closing time."""

    def check_hours(params: Any = None, dag: Any = None, dag_run: Any = None, asset_state_store: Any = None) -> Summary:
        """Returns target, hours and newest savepoint; skips the run if the window is closed or nothing is new."""
        refuse_unknown_fields(params, dag.params)  # checked first: a skipped run would not show a mistake in its form
        last_rescaled = (
            window_state(asset_state_store, dag.dag_id).get(_LAST_RESCALED_KEY) if "source" in params else None
        )
        return opened_window(window.name, window.hours, params, dag_run, last_rescaled, datetime.now(UTC))

    return rescale_task(check_hours, OPEN_TASK, "Is the window open?", inlets=[asset])()


def close_window(asset: Asset) -> Any:
    """Return the task that records what was rescaled, and adds the event of the result to the window's asset.

    Its only upstream tasks are those that publish the result or hand the job over. If `open_window` were an upstream
    task, its success alone would satisfy the trigger rule, even in a run with nothing to do.
    """

    def record_result(
        params: Any = None,  # noqa: ARG001
        ti: Any = None,
        asset_state_store: Any = None,
        inlet_events: Any = None,
        outlet_events: Any = None,
    ) -> Summary:
        """Records what was rescaled; the next run looks for something newer."""
        from rescale.airflow.savepoint_work import ALREADY_ANNOUNCED, add_event, published_plan

        plan = published_plan(output_of_any(ti, PLAN_TASK, FOLLOW_TASK))
        window_output: Summary = required_output(OPEN_TASK, ti.xcom_pull(task_ids=OPEN_TASK))
        rescaled = {name: value for name, value in window_output.items() if name not in ("opens", "closes")}
        state_store = window_state(asset_state_store, ti.dag_id)
        # An older run may run again because somebody has cleared it.
        if "written" in rescaled and _is_newer(rescaled, state_store.get(_LAST_RESCALED_KEY)):
            state_store.set(_LAST_RESCALED_KEY, rescaled)
        if not add_event(plan, asset, inlet_events, outlet_events):
            skip_task(ALREADY_ANNOUNCED)
        return rescaled

    title = "Remember what was rescaled"
    # Of the two tasks that can hand a job over, one skips itself.
    trigger_rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
    return rescale_task(record_result, CLOSE_TASK, title, inlets=[asset], outlets=[asset], trigger_rule=trigger_rule)()


def opened_window(
    name: str,
    hours: WindowHours,
    params: Mapping[str, Any],
    dag_run: Any,
    last_rescaled: Mapping[str, str] | None,
    now: datetime,
) -> Summary:
    """Return the target of a run, its hours, and, if its form has a source, the newest savepoint below that.

    Skips the run if the window is closed, or if there is nothing newer than `last_rescaled`, the source that was
    rescaled last. If all tasks of a run that has stopped its job were cleared, the run goes on even after the window
    has closed, because the job is not running.
    """
    from rescale.airflow.windows.newest_savepoint import newest_savepoint
    from rescale.options.profiles import use_targets

    if (fault := pattern_fault(params["target"])) is not None:
        expected, actual = fault
        raise RequestError("the target of the window is not valid", expected=expected, found=actual)
    run_start, is_manual = dag_run.run_after.astimezone(hours.zone), dag_run.run_type not in _SCHEDULED_RUNS
    is_outside_hours = is_manual and params[OUTSIDE_HOURS]
    opening = run_start if is_outside_hours else hours.opening_time(run_start, is_scheduled=not is_manual)
    hint = f"; to run it anyway, trigger it with {OUTSIDE_HOURS!r}" if is_manual and not is_outside_hours else ""
    if opening is None:
        skip_task(f"the window has never been open{hint}")
    closes_at, closed_text = hours.closing_time(opening), None
    opens_text, closes_text = _format_instant(opening), _format_instant(closes_at)
    if closes_at.timestamp() <= opening.timestamp():
        closed_text = f"the clock skips the hours of the window on this day, from {opens_text} until {closes_text}"
    elif now > closes_at:
        now_text = _format_instant(now.astimezone(hours.zone))
        closed_text = (
            f"too late: the window opened at {opens_text} and closed at {closes_text}, and it is {now_text} now"
        )
    if closed_text is not None and not ("job" in params and stopped_job(name_of_run(dag_run))):
        skip_task(f"{closed_text}{hint}")
    log.info("the window is open until %s", _format_instant(closes_at))
    output = {
        "target": target_of(params["target"], name, run_start if is_manual else opening),
        "closes": closes_at.isoformat(),
    }
    if hours.begins_before and not is_outside_hours:
        log.info("the job is not cut over before the window opens at %s", _format_instant(opening))
        output["opens"] = opening.isoformat()
    if "source" not in params:
        return output
    use_targets([])  # this task reads from the source's store only
    savepoint = newest_savepoint(normalise(params["source"]))
    if last_rescaled is not None and savepoint.write_time <= datetime.fromisoformat(last_rescaled["written"]):
        skip_task(
            f"nothing new: {last_rescaled['source']} is already rescaled, and nothing below {params['source']} is newer"
        )
    log.info("the newest savepoint is %s, written at %s", savepoint.uri, savepoint.write_time)
    return {**output, "source": savepoint.uri, "written": savepoint.write_time.isoformat()}


def _is_newer(rescaled: Mapping[str, str], last_rescaled: Mapping[str, str] | None) -> bool:
    return last_rescaled is None or datetime.fromisoformat(rescaled["written"]) > datetime.fromisoformat(
        last_rescaled["written"]
    )


def _format_instant(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M %Z}"
