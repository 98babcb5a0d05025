"""Shows a followed job's rounds: in the log, in the task's state and XComs, and in the report."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from rescale.airflow.flink.first_checkpoint import first_checkpoint_text
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.last_checkpoint import REPEATED_RECORDS, with_newest_checkpoint
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.reports.report_link import REPORT_KEY, ReportPage
from rescale.airflow.steps.earlier_tasks import ROUNDS_KEY
from rescale.following.follower import Follower
from rescale.following.round_line import round_line
from rescale.report.documents import PlanDocument, ReportDocument
from rescale.report.pages.planned import plan_document
from rescale.report.report_page import html_report
from rescale.runstate.follower.rounds import Round, described_rounds

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_PAGES = 30.0
"""Least number of seconds between two updates of the report, which is an XCom of up to a hundred kilobytes."""


@dataclass
class RoundDisplay:
    """Shows a follower's rounds in the task instance `ti` and its `task_state`."""

    old_job: JobToRestart
    follower: Follower
    ti: Any
    task_state: Any
    _next_page_time: float = 0.0
    _shown_document: dict[str, Any] | None = None

    def show(self, finished_round: Round, waits_for: str | None, *, is_short: bool, needs_approval: bool) -> None:
        """Show a finished round, and what the cut-over waits for (`waits_for`; None if the cut-over begins)."""
        log.info("%s%s", round_line(finished_round, waits_for), "" if waits_for else "; the cut-over begins")
        self._put(
            {
                "round": finished_round.number,
                "checkpoint": finished_round.checkpoint,
                "kind": finished_round.kind.value,
                "rows_written": finished_round.rows_written,
                "rows_deleted": finished_round.rows_deleted,
                "bytes_changed": finished_round.bytes_changed,
                "bytes_read": finished_round.bytes_read,
                "change_rate": finished_round.change_rate,
                "seconds": finished_round.seconds,
                "last_round_seconds": finished_round.last_round_seconds,
                "is_short": is_short,
                "asks": needs_approval,
                "waits_for": waits_for,
                "target": self.follower.target,
            }
        )
        if waits_for is None or time.monotonic() > self._next_page_time:
            self._next_page_time = time.monotonic() + _SECONDS_BETWEEN_PAGES
            plan = msgspec.structs.replace(self._plan, rounds=described_rounds(self.follower.target))
            page = html_report(ReportDocument(plan=plan))
            self.ti.xcom_push(REPORT_KEY, msgspec.to_builtins(ReportPage.compress(page)))

    def show_without_rounds(self, waits_for: str, *, needs_approval: bool) -> None:
        """Show what the cut-over waits for, if no rounds are made. Does nothing if that has not changed."""
        target = self.follower.target
        document = {"is_short": True, "asks": needs_approval, "waits_for": waits_for, "target": target}
        if document != self._shown_document:
            self._shown_document = document
            log.info(
                "no rounds: the result uses files of the job's last checkpoint unchanged; the cut-over waits for %s",
                waits_for,
            )
            self._put(document)

    def _put(self, document: dict[str, Any]) -> None:
        with open_flink(self.old_job.flink) as flink:
            document = {**document, "first_checkpoint": first_checkpoint_text(flink, self.old_job.job_id)}
        self.task_state.set(ROUNDS_KEY, document)
        self.ti.xcom_push(ROUNDS_KEY, document)

    @cached_property
    def _plan(self) -> PlanDocument:
        """The plan of a full run, for the report, with a warning about records that the new job processes again."""
        full_plan = with_newest_checkpoint(self.old_job.directory, self.follower.plan_full)
        document = plan_document(full_plan.plan, full_plan.snapshot, full_plan.source_offsets)
        return msgspec.structs.replace(document, warnings=(*document.warnings, REPEATED_RECORDS))
