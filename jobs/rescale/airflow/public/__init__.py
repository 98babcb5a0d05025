"""Operators, a task group and a trigger for other people's DAGs. Import them from `rescale.airflow`."""
