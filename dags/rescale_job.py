"""
### Rescale a running job

Takes a running job's savepoint, rescales it as *Rescale a savepoint* does, and starts the job from the result. To start
it, the run submits a jar to a session cluster, patches a `FlinkDeployment`, or only prints the command for you.

With *Move the state while the job runs*, it follows the job's checkpoints instead, and stops the job only to move the
last changes.

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
| `end` | decides the state of the run: green only after publication and hand-over, or if nothing was to do |

**If anything fails** after the job was stopped, if the plan is rejected, or if the run is marked as failed, `go_back`
starts the job again. A run whose hand-over only prints a command could not do that, so it refuses to stop the job: let
the job run on while its savepoint is taken. After the job was started again, the failed run cannot be resumed: trigger
another run, which takes another savepoint.

**A native savepoint** is only taken if it loses nothing; the log of `look_at_job` says how the run knows that. With
RocksDB, the job's latest checkpoint must show that no timers are on the heap. With the hashmap backend and another max
parallelism or format, it must show that the records can be read. If it does not, or cannot be read itself, the run
fails before it stops the job.

**A canonical savepoint** of a job on ForSt, or with asynchronous state, is not taken, because the job would fail.

**Misspelt uids, unknown states and keys with an unknown hash** are refused before the job is stopped, if its latest
checkpoint shows them. The log of `look_at_job` has a warning if there is no readable checkpoint.

**If the job already has the requested shape**, it is not stopped, and all other tasks are skipped.
"""

from __future__ import annotations

from airflow.sdk import dag

from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.forms.job_form import job_form
from rescale.airflow.job.job_flow import rescale_running_job_tasks


@dag(
    dag_id="rescale_job",
    dag_display_name="Rescale a running job",
    description="Take a job's savepoint, change its shape, start the job from the result",
    doc_md=__doc__,
    schedule=None,
    **dag_arguments(job_form()),
)
def rescale_job() -> None:
    rescale_running_job_tasks()


rescale_job()
