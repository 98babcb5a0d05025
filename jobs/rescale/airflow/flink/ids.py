"""Ids for Flink that are derived from the DAG run, so that all tries of a task use the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid5

from rescale.flink_rest.client import Flink

_UUID_NAMESPACE = UUID("5b0e1c4e-1d0f-5d0c-9a57-6f2f3a8e9b11")

_MOST_IDS = 100


def derived_ids(*seed_parts: str) -> Iterator[str]:
    """Yield ids of 32 hexadecimal digits (Flink's `AbstractID`), which depend on `seed_parts` only.

    If an id is in use, callers take the next one.
    """
    for number in range(_MOST_IDS):
        yield uuid5(_UUID_NAMESPACE, "\n".join([*seed_parts, str(number)])).hex


def running_job_id(flink: Flink, *seed: str) -> str | None:
    """Return the id of the running job that was started with this seed; None if no such job runs.

    Looks for all ids of the seed: if Flink has forgotten an ended job with the first id (`jobstore.expiration-time`),
    the job with the next id may still run.
    """
    running_ids = {job.job_id for job in flink.jobs() if not job.has_ended}
    return next((job_id for job_id in derived_ids(*seed) if job_id in running_ids), None)
