"""
### Scale a job out when it is busy

Every ten minutes, reads how busy a job's busiest subtask is. If this subtask hardly ever waits, the job is stopped with
a savepoint, and started again with twice its parallelism. If anything fails after the stop, `start_again` starts the
job with its old parallelism, unless a job of this name runs.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, chain, task

from rescale.airflow import HandOverOperator, TakeSavepointOperator, rescale_task_group

LARGEST_PARALLELISM = 8
"""Parallelism above which the job is not scaled out."""

with DAG(
    "example_scale_out",
    schedule="*/10 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "flink": Param("http://jobmanager:8081", type="string"),
        "job": Param("clicks", type="string"),
        "jar": Param("clicks.jar", type="string"),
        "entry_class": Param(None, type=["null", "string"]),
        "program_arguments": Param([], type="array"),
        "savepoints": Param("s3://state/savepoints", type="string"),
        "target": Param("s3://state/rescaled", type="string"),
        "busy_ms": Param(900, type="number", description="busy time of the busiest subtask, in ms per second"),
    },
    render_template_as_native_obj=True,  # so that a list stays a list, and null stays null
) as dag:

    @task.short_circuit
    def shape_if_busy(params: dict[str, Any]) -> dict[str, int]:
        """Returns the old and the new parallelism of a job to scale out; otherwise {}, which skips all other tasks."""
        import httpx

        with httpx.Client(base_url=params["flink"]) as flink:
            jobs = flink.get("/jobs/overview").json()["jobs"]
            job_id = next(job["jid"] for job in jobs if job["name"] == params["job"] and job["state"] == "RUNNING")
            vertices = flink.get(f"/jobs/{job_id}").json()["vertices"]
            metric_name = "busyTimeMsPerSecond"
            busy_milliseconds = [
                metric_value["max"]
                for vertex in vertices
                for metric_value in flink.get(
                    f"/jobs/{job_id}/vertices/{vertex['id']}/subtasks/metrics",
                    params={"get": metric_name, "agg": "max"},
                ).json()
                if metric_value["max"] != "NaN"  # a source with the interface SourceFunction does not measure it
            ]
        busiest = max(busy_milliseconds, default=0)  # Flink lists no metrics of a job that has just started
        old_parallelism = max(vertex["parallelism"] for vertex in vertices)
        new_parallelism = min(2 * old_parallelism, LARGEST_PARALLELISM)
        print(f"the busiest subtask works {busiest} of 1000 ms; the parallelism is {old_parallelism}")
        return (
            {"old": old_parallelism, "new": new_parallelism}
            if busiest >= params["busy_ms"] and new_parallelism > old_parallelism
            else {}
        )

    @task(trigger_rule="one_failed")
    def refuse_second_job(params: dict[str, Any]) -> None:
        """Fails if a job of this name has not ended: `start_again` would start another one that does the same work."""
        import httpx

        with httpx.Client(base_url=params["flink"]) as flink:
            jobs = flink.get("/jobs/overview").json()["jobs"]
        ended_states = ("FINISHED", "CANCELED", "FAILED")
        running = [job for job in jobs if job["name"] == params["job"] and job["state"] not in ended_states]
        if running:
            raise RuntimeError(f"the job is not started again, because it has not ended: {running[0]['jid']}")

    shape: Any = shape_if_busy()
    program: Any = {
        "flink": "{{ params.flink }}",
        "jar": "{{ params.jar }}",
        "entry_class": "{{ params.entry_class }}",
        "program_arguments": "{{ params.program_arguments }}",
    }
    taken = TakeSavepointOperator(
        task_id="take_savepoint",
        flink="{{ params.flink }}",
        job="{{ params.job }}",
        savepoints="{{ params.savepoints }}",
        taking="stop",
    )
    rescaled = rescale_task_group(
        "rescale",
        source=taken.output["savepoint"],
        target="{{ params.target }}/{{ dag_run.run_after.strftime('%Y%m%d-%H%M%S') }}",
        parallelism=shape["new"],
    )
    started = HandOverOperator(task_id="start", start=rescaled.output["starting"], **program)
    started_again = HandOverOperator(
        task_id="start_again",
        start={"snapshot": taken.output["savepoint"], "parallelism": shape["old"], "max_parallelism": None},
        **program,
    )
    chain(shape, taken, rescaled, started, refuse_second_job(), started_again)
