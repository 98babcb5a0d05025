"""The first checkpoint of a job that was started from a result: it writes all state, and files are kept until then."""

from __future__ import annotations

from rescale.flink_rest.client import Flink
from rescale.text.units import duration, human_bytes


def first_checkpoint(flink: Flink, job_id: str) -> str:
    """Return a sentence on size and duration of the new job's first checkpoint, as far as the running job shows them.

    In NO_CLAIM mode Flink uploads all files again (`forceFullSnapshot`).
    """
    statistics = flink.checkpoints(job_id)
    last = statistics.latest.completed if statistics is not None and statistics.latest is not None else None
    size = "" if last is None else f" ({human_bytes(last.state_size)})"
    rate = None if statistics is None else statistics.bytes_per_second
    takes = "" if last is None or rate is None else f", for about {duration(last.state_size / rate)}"
    return (
        f"The new job's first checkpoint writes all of its state{size}{takes}. Keep the old job's last checkpoint "
        "until the new one is complete: you need it to go back, and the result may refer to its files."
    )
