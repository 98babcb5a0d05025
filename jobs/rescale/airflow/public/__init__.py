"""Operators, a sensor, a task group and a trigger for users' DAGs. Import them from `rescale.airflow`."""
