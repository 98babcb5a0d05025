"""The whole pipeline on one machine: an S3 server and an embedded Airflow, with a savepoint of a real job.

`savepoint/` holds that savepoint. Everything runs in separate processes on 127.0.0.1 and in one temporary folder, and
is removed when the demo ends.
"""
