"""
### Discard what an unpublished run left

Removes the files and the claim of a run that did not publish, so that its target is free again. It never removes a
published result or files that Rescale did not write. It fails while the run that claims the target is running.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.forms.form import discard_form
from rescale.airflow.savepoint_tasks import discard_task


@dag(
    dag_id="rescale_discard",
    dag_display_name="Discard what an unpublished run left",
    description="Free a target whose run did not publish",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(discard_form()),
)
def rescale_discard() -> None:
    discard_task()


rescale_discard()
