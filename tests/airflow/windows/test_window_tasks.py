"""Hours of a window: a manual run outside of them is skipped, unless its form asks for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import Param

from rescale.airflow.windows import window_tasks
from rescale.airflow.windows.window import OUTSIDE_HOURS
from rescale.airflow.windows.window_tasks import _open

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip only the task itself, because the tasks after it are known only with a context."""

    def skip(why: str) -> NoReturn:
        raise AirflowSkipException(why)

    monkeypatch.setattr(window_tasks, "skip_task", skip)


def opened(
    opens: datetime, closes: datetime, run_type: str, cut_over_from: datetime | None = None, **form: Any
) -> dict[str, Any]:
    """Return the output of the first task of a run that starts now; the window opens and closes every day."""
    params = {"target": "/rescaled/{date}-{time}", OUTSIDE_HOURS: False, **form}
    dag = SimpleNamespace(params={name: Param(value) for name, value in params.items()})
    run = SimpleNamespace(run_after=NOW, run_type=run_type)
    expression = f"{opens.minute} {opens.hour} * * *"
    hours = [f"{closes:%H:%M}", None if cut_over_from is None else f"{cut_over_from:%H:%M}"]
    return _open("night", expression, hours, "UTC", params=params, dag=dag, dag_run=run)


@pytest.mark.parametrize("run_type", ["manual", "scheduled"])
def test_run_within_the_hours_gets_their_end(run_type: str) -> None:
    closes = (NOW + HOUR).replace(second=0, microsecond=0)
    document = opened(NOW - HOUR, closes, run_type)
    assert document["closes"] == closes.isoformat()
    assert document["target"] == f"/rescaled/{NOW:%Y-%m-%d-%H%M}"


@pytest.mark.parametrize(("run_type", "outside"), [("manual", False), ("scheduled", False), ("manual", True)])
def test_job_is_cut_over_in_a_part_of_the_hours(run_type: str, outside: bool) -> None:
    cut_over_from, closes = NOW + HOUR, (NOW + 2 * HOUR)
    document = opened(NOW - HOUR, closes, run_type, cut_over_from, **{OUTSIDE_HOURS: outside})
    earliest = None if outside else cut_over_from.replace(second=0, microsecond=0).isoformat()
    assert document.get("cut_over_from") == earliest


def test_manual_run_outside_the_hours_is_skipped() -> None:
    with pytest.raises(AirflowSkipException) as caught:
        opened(NOW - 3 * HOUR, NOW - HOUR, "manual")
    assert OUTSIDE_HOURS in str(caught.value)


def test_manual_run_outside_the_hours_is_executed_if_its_form_asks_for_it() -> None:
    document = opened(NOW - 3 * HOUR, NOW - HOUR, "manual", **{OUTSIDE_HOURS: True})
    assert datetime.fromisoformat(document["closes"]) > NOW + 22 * HOUR


def test_window_that_never_opens_is_closed() -> None:
    form = {"target": "/rescaled/{date}", OUTSIDE_HOURS: False}
    dag = SimpleNamespace(params={name: Param(value) for name, value in form.items()})
    run = SimpleNamespace(run_after=NOW, run_type="manual")
    with pytest.raises(AirflowSkipException):
        _open("night", "0 0 31 2 *", ["06:00", None], "UTC", params=form, dag=dag, dag_run=run)
