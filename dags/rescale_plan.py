"""
### Plan only

Shows what *Rescale a savepoint* would do, and does nothing: neither source nor target is written to, and nothing is
claimed. Fill in the same form; the target need not exist.

| task | what it does |
|---|---|
| `inspect` | reads metadata and headers: what is in the snapshot, and is it whole? Its log shows it |
| `plan` | decides everything as a run would; its log shows operators, work, bytes, evenness, costs and warnings |
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.orchestration.form import look_form
from rescale.orchestration.graph import look_graph
from rescale.orchestration.settings import dag_arguments


@dag(
    dag_id="rescale_plan",
    dag_display_name="Plan only",
    description="What a rescale of a savepoint would do; moves nothing",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(look_form()),
)
def rescale_plan() -> None:
    look_graph()


rescale_plan()
