"""Airflow's schedule of a window whose runs begin before it opens, and the plugin that registers it with Airflow."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.plugins_manager import AirflowPlugin
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.timetables.trigger import CronTriggerTimetable

from rescale.text.units import duration

if TYPE_CHECKING:
    from pendulum import DateTime


class EarlyTimetable(Timetable):
    """Timetable with a run for each time of a cron expression, which begins earlier than that time by `begins_before`.

    `begins_before` is elapsed time: if the clocks change in between, the local times differ by an hour more or less.
    """

    def __init__(self, schedule: str, timezone: str, begins_before: timedelta) -> None:
        self._arguments = {"schedule": schedule, "timezone": timezone}
        self._begins_before = begins_before
        self._openings = CronTriggerTimetable(schedule, timezone=timezone)
        self._lead_text = f"{duration(begins_before.total_seconds())} before"
        self.description = f"{self._lead_text}: {self._openings.description}"

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        return cls(data["schedule"], data["timezone"], timedelta(seconds=data["begins_before"]))

    def serialize(self) -> dict[str, Any]:
        return {**self._arguments, "begins_before": self._begins_before.total_seconds()}

    def validate(self) -> None:
        self._openings.validate()

    @property
    def summary(self) -> str:
        return f"{self._openings.summary}, {self._lead_text}"

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the next run: `begins_before` earlier than the next time of the cron expression."""
        lead_time = self._begins_before
        last_interval = last_automated_data_interval
        opening = self._openings.next_dagrun_info(
            last_automated_data_interval=None
            if last_interval is None
            else DataInterval(last_interval.start + lead_time, last_interval.end + lead_time),
            restriction=restriction._replace(
                earliest=restriction.earliest and restriction.earliest + lead_time,
                latest=restriction.latest and restriction.latest + lead_time,
            ),
        )
        return None if opening is None else DagRunInfo.exact(opening.run_after - lead_time)


class WindowsPlugin(AirflowPlugin):
    """Plugin that registers the timetable: a stored DAG has only the name of its class, by which Airflow finds it."""

    name = "rescale_windows"
    timetables: ClassVar[list[type[Timetable]]] = [EarlyTimetable]  # type: ignore[misc]
