"""The Flink side of a rescale: the job's savepoint before it, its start from the result after it, and the way back.

Everything that acts is idempotent: what is asked of Flink carries an id that follows from the DAG run (the trigger id
of a savepoint, the id of a job), or is a state to be in (the specification of a FlinkDeployment). So a task that is
tried again finds what its first try began. What takes long is not waited for in a worker: it becomes a *question* with
an answer to come, and Airflow's triggerer asks it.
"""
