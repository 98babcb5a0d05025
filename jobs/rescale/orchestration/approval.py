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

from rescale.orchestration.access import storage_access
from rescale.orchestration.attempts import ATTEMPTS, ended_by_our_errors
from rescale.orchestration.rescale_task import skip_task
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
        super().__init__(subject="May this rescale be carried out?", defaults=self.REJECT, **ATTEMPTS, **arguments)
        self.plan = plan
        self.on_reject = on_reject
        self.closes = closes

    def execute(self, context: Context) -> Any:
        params, planned = context["params"], context["ti"].xcom_pull(task_ids=self.plan)
        if not params["require_approval"] or planned["published"]:
            reason = "it was carried out already" if planned["published"] else "the form does not ask for it"
            skip_task(f"nobody has to approve the plan: {reason}")
        self.response_timeout = self._patience(params["approval_minutes"])
        with ended_by_our_errors(), storage_access(params["connection"]):
            self.body = _question(places_of(load_plan(planned["plan"])), datetime.now(UTC) + self.response_timeout)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        answer = HITLOperator.execute_complete(self, context, event)
        approved = answer["chosen_options"] == [self.APPROVE]
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


def _question(places: Places, until: datetime) -> str:
    return (
        f"{read_document(places.plan_page).decode()}\nThe whole plan: `{places.plan}`\n\n"
        f"Without an answer until {until:%Y-%m-%d %H:%M} UTC the plan counts as rejected."
    )
