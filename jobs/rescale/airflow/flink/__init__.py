"""The Flink side of a rescale: take the job's savepoint, start the job from the result, or go back.

Every action is idempotent. A request to Flink carries an id that is derived from the DAG run (the trigger id of a
savepoint, the id of a job), or describes a desired state (the specification of a FlinkDeployment). So a task that is
tried again finds what its first try began. A worker does not wait for slow operations: they become a *question*, which
Airflow's triggerer asks until there is an answer.
"""
