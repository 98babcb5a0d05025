"""What Airflow runs: the form, the tasks, and how our errors, secrets and results look to Airflow.

Needs Airflow, as only the demo does beside it. It brings neither Spark nor boto3 into a worker that parses a DAG:
state is moved by processes of their own, and what the tasks themselves need of storage is loaded when they run.
"""
