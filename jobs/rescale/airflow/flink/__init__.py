"""The Flink side of a rescale: take the job's savepoint, start the job from the result, or go back.

A task can be tried again: it finds the savepoint or the job that its first try began, because their ids are derived
from the DAG run. A FlinkDeployment is only patched if its specification is not yet as desired.

A *question* asks Flink for a savepoint, or for the start or the end of a job. Airflow's triggerer repeats the question
until there is an answer, so no worker waits. Only the tasks that cancel a job after a checkpoint wait in their workers.
"""
