"""Access of a run to storage and Spark: Airflow connections, and the credentials that steps get from them."""
