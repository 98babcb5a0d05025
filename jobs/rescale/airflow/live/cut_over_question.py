"""The question whether a followed job may be cut over. It shows the newest round; rounds go on while it waits.

The task holds no worker while it waits: it is deferred until the last round would be short enough, and then parked
until there is an answer (`TaskAwaitingInput`). If the settings require an approval above a size of state, the task is
deferred even if no approval is needed yet, because the state may grow. After ten minutes without an answer, and after
*Not yet*, the task asks again with newer figures. The decision is stored beside the target, where the task that follows
the job reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context

from rescale.airflow.approval import SafeNotifier, allowed_users, is_user, triggered_by
from rescale.airflow.connections.access import form_access
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.settings import settings
from rescale.airflow.steps.earlier_tasks import ASK_CUT_OVER_TASK, ENDED_STATES, FOLLOW_TASK, ROUNDS_KEY, task_states
from rescale.airflow.steps.rescale_task import skip_task
from rescale.airflow.steps.retries import RETRIES, task_errors
from rescale.text.units import duration, human_bytes

log = logging.getLogger(__name__)

CUT_OVER, NOT_YET, GIVE_UP = "Cut over", "Not yet", "Give up"

_DEFAULT_POOL = "default_pool"
"""The pool that every Airflow has.

In the pool of the platform's settings, the tasks that follow jobs may hold all slots until this question is answered.
"""

_PAUSE_BETWEEN_LOOKS = timedelta(seconds=15)
_REFRESH_AFTER = timedelta(minutes=10)
"""Time after which a question without an answer is asked again, with newer figures."""
_PAUSE_AFTER_NOT_YET = timedelta(minutes=5)
"""Time from *Not yet* to the next question."""


class AskToCutOver(HITLOperator):
    """Operator that asks for the cut-over as soon as the last round would be short enough.

    The task is skipped if nobody has to approve the cut-over.
    """

    template_fields = ()

    def __init__(self, **arguments: Any) -> None:
        super().__init__(
            task_id=ASK_CUT_OVER_TASK,
            subject="May the job be cut over now?",
            options=[CUT_OVER, NOT_YET, GIVE_UP],
            defaults=NOT_YET,
            execution_timeout=None,  # Airflow would also apply a time limit of the task to the answer
            pool=_DEFAULT_POOL,
            **RETRIES,
            **arguments,
        )

    def execute(self, context: Context) -> Any:
        """Ask the question if the last round would be short enough; otherwise, defer the task, and look again later."""
        with task_errors():
            if not trimmed_values(context["params"])["while_it_runs"]:
                skip_task("the job is stopped before its state is moved")
            ti: Any = context["ti"]
            if _has_ended(ti):
                skip_task(f"nothing to ask: the task {FOLLOW_TASK!r} has ended")
            newest_round = ti.xcom_pull(task_ids=FOLLOW_TASK, key=ROUNDS_KEY)
            # The state may grow above this limit, and then the cut-over needs an approval.
            may_need_approval_later = settings().approval.required.above_gigabytes is not None
            if newest_round is not None and not newest_round["asks"] and not may_need_approval_later:
                skip_task("nobody has to approve the cut-over: neither the form nor the settings require it")
        if newest_round is None or not newest_round["asks"] or not newest_round["is_short"]:
            self._look_again(_PAUSE_BETWEEN_LOOKS)
        with task_errors():
            self.assigned_users = allowed_users(triggered_by(context))
        self.body = cut_over_question_text(newest_round)
        self.response_timeout = _REFRESH_AFTER
        is_first = ti.xcom_pull(task_ids=self.task_id, key=ROUNDS_KEY) is None
        self.notifiers = [SafeNotifier(notifier.create()) for notifier in settings().notify.waiting] if is_first else []
        ti.xcom_push(ROUNDS_KEY, newest_round)
        return super().execute(context)

    def look_again(self, context: Context, event: Any = None) -> Any:  # noqa: ARG002
        """Resume after a pause, and look whether there is something to ask."""
        return self.execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = super().execute_complete(context, event)
        user, chosen_options = answer["responded_by_user"], answer["chosen_options"]
        if user is None or event.get("timedout"):
            return self.execute(context)
        if chosen_options == [NOT_YET]:
            pause_text = duration(_PAUSE_AFTER_NOT_YET.total_seconds())
            log.info("not yet, says %s: rounds go on, and the question comes again in %s", user["name"], pause_text)
            self._look_again(_PAUSE_AFTER_NOT_YET)
        if _has_ended(context["ti"]):
            skip_task(f"the answer came too late: the task {FOLLOW_TASK!r} has ended")
        is_approved = chosen_options == [CUT_OVER]
        if is_approved and settings().approval.four_eyes and is_user(user, triggered_by(context)):
            log.warning("the user who triggered the run may not approve the cut-over: asking again")
            return self.execute(context)
        from rescale.airflow.claims import identity_of_run
        from rescale.runstate.approval import decide_cut_over

        newest_round = context["ti"].xcom_pull(task_ids=self.task_id, key=ROUNDS_KEY)
        params = trimmed_values(context["params"])
        with task_errors(), form_access(params):
            decision = decide_cut_over(
                newest_round["target"],
                identity_of_run(context["dag_run"]),
                f"{'approved' if is_approved else 'given up'} by {user['name']}",
                is_approved=is_approved,
                accept_unconditional=params["accept_unconditional_publish"],
            )
        log.info("%s", decision)
        return {"approved": decision.approved, "answer": decision.answer}

    def _look_again(self, after: timedelta) -> NoReturn:
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        self.defer(trigger=TimeDeltaTrigger(after), method_name="look_again")


def _has_ended(ti: Any) -> bool:
    """Return whether the task that follows the job has ended, for example because its window closed."""
    return task_states(ti).get(FOLLOW_TASK) in ENDED_STATES


def cut_over_question_text(newest_round: Mapping[str, Any]) -> str:
    """Return the question as Markdown; `newest_round` describes the newest round (`RoundDisplay.show`)."""
    from rescale.airflow.flink.last_checkpoint import REPEATED_RECORDS
    from rescale.report.page import Page, table
    from rescale.report.renderers.markdown import render_markdown

    if "round" not in newest_round:
        text = "All records keep their key groups, so nothing has to be moved in rounds."
    else:
        bytes_per_second, last_round_seconds = newest_round["change_rate"], newest_round["last_round_seconds"]
        rows = [
            ("newest round", f"{newest_round['round']}, of checkpoint {newest_round['checkpoint']}"),
            (
                "changed rows",
                f"{newest_round['rows_written'] or 0:,} written, {newest_round['rows_deleted'] or 0:,} deleted",
            ),
            ("rate of change", "not known" if bytes_per_second is None else f"{human_bytes(bytes_per_second)}/s"),
            (
                "the last round would take",
                "not known" if last_round_seconds is None else f"about {duration(last_round_seconds)}",
            ),
        ]
        text = render_markdown(Page((table(("", ""), rows),)))
    return (
        f"{text}\n\n"
        "A last round is made while the job runs. Then the job is cancelled, and started again in its new shape. The "
        "job stands still for about as long as a plain restart takes. If the job makes a checkpoint before the cancel, "
        f"one more round is added.\n\n{REPEATED_RECORDS} "
        "Going back after the new job has started repeats what the new job has emitted.\n\n"
        f"{newest_round['first_checkpoint']}\n\n"
        f"*{NOT_YET}*: rounds go on, and the question comes again. *{GIVE_UP}*: the run fails, and the job runs on."
    )
