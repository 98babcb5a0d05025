"""What gives a run access to its storage: connections of Airflow, and credentials that go to steps."""
