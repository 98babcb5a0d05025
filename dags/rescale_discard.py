"""
### Discard what an unpublished run left

Removes the files and the claim of a run that did not publish, so that its target is free again. It never touches a
published result or files that are not ours, and refuses while the run that claims the target goes on.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.orchestration.form import discard_form
from rescale.orchestration.savepoint_tasks import discard_left
from rescale.orchestration.settings import dag_arguments


@dag(
    dag_id="rescale_discard",
    dag_display_name="Discard what an unpublished run left",
    description="Free a target whose run did not publish",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(discard_form()),
)
def rescale_discard() -> None:
    discard_left()


rescale_discard()
