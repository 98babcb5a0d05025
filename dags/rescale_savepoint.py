"""
### Rescale a savepoint

Reads a savepoint (or checkpoint) of a stopped Flink job, and moves every key group and every element of operator state
to the subtask that owns it in the **new shape** (parallelism and max parallelism). Then it proves that nothing is lost,
and publishes a savepoint that Flink restores. The source is never modified. Flink cannot restore the target until
everything has been validated.

| task | what it does |
|---|---|
| `inspect` | reads metadata and headers, checks that the snapshot is complete, and shows its contents in the log |
| `plan` | decides everything, logs and stores the plan with the versions of the source's files, and claims the target |
| `approve` | waits until somebody approves the plan; skipped if no approval is needed, red if the plan is rejected |
| `reshuffle_keyed_state` | moves keyed state; this task and the next two use Spark if a cluster is configured |
| `redistribute_operator_state` | deals operator state to the new subtasks |
| `validate` | reads source and result back, compares them, and writes the certificate |
| `publish` | puts `_metadata` into the target, with a single write |
| `announce` | adds an event to the asset `rescaled_savepoint`, unless it already has one of this result |
| `rejected` | removes the staged files of a plan that was rejected, or that nobody approved in time, and fails |
| `end` | decides the state of the run: green only if the result is published |

**If a task fails** for a reason that another try will not change (a damaged snapshot, a wrong request, a wrong result),
it fails at once, and its log ends with an error that says why and what to do. Network faults and lost processes are
retried. Every task may be killed and cleared at any time: the run resumes where it was.

**Afterwards** the log of `publish` shows the command that starts the job. The asset `rescaled_savepoint` gets an event
with the URI of the result, its shape, and the URI and SHA-256 of the certificate. *Plan only* shows a plan and moves
nothing. *Discard what an unpublished run left* removes the files of a run that did not publish.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.forms.form import rescale_form
from rescale.airflow.graph import savepoint_graph


@dag(
    dag_id="rescale_savepoint",
    dag_display_name="Rescale a savepoint",
    description="Change the shape of a Flink job's state: plan, move, prove, publish",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(rescale_form()),
)
def rescale_savepoint() -> None:
    savepoint_graph()


rescale_savepoint()
