"""The report of a run, one click away from its tasks in Airflow."""
