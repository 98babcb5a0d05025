"""Airflow's timetable of cron expressions, which Airflow 3.1 does not have in its SDK."""

from __future__ import annotations

try:
    from airflow.sdk import CronTriggerTimetable
except ImportError:
    from airflow.timetables.trigger import CronTriggerTimetable  # type: ignore[assignment]

__all__ = ["CronTriggerTimetable", "expression_of"]


def expression_of(timetable: CronTriggerTimetable) -> str:
    """Return the cron expression of a timetable, in which names such as @quarterly are resolved."""
    attribute = "expression" if hasattr(timetable, "expression") else "_expression"
    expression: str = getattr(timetable, attribute)
    return expression
