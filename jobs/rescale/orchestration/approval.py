"""The question whether a plan may be carried out, and what becomes of the run that asks it.

Airflow parks the asking task without a worker (`TaskAwaitingInput`). An answer that does not come in time counts as
*Reject*: the scheduler gives the operator's default as the answer. What was staged is removed by a task of its own, so
that trouble with the store does not ask the question again; that task is red then, for a rejection shall be seen. A try
that is lost takes its answer along: the next one asks again. Where nobody is asked the task is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import BaseNotifier, Context
from airflow.sdk.execution_time.hitl import HITLUser

from rescale.errors import RequestError
from rescale.orchestration.connections.access import storage_access
from rescale.orchestration.filled_form import stripped
from rescale.orchestration.question import END_OF_QUESTION
from rescale.orchestration.reports.report_link import report_url
from rescale.orchestration.settings import settings
from rescale.orchestration.steps.attempts import ATTEMPTS, ended_by_our_errors
from rescale.orchestration.steps.earlier_tasks import APPROVED, Told, told_by
from rescale.orchestration.steps.rescale_task import skip_task
from rescale.target.documents import load_plan, read_document
from rescale.target.places import Places, places_of

log = logging.getLogger(__name__)

_ASKED = "asked"
"""The key of the XCom that holds `until` when an answer counts, whether to `remind` somebody before, and the digest of
the `plan` that it is about."""

_SHORTEST = timedelta(seconds=1)
"""What Airflow waits at least: nothing at all would be without an end."""


class PlanApproval(ApprovalOperator):
    """Shows the plan of the task `plan` and waits for an answer, if the form asks for one.

    What comes next is the task `on_reject`, or all others that are directly downstream. `closes` tells an instant in
    ISO format; after it nobody has to answer any more. Airflow wakes the task at one time only, with the default for an
    answer: where somebody is to be reminded that is before the end, and the task is parked once more.
    """

    template_fields = ()

    def __init__(self, *, plan: str, on_reject: str, closes: Told | None, **arguments: Any) -> None:
        super().__init__(
            subject="May this rescale be carried out?",
            defaults=self.REJECT,
            execution_timeout=None,  # else it would be the time to answer in
            **ATTEMPTS,
            **arguments,
        )
        self.plan = plan
        self.on_reject = on_reject
        self.closes = closes
        self.waiting = [one.made() for one in settings().notify.waiting]
        self.expiring = [one.made() for one in settings().notify.expiring]

    def execute(self, context: Context) -> Any:
        with ended_by_our_errors():
            params, ti = stripped(context["params"]), context["ti"]
            planned = told_by(self.plan, ti.xcom_pull(task_ids=self.plan))
            left = self._patience(params["approval_minutes"], ti)
        if not params["require_approval"] or planned["published"]:
            reason = "it was carried out already" if planned["published"] else "the form does not ask for it"
            skip_task(f"nobody has to approve the plan: {reason}")
        self._ask(context, datetime.now(UTC) + left, left, self.waiting, remind=bool(self.expiring))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = HITLOperator.execute_complete(self, context, event)
        asked = context["ti"].xcom_pull(task_ids=self.task_id, key=_ASKED)
        until, user = datetime.fromisoformat(asked["until"]), answer["responded_by_user"]
        late = answer["responded_at"] > until  # Airflow takes an answer until it has noticed that the time is over
        if event.get("timedout") and asked["remind"] and not late:
            log.warning("nobody has answered yet: the plan counts as rejected at %s", _shown(until))
            self._ask(context, until, _before_the_end(), self.expiring, remind=False)
        approved = answer["chosen_options"] == [self.APPROVE] and not late
        if approved and settings().approval.four_eyes and _is(user, _triggered_by(context)):
            log.warning("who triggered the run may not approve its plan: it is asked again")
            self._ask(context, until, until - datetime.now(UTC), [], remind=asked["remind"])
        if user is None:
            words = "nobody answered in time, so the plan is rejected"
        elif late:
            words = f"{user['name']} answered after {_shown(until)}, so the plan is rejected"
        else:
            words = f"{'approved' if approved else 'rejected'} by {user['name']}"
        log.log(logging.INFO if approved else logging.WARNING, "%s", words)
        context["ti"].xcom_push(APPROVED, {"approved": approved, "plan": asked.get("plan"), "words": words})
        tasks = self.get_direct_relatives(upstream=False)
        self.skip(context["ti"], [task for task in tasks if (task.task_id == self.on_reject) == approved])

    def _ask(
        self, context: Context, until: datetime, left: timedelta, told: Sequence[BaseNotifier], *, remind: bool
    ) -> None:
        """Tells notifiers and parks the task, by an exception of Airflow's, until there is an answer, or it is time to
        remind somebody, or too late. Wherever that can be, how long that is does not depend on this worker's clock."""
        planned = context["ti"].xcom_pull(task_ids=self.plan)
        before = _before_the_end()
        remind = remind and left > before
        self.response_timeout = max(left - before if remind else left, _SHORTEST)
        self.subject = f"{planned['source']} → {planned['target']}: {planned['asked']}"
        with ended_by_our_errors(), storage_access(stripped(context["params"])["connection"]):
            self.assigned_users = _users(_triggered_by(context))
            shown = report_url(context["ti"].dag_id, context["ti"].run_id)
            self.body = _question(places_of(load_plan(planned["plan"])), shown, until)
        self.notifiers = [_Tried(one) for one in told]  # called when the question is there
        context["ti"].xcom_push(_ASKED, {"until": until.isoformat(), "remind": remind, "plan": planned["digest"]})
        super().execute(context)

    def _patience(self, minutes: float, ti: Any) -> timedelta:
        patience = timedelta(minutes=minutes)
        if self.closes is None:
            return patience
        return min(patience, datetime.fromisoformat(self.closes.by(ti)) - datetime.now(UTC))


class _Tried(BaseNotifier):
    """A notifier whose trouble is a warning: a plan waits for its answer even if nobody can be told of it."""

    def __init__(self, notifier: BaseNotifier) -> None:
        super().__init__()
        self.notifier = notifier

    def notify(self, context: Context) -> None:
        try:
            self.notifier(context)
        except Exception as error:
            log.warning("nobody was told by %s: %s", type(self.notifier).__name__, error)


def _users(triggered_by: str | None) -> list[HITLUser] | None:
    """Who may answer; None: everybody who may."""
    ours = settings().approval
    allowed = [name for name in ours.users if not (ours.four_eyes and name == triggered_by)]
    if ours.users and not allowed:
        raise RequestError(
            "nobody may approve the plan: who triggered the run is the only one who might",
            found=triggered_by,
            advice="have somebody else trigger it, or have more users in the settings of the platform (approval)",
        )
    return [{"id": name, "name": name} for name in allowed] or None


def _triggered_by(context: Context) -> str | None:
    return getattr(context["dag_run"], "triggering_user_name", None)


def _is(user: Any, name: str | None) -> bool:
    return user is not None and name in (user["id"], user["name"])


def _before_the_end() -> timedelta:
    """When somebody is reminded."""
    return timedelta(minutes=settings().approval.remind_minutes)


def _shown(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def _question(places: Places, report: str, until: datetime) -> str:
    question = read_document(places.plan_page).decode().partition(END_OF_QUESTION)[0]
    return (
        f"{question}\n\n[The report]({report}) shows what moves where, in pictures. "
        f"The whole plan: `{places.plan_page}`, and for programs `{places.plan}`\n\n"
        f"Without an answer until {_shown(until)} the plan counts as rejected."
    )
