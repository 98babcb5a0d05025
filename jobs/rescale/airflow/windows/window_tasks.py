"""First and last task of a window's run: check whether there is something to do, and record what was done.

The state of the window's asset records what was rescaled last, so it outlives runs. A run that finds nothing newer is
skipped. So is a run that starts after closing time, or that is triggered by hand outside the window's hours, unless its
form allows that.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import Asset, TriggerRule

from rescale.airflow.forms.filled_form import refuse_unknown_fields
from rescale.airflow.state_stores import window_state
from rescale.airflow.steps.earlier_tasks import FOLLOW, OPEN, PLAN, Summary, output_of_any, required_output
from rescale.airflow.steps.rescale_task import rescale_task, skip_task
from rescale.airflow.windows.closing import closing, last_opening
from rescale.airflow.windows.cron import expression_of
from rescale.airflow.windows.targets import pattern_fault, target_of
from rescale.airflow.windows.window import OUTSIDE_HOURS, Window
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError

log = logging.getLogger(__name__)

CLOSE = "close_window"

_LAST = "last"


def open_window(window: Window, asset: Asset) -> Any:
    """Return the task that determines the target of the run, its source if there is no job, and the closing time."""
    task = rescale_task(_open, OPEN, "Is the window open?", inlets=[asset])
    hours = [window.closes.isoformat("minutes"), window.cut_over_from and window.cut_over_from.isoformat("minutes")]
    return task(window.name, expression_of(window.timetable), hours, window.timezone)


def close_window(asset: Asset) -> Any:
    """Return the task that records what was rescaled, and adds the event of the result to the window's asset.

    Only tasks that hand a result over come directly before it. The first task would count as the success that its
    trigger rule asks for, also in a run with nothing to do.
    """

    def close(
        params: Any = None,  # noqa: ARG001
        ti: Any = None,
        asset_state_store: Any = None,
        inlet_events: Any = None,
        outlet_events: Any = None,
    ) -> Summary:
        """Records what was rescaled; the next run looks for something newer."""
        from rescale.airflow.savepoint_work import asset_extra, events_of, published_plan

        extra = asset_extra(published_plan(output_of_any(ti, PLAN, FOLLOW)))
        opened: Summary = required_output(OPEN, ti.xcom_pull(task_ids=OPEN))
        done = {name: value for name, value in opened.items() if name != "closes"}
        state = window_state(asset_state_store, ti.dag_id)
        if "written" in done and _is_newer(done, state.get(_LAST)):  # false if an older run was cleared
            state.set(_LAST, done)
        if extra in events_of(inlet_events, asset):
            skip_task("the asset already has an event of this result")
        outlet_events[asset].extra = extra
        return done

    title = "Remember what was rescaled"
    rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS  # one of two tasks hands a job over, and the other skips itself
    return rescale_task(close, CLOSE, title, inlets=[asset], outlets=[asset], trigger_rule=rule)()


def _open(
    name: str,
    expression: str,
    hours: Sequence[str | None],
    timezone: str,
    params: Any = None,
    dag: Any = None,
    dag_run: Any = None,
    asset_state_store: Any = None,
) -> Summary:
    """Returns target, hours and newest savepoint; skips the run if the window is closed or nothing is new.

    Checks the form of a run by hand first: a skipped run would not show its mistakes.
    """
    from rescale.airflow.windows.newest import newest_savepoint

    refuse_unknown_fields(params, dag.params)
    if (fault := pattern_fault(params["target"])) is not None:
        expected, actual = fault
        raise RequestError("the target of the window is not valid", expected=expected, found=actual)
    zone = ZoneInfo(timezone)
    opened = dag_run.run_after.astimezone(zone)
    by_hand = dag_run.run_type == "manual" and not params[OUTSIDE_HOURS]
    closes, cut_over_from = hours
    begun = last_opening(expression, opened, zone) if by_hand else opened
    closed = _closed(begun, closes or "", zone, by_hand=by_hand)
    log.info("the window is open until %s", _shown(closed))
    known = {"target": target_of(params["target"], name, opened), "closes": closed.isoformat()}
    if cut_over_from is not None and begun is not None and not params[OUTSIDE_HOURS]:
        known["cut_over_from"] = closing(begun, time.fromisoformat(cut_over_from), zone).isoformat()
    if "source" not in params:
        return known
    last = window_state(asset_state_store, dag.dag_id).get(_LAST)
    newest = newest_savepoint(normalise(params["source"]))
    if last is not None and newest.written <= datetime.fromisoformat(last["written"]):
        skip_task(f"nothing new: {last['source']} is already rescaled, and nothing below {params['source']} is newer")
    log.info("the newest savepoint is %s, written at %s", newest.uri, newest.written)
    return {**known, "source": newest.uri, "written": newest.written.isoformat()}


def _closed(begun: datetime | None, closes: str, zone: ZoneInfo, *, by_hand: bool) -> datetime:
    """Return when a window that opened then closes, or skip the run if it is closed.

    A scheduled run opens the window at its own time. For a run `by_hand`, the last opening by the schedule counts.
    """
    otherwise = f"; to run it anyway, trigger it with {OUTSIDE_HOURS!r}" if by_hand else ""
    if begun is None:
        skip_task(f"the window has never been open{otherwise}")
    closed = closing(begun, time.fromisoformat(closes), zone)
    if (now := datetime.now(UTC)) > closed:
        skip_task(
            f"too late: the window opened at {_shown(begun)} and closed at {_shown(closed)}, "
            f"and it is {_shown(now.astimezone(zone))} now{otherwise}"
        )
    return closed


def _is_newer(done: Mapping[str, str], last: Mapping[str, str] | None) -> bool:
    return last is None or datetime.fromisoformat(done["written"]) > datetime.fromisoformat(last["written"])


def _shown(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M %Z}"
