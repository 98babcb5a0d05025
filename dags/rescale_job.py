"""
### Rescale a running job

Takes a running job's savepoint, rescales it as *Rescale a savepoint* does, and starts the job from the result: by
running a jar on a session cluster, by patching a `FlinkDeployment`, or by a command that it prints for you.

With *Move the state while the job runs* it follows the job's checkpoints instead, and stops the job only for the last
changes.

| task | what it does |
|---|---|
| `look_at_job` | refuses what would fail later, and stores everything that is needed to start the job again |
| `copy_files_ahead` | with *checkpoint, then cancel*: copies RocksDB's files that the result takes, before the stop |
| `take_savepoint` | lets Flink write a savepoint, and stops or cancels the job if the form says so |
| `follow_and_cut_over` | with *Move the state while the job runs*: moves the state, cuts over and starts the new job |
| `ask_to_cut_over` | asks for the cut-over, if somebody has to approve it |
| `compare_all_records` | compares all records after the cut-over, while the new job runs |
| `inspect` … `publish` | the rescale; see *Rescale a savepoint* |
| `hand_over` | starts the job from the result with its new shape, and waits until all of its tasks run |
| `go_back` | starts a stopped job again from its savepoint, with its old shape |
| `end` | decides the state of the run: green only if the result is published and the job handed over |

**If anything fails** after the job was stopped, if the plan is rejected, or if the run is marked as failed, `go_back`
starts the job again. If the hand-over only prints a command, `go_back` cannot start the job, so the job keeps running
while its savepoint is taken. After the job was started again, the failed run cannot be resumed: trigger another run,
which takes another savepoint.

**A native savepoint** is only taken if the job's latest checkpoint shows that it loses nothing; the log of
`look_at_job` says why. The run fails before it stops the job if timers are on the heap beside RocksDB, if the request
needs records that cannot be read, or if there is no readable checkpoint. A canonical savepoint is refused if the job
would fail to take it: on ForSt, and with asynchronous state.

**Misspelt uids, unknown states and keys with an unknown hash** are refused before the job is stopped, if its latest
checkpoint shows them. The log of `look_at_job` has a warning if there is no readable checkpoint.

**If the job already has the requested shape**, it is not stopped, and all other tasks are skipped.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.forms.job_form import job_form
from rescale.airflow.job.job_flow import running_job_graph


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
