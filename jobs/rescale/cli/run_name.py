"""Names of runs: a claim has the name of the run that made it."""

from __future__ import annotations

import os
import socket

_JOB_NAME_VARIABLE, _JOB_UID_VARIABLE = "RESCALE_JOB_NAME", "RESCALE_JOB_UID"
"""Variables with name and uid of the Kubernetes Job whose pod runs this process; empty in other pods of the chart."""


def name_of_this_job() -> dict[str, str] | None:
    """Return the name of the Kubernetes Job that this process is a try of; None outside of such a Job."""
    uid = os.environ.get(_JOB_UID_VARIABLE)
    return {"job": os.environ.get(_JOB_NAME_VARIABLE, ""), "uid": uid} if uid else None


def name_of_this_run() -> dict[str, str]:
    """Return the name of the Job that this process is a try of; outside of a Job, the host and the process id."""
    return name_of_this_job() or {"host": socket.gethostname(), "process": str(os.getpid())}
