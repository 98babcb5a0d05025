"""Spark master URLs, classified as by Spark's `SparkMasterRegex` and `SparkSubmit`."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_LOCAL_MASTER = re.compile(r"local(?:\[([1-9][0-9]{0,4}|\*)(?:\s*,\s*([1-9][0-9]{0,4}))?\])?")
_LOCAL_CLUSTER_MASTER = re.compile(r"local-cluster\[.*\]")
_CLUSTER_MASTER = re.compile(r"yarn|(spark|k8s)://.+")

MASTER_FORMS = "local[N], local[*], k8s://https://HOST:PORT, yarn or spark://HOST:PORT"
"""The kinds of masters, as errors list them."""


class LocalMaster(NamedTuple):
    """Spark in the driver's process, with `threads` threads (`*`: one per core) and `attempts` at a task, if given."""

    threads: str
    attempts: str | None

    @property
    def cores(self) -> int:
        """Number of tasks that run at once."""
        return os.cpu_count() or 1 if self.threads == "*" else int(self.threads)


def local_master(master: str | None) -> LocalMaster | None:
    """Return the local master of a URL; None for other masters, and for None, which leaves the choice to Spark."""
    match = _LOCAL_MASTER.fullmatch(master or "")
    return None if match is None else LocalMaster(match[1] or "1", match[2])


def is_on_this_machine(master: str | None) -> bool:
    """Return whether all of Spark runs on this machine: in the driver, or in executors that are its children."""
    return local_master(master) is not None or _LOCAL_CLUSTER_MASTER.fullmatch(master or "") is not None


def is_master_url(url: str) -> bool:
    return is_on_this_machine(url) or _CLUSTER_MASTER.fullmatch(url) is not None
