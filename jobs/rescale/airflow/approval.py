"""The approval of a plan: the task that asks for it, and the decision that follows from the answer.

Airflow parks the asking task without a worker (`TaskAwaitingInput`). No answer in time counts as *Reject*: the
scheduler answers with the operator's default. Each plan has one decision, stored beside the target
(`runstate.approval`): the first answer in any run. A rejection fails the task. The staged files are removed by another
task, `rejected`, whose retries do not repeat the question. If a try of the asking task is lost before it has stored the
answer, the next try asks again. The asking task is skipped if nobody has to approve the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import BaseNotifier, Context
from airflow.sdk.execution_time.hitl import HITLUser

from rescale.airflow.connections.access import form_access
from rescale.airflow.forms.dag_arguments import form_of_platform
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.forms.form import APPROVAL_MINUTES
from rescale.airflow.reports.report_link import report_url
from rescale.airflow.settings import settings
from rescale.airflow.steps.earlier_tasks import PLAN_ANSWER_KEY, XComField, required_output
from rescale.airflow.steps.required_approval import approval_reason
from rescale.airflow.steps.rescale_task import skip_task
from rescale.airflow.steps.retries import RETRIES, task_errors
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from rescale.runstate.decisions import Decision
    from rescale.runstate.places import Places

log = logging.getLogger(__name__)

_QUESTION_KEY = "asked"
"""Key of the XCom that describes the question: the deadline (`until`), whether to send a reminder (`remind`), and the
digest of the `plan`."""

_MIN_TIMEOUT = timedelta(seconds=1)
"""Shortest time to wait for an answer; for Airflow, a timeout of zero means no timeout."""


class PlanApproval(ApprovalOperator):
    """Operator that shows the plan of the task `plan_task_id` and waits for an answer, unless none is needed.

    `values` are values of the form fields; None stands for the values that the run was started with. `closes_at` is the
    XCom field with the closing time of the window, in ISO format: from that time on the plan counts as rejected, even
    if the form allows a later answer.

    If nobody answers, Airflow wakes a parked task only at its timeout, with the default as the answer. To send a
    reminder before the deadline, the task uses a shorter timeout, and then parks itself a second time until the
    deadline.
    """

    template_fields = ("values",)

    def __init__(
        self,
        *,
        plan_task_id: str,
        closes_at: XComField | None = None,
        values: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(
            subject="May this rescale be carried out?",
            defaults=self.REJECT,
            execution_timeout=None,  # the settings' timeout of a task would also limit the time for the answer
            **RETRIES,
            **arguments,
        )
        self.plan_task_id = plan_task_id
        self.values = values
        self.closes_at = closes_at
        self.waiting_notifiers = [notifier.create() for notifier in settings().notify.waiting]
        self.expiring_notifiers = [notifier.create() for notifier in settings().notify.expiring]

    def execute(self, context: Context) -> Any:
        from rescale.airflow.claims import identity_of_run, refuse_pending_approval
        from rescale.runstate.approval import ask
        from rescale.runstate.decisions import approval_of
        from rescale.runstate.documents import load_plan
        from rescale.runstate.places import places_of
        from rescale.runstate.publication import was_published

        with task_errors():
            params, ti = self._form_values(context), context["ti"]
            plan_output = required_output(self.plan_task_id, ti.xcom_pull(task_ids=self.plan_task_id))
            timeout = self._timeout(params["approval_minutes"], ti)
            with form_access(params):
                plan = load_plan(plan_output["plan"])
                if was_published(plan):
                    skip_task("nobody has to approve the plan: its result is already published")
                question, decision = approval_of(places_of(plan))
                if approval_reason(plan, params) is None and question is None:
                    skip_task("nobody has to approve the plan: neither the form nor the settings require it")
                if decision is None:
                    refuse_pending_approval(plan, ti)
                    accept_unconditional = params["accept_unconditional_publish"]
                    ask(plan, identity_of_run(context["dag_run"]), accept_unconditional=accept_unconditional)
        if decision is None:
            self._ask(
                context,
                datetime.now(UTC) + timeout,
                timeout,
                self.waiting_notifiers,
                sends_reminder=bool(self.expiring_notifiers),
            )
        else:
            self._finish(context, plan_output["digest"], f"already decided: {decision}", is_approved=decision.approved)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = HITLOperator.execute_complete(self, context, event)
        question = context["ti"].xcom_pull(task_ids=self.task_id, key=_QUESTION_KEY)
        deadline, user = datetime.fromisoformat(question["until"]), answer["responded_by_user"]
        # Airflow accepts answers until it notices that the deadline has passed.
        is_late = answer["responded_at"] > deadline
        if event.get("timedout") and question["remind"] and not is_late:
            log.warning("nobody has answered yet: the plan counts as rejected at %s", _format_utc(deadline))
            self._ask(context, deadline, _reminder_lead(), self.expiring_notifiers, sends_reminder=False)
        is_approved = answer["chosen_options"] == [self.APPROVE] and not is_late
        if is_approved and settings().approval.four_eyes and is_user(user, triggered_by(context)):
            log.warning("the user who triggered the run may not approve its plan: asking again")
            self._ask(context, deadline, deadline - datetime.now(UTC), [], sends_reminder=question["remind"])
        if user is None:
            answer_given = "nobody answered in time, so the plan is rejected"
        elif is_late:
            answer_given = f"{user['name']} answered after {_format_utc(deadline)}, so the plan is rejected"
        else:
            answer_given = f"{'approved' if is_approved else 'rejected'} by {user['name']}"
        decision = self._decide(context, question["plan"], answer_given, is_approved=is_approved)
        if decision.answer != answer_given:  # another answer was stored first
            answer_given = f"{answer_given}; already decided: {decision}"
        self._finish(context, question["plan"], answer_given, is_approved=is_approved and decision.approved)

    def _decide(self, context: Context, digest: str, answer_given: str, *, is_approved: bool) -> Decision:
        """Store the answer about the plan with this digest, and return the decision about that plan.

        `digest` names the plan that the user saw: the task `plan` may have made another plan after the question.
        """
        from rescale.airflow.claims import identity_of_run
        from rescale.runstate.approval import decide
        from rescale.runstate.documents import load_plan
        from rescale.runstate.places import Places

        params, target = self._form_values(context), context["ti"].xcom_pull(task_ids=self.plan_task_id)["target"]
        with task_errors(), form_access(params):
            plan = load_plan(Places(target, digest).plan)
            accept_unconditional = params["accept_unconditional_publish"]
            run_identity = identity_of_run(context["dag_run"])
            return decide(
                plan, run_identity, answer_given, is_approved=is_approved, accept_unconditional=accept_unconditional
            )

    def _finish(self, context: Context, digest: str, answer_given: str, *, is_approved: bool) -> None:
        """Pass the decision to later tasks; fail if it is a rejection."""
        context["ti"].xcom_push(PLAN_ANSWER_KEY, {"approved": is_approved, "plan": digest, "words": answer_given})
        if is_approved:
            log.info("%s", answer_given)
            return
        with task_errors():
            raise RequestError(
                "the plan is rejected",
                path=context["ti"].xcom_pull(task_ids=self.plan_task_id)["target"],
                found=answer_given,
                advice="the log of the task 'rejected' says what happened to the staged files",
            )

    def _ask(
        self,
        context: Context,
        deadline: datetime,
        timeout: timedelta,
        notifiers: Sequence[BaseNotifier],
        *,
        sends_reminder: bool,
    ) -> None:
        """Show the question, call the notifiers, and park the task by raising an exception of Airflow.

        Airflow wakes the task when there is an answer, when a reminder is due, or at the `deadline`. `timeout` is the
        time until the deadline; it is an argument because most callers know it without this worker's clock.
        """
        from rescale.runstate.documents import load_plan
        from rescale.runstate.places import places_of

        plan_output = context["ti"].xcom_pull(task_ids=self.plan_task_id)
        reminder_lead = _reminder_lead()
        sends_reminder = sends_reminder and timeout > reminder_lead
        self.response_timeout = max(timeout - reminder_lead if sends_reminder else timeout, _MIN_TIMEOUT)
        self.subject = f"{plan_output['source']} → {plan_output['target']}: {plan_output['asked']}"
        with task_errors(), form_access(self._form_values(context)):
            self.assigned_users = allowed_users(triggered_by(context))
            report_address = report_url(context["ti"].dag_id, context["ti"].run_id, self.plan_task_id)
            self.body = _question_text(places_of(load_plan(plan_output["plan"])), report_address, deadline)
        # Airflow calls these notifiers after it has shown the question.
        self.notifiers = [SafeNotifier(notifier) for notifier in notifiers]
        context["ti"].xcom_push(
            _QUESTION_KEY, {"until": deadline.isoformat(), "remind": sends_reminder, "plan": plan_output["digest"]}
        )
        super().execute(context)

    def _form_values(self, context: Context) -> dict[str, Any]:
        return trimmed_values(context["params"] if self.values is None else self.values)

    def _timeout(self, minutes: float | None, ti: Any) -> timedelta:
        """Return the time for an answer: the minutes of the form, or less if the window closes earlier.

        `minutes` is None if the field of the form is empty: then the platform's default applies.
        """
        if minutes is None:
            minutes = form_of_platform()["approval_minutes"].value or APPROVAL_MINUTES
        timeout = timedelta(minutes=minutes)
        if self.closes_at is None:
            return timeout
        return min(timeout, datetime.fromisoformat(self.closes_at.pull(ti)) - datetime.now(UTC))


class SafeNotifier(BaseNotifier):
    """Notifier that logs an error of another notifier as a warning, so that the question is asked in any case."""

    def __init__(self, notifier: BaseNotifier) -> None:
        super().__init__()
        self.notifier = notifier

    def notify(self, context: Context) -> None:
        try:
            self.notifier(context)
        except Exception as error:
            log.warning("the notifier %s failed: %s", type(self.notifier).__name__, error)


def allowed_users(triggering_user: str | None) -> list[HITLUser] | None:
    """Return the users that may approve the plan of a run that `triggering_user` has triggered.

    None stands for all users with permission. Raises `RequestError` if nobody may approve the plan.
    """
    approval_rules = settings().approval
    allowed_names = [
        name for name in approval_rules.users if not (approval_rules.four_eyes and name == triggering_user)
    ]
    if approval_rules.users and not allowed_names:
        raise RequestError(
            "nobody may approve the plan: the only user that may approve plans has triggered this run",
            found=triggering_user,
            advice="let another user trigger it, or name more users in the settings of the platform (approval.users)",
        )
    return [{"id": name, "name": name} for name in allowed_names] or None


def triggered_by(context: Context) -> str | None:
    """Return the name of the user that triggered the run, or None."""
    return getattr(context["dag_run"], "triggering_user_name", None)


def is_user(user: Any, name: str | None) -> bool:
    """Return whether the user who answered has this name; `user` is None if nobody answered."""
    return user is not None and name in (user["id"], user["name"])


def _reminder_lead() -> timedelta:
    """Return the time between reminder and deadline."""
    return timedelta(minutes=settings().approval.remind_minutes)


def _format_utc(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def _question_text(places: Places, report_address: str, deadline: datetime) -> str:
    from rescale.airflow.question import END_OF_QUESTION
    from rescale.runstate.documents import read_document

    question = read_document(places.plan_page).decode().partition(END_OF_QUESTION)[0]
    return (
        f"{question}\n\n[The report]({report_address}) has charts of what moves where. "
        f"The whole plan: `{places.plan_page}` as text, `{places.plan}` as JSON.\n\n"
        f"Without an answer by {_format_utc(deadline)} the plan counts as rejected."
    )
