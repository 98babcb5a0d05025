"""
### Rescale a running job

Takes a running job's savepoint, rescales it as *Rescale a savepoint* does, and starts the job from the result: by the
command that it shows, as a jar of a session cluster, or by patching a `FlinkDeployment`.

| task | what it does |
|---|---|
| `look_at_job` | refuses what would fail later, and writes down all that it takes to start the job again |
| `take_savepoint` | has Flink write a savepoint, and stops or cancels the job if the form says so |
| `inspect` … `publish` | the rescale; see *Rescale a savepoint* |
| `hand_over` | starts the job from the result at its new shape, and waits until all of it runs |
| `go_back` | starts a job that was stopped again from its savepoint, at its old shape |
| `end` | says how it ended: the run is green only if the result is published and the job handed over |

**If anything fails** after the job was stopped, if the plan is rejected, or if the run is marked as failed, `go_back`
starts the job again. A hand-over that only shows a command cannot do that, so the job runs on then while its savepoint
is taken. Once the job was started again, the failed run is over: clearing its tasks is refused, another run takes
another savepoint.

**A native savepoint** is taken only if nothing is lost by it: the log of `look_at_job` says why, from the job's latest
checkpoint. The run is refused, while the job runs, if timers are on the heap beside RocksDB, if records cannot be read
that must be, or if no checkpoint shows either. A canonical one is refused where the job would fail at it: on ForSt, and
with asynchronous state.

**Misspelt uids, states that are not there and keys whose hash is not known** are refused while the job runs, if its
latest checkpoint shows them; the log of `look_at_job` warns if there is none that can be read.

**If the job has the shape already**, it is not stopped for it, and all other tasks are skipped.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.orchestration.job.job_flow import running_job_graph
from rescale.orchestration.job_form import job_form
from rescale.orchestration.settings import dag_arguments


@dag(
    dag_id="rescale_job",
    dag_display_name="Rescale a running job",
    description="Take a job's savepoint, change its shape, start the job from the result",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(job_form()),
)
def rescale_job() -> None:
    running_job_graph()


rescale_job()
