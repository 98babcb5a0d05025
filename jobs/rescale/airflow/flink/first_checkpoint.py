"""Describes the first checkpoint of a job that is started from a result: it writes all of the job's state.

Until that checkpoint is complete, the old job's last checkpoint has to be kept.
"""

from __future__ import annotations

from rescale.flink_rest.client import Flink
from rescale.text.units import duration, human_bytes


def first_checkpoint_text(flink: Flink, job_id: str) -> str:
    """Return sentences on the new job's first checkpoint, with a size and duration from the running job's checkpoints.

    `job_id` is the running job. In NO_CLAIM mode Flink uploads all files again (`forceFullSnapshot`).
    """
    statistics = flink.checkpoints(job_id)
    last_completed = statistics.latest.completed if statistics is not None and statistics.latest is not None else None
    size_text = "" if last_completed is None else f" ({human_bytes(last_completed.state_size)})"
    rate = None if statistics is None else statistics.bytes_per_second
    duration_text = (
        "" if last_completed is None or rate is None else f", for about {duration(last_completed.state_size / rate)}"
    )
    return (
        f"The new job's first checkpoint writes all of its state{size_text}{duration_text}. Keep the old job's last "
        "checkpoint until the new one is complete: you need it to go back, and the result may refer to its files."
    )
