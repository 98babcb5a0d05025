"""
### Rescale a savepoint

Reads a savepoint (or checkpoint) of a stopped Flink job, moves every key group and every element of operator state to
the subtask that will look for it in the **new shape**, proves that nothing was lost, and publishes a savepoint that
Flink restores. The source is never modified; Flink sees nothing in the target until everything has been validated.

| task | what it does |
|---|---|
| `inspect` | reads metadata and headers: what is in the snapshot, and is it whole? Its log shows it |
| `plan` | decides everything, pins the source, stores the plan and claims the target; its log shows the plan |
| `approve` | waits until somebody has approved the plan; skipped if the form does not ask for that |
| `reshuffle_keyed_state` | moves keyed state (a process of its own, Spark if there is enough to do) |
| `redistribute_operator_state` | deals operator state (a process of its own, Spark if there is enough to do) |
| `validate` | reads source and result back and compares them; writes the certificate (likewise) |
| `publish` | puts `_metadata` into the target, in one write |
| `announce` | gives the asset `rescaled_savepoint` an event, unless it has that of this result |
| `rejected` | removes what was staged for a plan that was rejected, or that nobody approved in time, and is red |
| `end` | says how it ended: the run is green only if the result is published |

**If a task fails** for a reason that another try will not change (a damaged snapshot, a request that makes no sense, a
result that does not add up), it fails at once and its log ends with one sentence that says why and what to do. Network
trouble and lost processes are tried again by themselves. Every task may be killed and cleared at any time: a run
goes on where it was.

**Afterwards** the log of `publish` shows the line that starts the job. The asset `rescaled_savepoint` gets an event
with the URI of the result, its shape, and the URI and SHA-256 of the certificate. What a run that did not publish left
behind is removed by *Discard what an unpublished run left*; *Plan only* shows a plan and moves nothing.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.orchestration.form import rescale_form
from rescale.orchestration.graph import savepoint_graph
from rescale.orchestration.settings import dag_arguments


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
