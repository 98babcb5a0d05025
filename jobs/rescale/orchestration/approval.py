"""The question whether a plan may be carried out, and what becomes of the run that asks it.

Airflow parks the asking task without a worker (`TaskAwaitingInput`). An answer that does not come in time counts as
*Reject*: the scheduler gives the operator's default as the answer. What was staged is removed by a task of its own, so
that trouble with the store does not ask the question again; that task is red then, for a rejection shall be seen. A try
that is lost takes its answer along: the next one asks again. Where nobody is asked the task is skipped.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context
from airflow.sdk.execution_time.hitl import HITLUser

from rescale.errors import RequestError
from rescale.orchestration.access import storage_access
from rescale.orchestration.attempts import ATTEMPTS, ended_by_our_errors
from rescale.orchestration.form import stripped
from rescale.orchestration.question import END_OF_QUESTION
from rescale.orchestration.rescale_task import skip_task
from rescale.orchestration.settings import settings
from rescale.target.documents import load_plan, read_document
from rescale.target.places import Places, places_of

log = logging.getLogger(__name__)

ASK = "approve"

APPROVED = "approved"
"""The key of the XCom that holds the answer: whether the plan is `approved`, and in `words` by whom."""


class PlanApproval(ApprovalOperator):
    """Shows the plan of the task `plan` and waits for an answer, if the form asks for one.

    What comes next is the task `on_reject`, or all others that are directly downstream. `closes` is an instant in ISO
    format; after it nobody has to answer any more.
    """

    template_fields = ("closes",)

    def __init__(self, *, plan: str, on_reject: str, closes: Any, **arguments: Any) -> None:
        super().__init__(
            subject="May this rescale be carried out?",
            defaults=self.REJECT,
            notifiers=[one.made() for one in settings().notify.waiting],
            execution_timeout=None,  # else it would be the time to answer in
            **ATTEMPTS,
            **arguments,
        )
        self.plan = plan
        self.on_reject = on_reject
        self.closes = closes

    def execute(self, context: Context) -> Any:
        params, planned = stripped(context["params"]), context["ti"].xcom_pull(task_ids=self.plan)
        if not params["require_approval"] or planned["published"]:
            reason = "it was carried out already" if planned["published"] else "the form does not ask for it"
            skip_task(f"nobody has to approve the plan: {reason}")
        self.response_timeout = self._patience(params["approval_minutes"])
        self.subject = f"{planned['source']} → {planned['target']}: {planned['asked']}"
        with ended_by_our_errors(), storage_access(params["connection"]):
            self.assigned_users = _users(_triggered_by(context))
            self.body = _question(places_of(load_plan(planned["plan"])), datetime.now(UTC) + self.response_timeout)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = HITLOperator.execute_complete(self, context, event)
        approved = answer["chosen_options"] == [self.APPROVE]
        if approved and settings().approval.four_eyes and _is(answer["responded_by_user"], _triggered_by(context)):
            log.warning("who triggered the run may not approve its plan: it is asked again")
            self.execute(context)  # parks the task again
        if (user := answer["responded_by_user"]) is None:
            words = "nobody answered in time, so the plan is rejected"
        else:
            words = f"{'approved' if approved else 'rejected'} by {user['name']}"
        log.log(logging.INFO if approved else logging.WARNING, "%s", words)
        context["ti"].xcom_push(APPROVED, {"approved": approved, "words": words})
        tasks = self.get_direct_relatives(upstream=False)
        self.skip(context["ti"], [task for task in tasks if (task.task_id == self.on_reject) == approved])

    def _patience(self, minutes: float) -> timedelta:
        patience = timedelta(minutes=minutes)
        if self.closes is None:
            return patience
        return min(patience, max(timedelta(), datetime.fromisoformat(self.closes) - datetime.now(UTC)))


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


def _question(places: Places, until: datetime) -> str:
    question = read_document(places.plan_page).decode().partition(END_OF_QUESTION)[0]
    return (
        f"{question}\n\nThe whole plan: `{places.plan_page}`, and for programs `{places.plan}`\n\n"
        f"Without an answer until {until:%Y-%m-%d %H:%M} UTC the plan counts as rejected."
    )
