"""
### Plan only

Shows what *Rescale a savepoint* would do. The form is the same, without the fields for approval, proof and publication.
The run does not claim the target, which need not exist, and leaves nothing there. If a rescale would be refused, for
example because the target is occupied, the log and the report say so.

| task | what it does |
|---|---|
| `inspect` | reads metadata and headers, checks that the snapshot is complete, and shows its contents in the log |
| `plan` | decides everything as a run would; its log and its report show operators, work, bytes, evenness and costs |
| `check` | tests the target's store with probe files, and the worker if it runs steps; fails if a run would fail |
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.forms.form import plan_only_form
from rescale.airflow.graph import plan_only_graph


@dag(
    dag_id="rescale_plan",
    dag_display_name="Plan only",
    description="Show what a rescale of a savepoint would do; moves nothing",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(plan_only_form()),
)
def rescale_plan() -> None:
    plan_only_graph()


rescale_plan()
