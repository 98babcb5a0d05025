"""The first and the last task of a window's run: is there something to do, and what was done.

What was rescaled last lies in the state of the window's asset, so it outlives runs; a run that finds nothing newer is
skipped, and so is one that begins after closing time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import Asset

from rescale.errors import RequestError
from rescale.orchestration.filled_form import refuse_unknown_fields
from rescale.orchestration.savepoint_tasks import asset_extra, events_of, the_published_plan
from rescale.orchestration.steps.earlier_tasks import OPEN, PLAN, Summary, told_by
from rescale.orchestration.steps.rescale_task import rescale_task, skip_task
from rescale.orchestration.windows.closing import closing
from rescale.orchestration.windows.newest import newest_savepoint
from rescale.orchestration.windows.targets import pattern_fault, target_of
from rescale.orchestration.windows.window import Window
from rescale.storage.locations import normalise

log = logging.getLogger(__name__)

CLOSE = "close_window"

_LAST = "last"


def window_asset(window: Window) -> Asset:
    """Gets an event with every run of the window that went through."""
    return Asset(name=window.dag_id, uri=f"x-rescale://windows/{window.name}", group="rescale")


def open_window(window: Window, asset: Asset) -> Any:
    """The task that finds out target and, without a job, source of the run, and when the window closes."""
    task = rescale_task(_open, OPEN, "Is the window open?", inlets=[asset])
    return task(window.name, window.closes.isoformat("minutes"), window.timezone)


def close_window(opened: Any, asset: Asset) -> Any:
    """The task that writes down what was rescaled, and gives the window's asset the event that the other one gets."""

    def close(
        opened: Mapping[str, str] | None,
        params: Any = None,  # noqa: ARG001
        ti: Any = None,
        asset_state_store: Any = None,
        inlet_events: Any = None,
        outlet_events: Any = None,
    ) -> Summary:
        """Writes down what was rescaled: the next run looks for something newer."""
        extra = asset_extra(the_published_plan(ti.xcom_pull(task_ids=PLAN)))
        done = {name: value for name, value in told_by(OPEN, opened).items() if name != "closes"}
        if "written" in done and _is_newer(done, asset_state_store.get(_LAST)):  # not if an older run is cleared
            asset_state_store.set(_LAST, done)
        if extra in events_of(inlet_events, asset):
            skip_task("the asset has the event of this result already")
        outlet_events[asset].extra = extra
        return done

    title = "Remember what was rescaled"
    return rescale_task(close, CLOSE, title, inlets=[asset], outlets=[asset])(opened)


def _open(
    name: str,
    closes: str,
    timezone: str,
    params: Any = None,
    dag: Any = None,
    dag_run: Any = None,
    asset_state_store: Any = None,
) -> Summary:
    """Is the window still open, and is there something new to rescale?

    Who triggers it by hand may have filled in anything; a run that is skipped would not tell.
    """
    refuse_unknown_fields(params, dag.params)
    if (fault := pattern_fault(params["target"])) is not None:
        expected, found = fault
        raise RequestError("the target of a window makes no sense", expected=expected, found=found)
    zone = ZoneInfo(timezone)
    opened = dag_run.run_after.astimezone(zone)
    closed = closing(opened, time.fromisoformat(closes), zone)
    if (now := datetime.now(UTC)) > closed:
        skip_task(
            f"too late: the window opened at {_shown(opened)} and closed at {_shown(closed)}, "
            f"and it is {_shown(now.astimezone(zone))} now"
        )
    log.info("the window is open until %s", _shown(closed))
    known = {"target": target_of(params["target"], name, opened), "closes": closed.isoformat()}
    if "source" not in params:
        return known
    found, last = newest_savepoint(normalise(params["source"])), asset_state_store.get(_LAST)
    if last is not None and found.written <= datetime.fromisoformat(last["written"]):
        skip_task(f"nothing new: {last['source']} was rescaled already, and nothing below {params['source']} is newer")
    log.info("the newest savepoint is %s, written at %s", found.uri, found.written)
    return {**known, "source": found.uri, "written": found.written.isoformat()}


def _is_newer(done: Mapping[str, str], last: Mapping[str, str] | None) -> bool:
    return last is None or datetime.fromisoformat(done["written"]) > datetime.fromisoformat(last["written"])


def _shown(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M %Z}"
