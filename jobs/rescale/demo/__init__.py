"""The whole pipeline on one machine: an S3 server and an embedded Airflow, on a savepoint of a real job.

`savepoint/` holds that savepoint. Everything runs in processes of its own on 127.0.0.1 and in one temporary folder,
and is gone when the demo ends.
"""
