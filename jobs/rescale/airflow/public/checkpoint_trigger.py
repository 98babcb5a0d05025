"""A trigger that fires on a job's new complete checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from rescale.text.errors import RescaleError


def newest_checkpoint(flink: str, job: str) -> dict[str, Any] | None:
    """Return the newest complete checkpoint of a job (name or id), or None if no checkpoint is stored in a directory.

    The result has the fields `checkpoint` (a URI), `id` (the checkpoint's number) and `job` (the job's id). Savepoints
    do not count. Raises `RequestError` if no such job runs.
    """
    from rescale.airflow.flink.flink_access import open_flink
    from rescale.flink_rest.responses import is_directory
    from rescale.flink_rest.running_job import find_job
    from rescale.storage.locations import normalise

    with open_flink(flink) as cluster:
        job_id = find_job(cluster.jobs(), job, cluster.address).job_id
        last_checkpoint = cluster.last_checkpoint(job_id)
    if (
        last_checkpoint is None
        or last_checkpoint.external_path is None
        or not is_directory(last_checkpoint.external_path)
    ):
        return None
    return {"checkpoint": normalise(last_checkpoint.external_path), "id": last_checkpoint.id, "job": job_id}


class CheckpointTrigger(BaseEventTrigger):
    """Trigger that fires whenever a job has a new complete checkpoint; use it with `AssetWatcher`.

    The event is `{"checkpoint": URI, "id": number, "job": id}`. A checkpoint that is complete when the trigger starts
    is not new, unless `after` names another one. If several checkpoints complete between two requests, the trigger
    fires once, for the newest. While Flink does not answer, or no such job runs, the trigger logs why and asks again.

    :param flink: address of Flink's REST API, or id of an Airflow connection of type http.
    :param job: name of a running job, if it is unique, or its id. A name also finds the job after it was started again.
    :param period: time between two requests, in seconds.
    :param after: URI of the last checkpoint that is not new; None for the newest one when the trigger starts.
    """

    def __init__(self, flink: str, job: str, period: float = 30, after: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flink = flink
        self.job = job
        self.period = period
        self.after = after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        class_path = f"{type(self).__module__}.{type(self).__qualname__}"
        return class_path, {"flink": self.flink, "job": self.job, "period": self.period, "after": self.after}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        known_uri, knows_uri = self.after, self.after is not None
        while True:
            try:
                newest = await asyncio.to_thread(newest_checkpoint, self.flink, self.job)
            except RescaleError as error:
                self.log.warning("%s", error)
            else:
                uri = newest["checkpoint"] if newest is not None else None
                if knows_uri and uri is not None and uri != known_uri:
                    yield TriggerEvent(newest)  # type: ignore[no-untyped-call]
                known_uri, knows_uri = uri or known_uri, True
            await asyncio.sleep(self.period)
